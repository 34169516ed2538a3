"""Topics over two servers: drivers that are killed, and a server that goes down and comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server
from support.cluster import Driver
from support.house import install_script
from support.session import Session
from support.shards import Shards, location_of
from support.stage import ROWS, TASKS, Stage

pytest.importorskip("pyspark")

StartServer = Callable[..., Server]


@pytest.fixture
def servers(start_server: StartServer) -> list[Server]:
    """Two servers with pgq; what they answered for survives their crash."""
    found = [start_server(settings={"synchronous_commit": "on"}) for _ in range(2)]
    for server in found:
        with Session.connect(server.dsn, autocommit=True) as session:
            session.execute(install_script())
    return found


@pytest.fixture
def both(servers: list[Server]) -> Iterator[Shards]:
    """Both as the shards of topics."""
    with Shards([server.dsn for server in servers]) as found:
        yield found


@pytest.fixture
def second(both: Shards, servers: list[Server]) -> Stage:
    """The second server, with a topic that the first one has too, to stop a write there."""

    def connect(**options: Any) -> Session:
        return Session.connect(servers[1].dsn, **options)

    stage = Stage(connect, location_of(servers[1].dsn))
    both.logs[0].create_topic(topic=stage.topic, partitions=TASKS)
    return stage


def order(both: Shards, stage: Stage, work: str) -> dict[str, Any]:
    """A write to both."""
    found = {**stage.order(), "url": both.urls, "properties": both.properties}
    if work == "save":
        found["options"] = {"producer": "loader", "seq": 1, "chunkRows": 100}
    return found


def assert_every_row_once(both: Shards, topic: str) -> None:
    """Each of them has its part."""
    assert sorted(map(int, both.all(topic))) == list(range(ROWS))
    assert min(map(len, both.bodies(topic))) > 0


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """A driver to be killed."""
    with Driver("local[2]", tmp_path / "driver.log") as started:
        yield started


@pytest.fixture
def next_driver(tmp_path: Path) -> Iterator[Driver]:
    """The one that comes after it."""
    with Driver("local[2]", tmp_path / "next.log") as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "fate"),
    [
        ("publish", "rolls back"),
        pytest.param("save", "commits", marks=pytest.mark.long),
    ],
)
def test_the_driver_is_killed_between_two_commits(
    driver: Driver, next_driver: Driver, both: Shards, second: Stage, work: str, fate: str
) -> None:
    """The first server has its part, the second one not yet; the next run completes it."""
    topic = second.topic
    second.stop_commit_after("update of committed_at on pgq.bulk_write")
    with second.barrier():
        driver.start(work, **order(both, second, work))
        (committing,) = second.until_waiting("advisory", "commit")
        assert len(both.bodies(topic)[0]) > 0
        assert both.bodies(topic)[1] == []
        driver.kill()
        if fate == "rolls back":
            second.terminate(committing)
    second.until_gone(committing)
    assert (both.bodies(topic)[1] == []) == (fate == "rolls back")
    answer = next_driver.run(work, **order(both, second, work))
    assert answer == (
        {"messages": ROWS, "duplicate": fate == "commits"} if work == "publish" else None
    )
    assert_every_row_once(both, topic)


@pytest.mark.slow
def test_the_driver_is_killed_before_it_commits(
    driver: Driver, next_driver: Driver, both: Shards, second: Stage
) -> None:
    """Neither server has anything, though one had done all but to commit."""
    with second.partitions_locked():
        driver.start("publish", **order(both, second, "publish"))
        (committing,) = second.until_waiting("transactionid", "%pgq.commit_write%")
        driver.kill()
        second.terminate(committing)
    assert both.all(second.topic) == []
    assert next_driver.run("publish", **order(both, second, "publish"))["messages"] == ROWS
    assert_every_row_once(both, second.topic)


@pytest.mark.slow
def test_a_server_is_lost_in_its_commit(
    next_driver: Driver, servers: list[Server], both: Shards, second: Stage, tmp_path: Path
) -> None:
    """The stream ends, and says where the batch is; when the server is back it is completed.

    While it is down, nothing is read and nothing is written, in either of them.
    """
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "0.txt").write_text("".join(f"{number}\n" for number in range(ROWS // 2)))
    topic = second.topic
    work = {
        **order(both, second, "save"),
        "retry_seconds": 1,  # then it is lost for good
        "lines": str(lines),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    second.stop_commit_after("update of committed_at on pgq.bulk_write")
    # whoever holds the barrier is lost with its server
    with suppress(psycopg.OperationalError), second.barrier():
        next_driver.start("save_stream", **work)
        second.until_waiting("advisory", "commit")
        servers[1].kill()
        answer = next_driver.result()
    assert "in the shards [0], and not in [1]" in answer["error"]
    first = both.bodies_of(0, topic)
    assert len(first) > 0

    (lines / "1.txt").write_text("".join(f"{number}\n" for number in range(ROWS // 2, ROWS)))
    assert "error" in next_driver.run("save_stream", **work)
    reading = {**work, "options": {}}
    assert "error" in next_driver.run("read", **reading)
    assert both.bodies_of(0, topic) == first

    servers[1].restart()
    both.reconnect(1)
    second.connection = both.logs[1]
    second.open_barrier()
    assert next_driver.run("save_stream", **work) is None
    assert_every_row_once(both, topic)
    rows = next_driver.run("read", **reading)
    assert sorted(int(value) for _, _, value in rows) == list(range(ROWS))


@pytest.mark.slow
def test_from_two_servers_to_two_servers(
    driver: Driver,
    next_driver: Driver,
    servers: list[Server],
    both: Shards,
    second: Stage,
    tmp_path: Path,
) -> None:
    """A stream whose driver is killed, and whose source goes down, has each message once."""
    source = both.create("source")
    for number in range(ROWS):
        both.logs[number % 2].publish(topic=source, payload=number)
    work = {
        **order(both, second, "save"),
        "retry_seconds": 1,
        "source": source,
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    second.stop_commit_after("update of committed_at on pgq.bulk_write")
    with second.barrier():
        driver.start("copy", **work)
        (committing,) = second.until_waiting("advisory", "commit")
        driver.kill()
        second.terminate(committing)
    assert both.bodies(second.topic)[1] == []
    servers[0].kill()
    assert "error" in next_driver.run("copy", **work)
    servers[0].restart()
    both.reconnect(0)
    both.logs[0].publish(topic=source, payload=ROWS)
    second.open_barrier()
    next_driver.run("copy", **work)
    next_driver.run("copy", **work)
    assert sorted(map(int, both.all(second.topic))) == list(range(ROWS + 1))
    offsets = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]"), key=lambda path: path.name)
    position = json.loads(offsets.read_text().splitlines()[-1])
    assert len(position["@shards"]) == 2
