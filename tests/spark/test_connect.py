"""Spark Connect: writing, reading and streaming work without a JVM at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server
from pgq.local_spark import SparkSetupError, find_java, find_jdbc_driver
from support.bulk import MODES, contents_of, staged, waiting
from support.cluster import Driver, Talkative, all_that_it_says, grant, guarded_role
from support.log import new_topic
from support.queue import new_queue
from support.session import Session
from support.shards import Shards

for module in ("pyspark", "grpc", "grpc_status", "zstandard"):
    pytest.importorskip(module)

pytestmark = pytest.mark.slow  # it has a server of Spark Connect of its own

Location = tuple[str, dict[str, str]]
PASSWORD = "S3CRET-of-the-client"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Talkative:
    """What the driver tells."""
    return Talkative(tmp_path_factory.mktemp("connect"))


@pytest.fixture(scope="module")
def driver(told: Talkative) -> Iterator[Driver]:
    """A process with a session of Spark Connect; a process can have only one kind of session."""
    try:
        find_java()
        find_jdbc_driver()
    except SparkSetupError as error:
        pytest.skip(str(error))
    with Driver("local[2]", told.log, connect=True, conf=told.conf) as started:
        yield started


@pytest.fixture(scope="module")
def role(server: Server) -> Iterator[str]:
    """A role that has to give a password."""
    with guarded_role(server, PASSWORD) as name:
        yield name


@pytest.fixture
def client(connection: psycopg.Connection[Any], role: str) -> Session:
    """The client of the test itself; the role may write and read."""
    grant(connection, role)
    return connection


@pytest.fixture
def order(client: Session, location: Location, role: str) -> dict[str, Any]:
    """A write of ten numbers by two tasks, and where to."""
    return {
        "url": location[0],
        "properties": {"user": role, "password": PASSWORD},
        "topic": new_topic(client),
        "queue": new_queue(client),
        "rows": 10,
        "tasks": 2,
        "options": {},
    }


NUMBERS = [str(number).encode() for number in range(10)]


@MODES
def test_publish_and_read(
    driver: Driver, client: Session, order: dict[str, Any], atomic: bool
) -> None:
    options = {"atomic": atomic, "producer": "p", "seq": 1, "chunk_rows": 2}
    first = driver.run("publish", **{**order, "options": options})
    again = driver.run("publish", **{**order, "options": options})
    assert (first, again) == (
        {"messages": 10, "duplicate": False},
        {"messages": 10, "duplicate": True},
    )
    assert sorted(contents_of(client, order["topic"])[0]) == NUMBERS
    rows = driver.run("read", **order)
    assert [offset for _, offset, _ in sorted(rows)] == list(range(1, 11))
    assert sorted(value.encode() for _, _, value in rows) == NUMBERS


def test_enqueue(driver: Driver, client: Session, order: dict[str, Any]) -> None:
    assert driver.run("enqueue", **order) == {"messages": 10, "duplicate": False}
    assert sorted(waiting(client, order["queue"])) == NUMBERS


def test_a_sink_writes_each_batch_once(
    driver: Driver, client: Session, order: dict[str, Any], tmp_path: Path
) -> None:
    order["options"] = {"producer": "query"}
    lines = tmp_path / "lines"
    lines.mkdir()
    places = {"lines": str(lines), "checkpoint": str(tmp_path / "checkpoint")}
    for number in range(2):
        (lines / f"{number}.txt").write_text(f"{number}\n")
        assert driver.run("stream", **places, **order) == number
    # a batch that is run again, because its end was not noted
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink()
    assert driver.run("stream", **places, **order) == 1
    assert contents_of(client, order["topic"]) == {0: [b"0", b"1"]}


def test_a_topic_is_copied_by_the_streaming_source(
    driver: Driver, client: Session, order: dict[str, Any], role: str, tmp_path: Path
) -> None:
    client.execute(f"grant execute on function pgq.fetch_packed to {role}".encode())
    order["source"] = new_topic(client)
    places = {"checkpoint": str(tmp_path / "checkpoint")}
    for expected in (NUMBERS[:5], NUMBERS):
        client.publish_batch(topic=order["source"], bodies=expected[-5:])
        answer = driver.run("copy", **places, **order)
        assert not isinstance(answer, dict), answer
        assert contents_of(client, order["topic"]) == {0: expected}


def test_the_data_source_writes(
    driver: Driver, client: Session, order: dict[str, Any], role: str, tmp_path: Path
) -> None:
    client.execute(f"grant execute on function pgq.write_chunk to {role}".encode())
    order["options"] = {"producer": "p", "seq": 1}
    for _ in range(2):
        assert driver.run("save", **order) is None
        assert sorted(contents_of(client, order["topic"])[0]) == NUMBERS
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "0.txt").write_text("10\n")
    places = {"lines": str(lines), "checkpoint": str(tmp_path / "checkpoint")}
    for _ in range(2):
        assert driver.run("save_stream", **places, **order) is None
        assert contents_of(client, order["topic"])[0][10:] == [b"10"]
        # a batch that is run again, because its end was not noted
        (tmp_path / "checkpoint" / "commits" / "0").unlink()
        (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()


def test_a_failed_write_leaves_nothing(
    driver: Driver, client: Session, order: dict[str, Any]
) -> None:
    answer = driver.run("publish_failing", **order)
    assert "the task fails for good" in answer["error"]
    assert contents_of(client, order["topic"]) == {}
    assert staged(client) == 0


def test_consume_is_refused(driver: Driver, order: dict[str, Any]) -> None:
    answer = driver.run("consume", group="readers", **order)
    assert answer["error"].startswith("NotImplementedError: ")
    assert "Spark Connect" in answer["error"]
    assert "classic session" in answer["error"]


def test_a_password_is_shown_nowhere(
    driver: Driver, told: Talkative, order: dict[str, Any]
) -> None:
    driver.run("publish", **order)
    several = {**order, "url": [order["url"]]}
    assert driver.run("publish", **several)["messages"] == 10
    said = {
        **all_that_it_says(driver, order),
        "several": driver.run("publish", **{**several, "topic": "nowhere"}),
        "several, plans": driver.run("explain", **several),
    }
    assert 'unknown topic "nowhere"' in said["several"]["error"]
    # Each says what it is about, so this is the place where a password would be.
    assert "JDBCRelation" in said["plans"]
    assert 'unknown topic "nowhere"' in said["unknown topic, written"]["error"]
    assert 'unknown topic "nowhere"' in said["unknown topic, read"]["error"]
    assert "the task fails for good" in said["failing task"]["error"]
    assert "connection" in said["unknown host"]["error"]
    assert "password authentication failed" in said["wrong password"]["error"]
    log, events = told.log.read_text(), told.events()
    assert " INFO " in log
    assert "the task fails for good" in log
    assert "write_chunks" in events
    for place, text in {**said, "log": log, "events": events}.items():
        assert PASSWORD not in str(text), place


def test_several_databases(driver: Driver, shards: Shards) -> None:
    """Are written by tasks, committed by one, and read; a name holds, and a row is refused."""
    topic = shards.create("readings")
    work = {
        "url": shards.urls,
        "properties": shards.properties,
        "topic": topic,
        "rows": 100,
        "tasks": 2,
        "options": {"producer": "loader", "seq": 1},
    }
    assert driver.run("publish", **work) == {"messages": 100, "duplicate": False}
    assert driver.run("publish", **work) == {"messages": 100, "duplicate": True}
    assert "with other messages" in driver.run("publish", **{**work, "rows": 99})["error"]
    few = {**work, "options": {"expected_messages": 99}}
    assert "is 99, but there are 100" in driver.run("publish", **few)["error"]
    assert sorted(map(int, shards.all(topic))) == list(range(100))
    assert shards.open_writes() == 0
    rows = driver.run("read", **{**work, "options": {}})
    assert sorted(int(value) for _, _, value in rows) == list(range(100))
