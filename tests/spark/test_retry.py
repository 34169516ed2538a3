"""A server that is away for a while is waited for, by all that connects or asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server
from pgq.spark._commit import commit_tasks
from pgq.spark._fetch import Database, read_ranges
from pgq.spark._options import Options, parse_options
from pgq.spark._rows import Rows
from pgq.spark._send import send
from pgq.spark._staged import Staged
from pgq.spark._write_options import WriterOptions, parse_writer_options
from support import servers
from support.session import Session
from support.shards import location_of
from support.waiting import wait_until

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.slow

ROWS = 12_000


class Frail:
    """A server that is killed, with a topic of two partitions."""

    def __init__(self, server: Server) -> None:
        self.server = servers.start(server)
        self.url, properties = location_of(server.dsn)
        self.place = {"url": self.url, **properties, "topic": "readings"}
        with self.session() as log:
            log.execute("create extension pgq")
            log.create_topic(topic="readings", partitions=2)

    def session(self) -> Session:
        return Session.connect(self.server.dsn, autocommit=True)

    def fail(self, seconds: float = 0) -> Timer | None:
        """Kill the server, and start it again; while the caller goes on, after some seconds."""
        self.server.kill()
        if not seconds:
            self.server.restart()
            return None
        timer = Timer(seconds, self.server.restart)
        timer.start()
        return timer

    def values(self) -> list[int]:
        with self.session() as log:
            found = log.execute("select body from pgq.messages").fetchall()
        return sorted(int(body) for (body,) in found)

    @property
    def reading(self) -> Options:
        return parse_options(self.place)

    @property
    def writing(self) -> WriterOptions:
        return parse_writer_options(self.place, streaming=False)


def frail() -> Iterator[Frail]:
    # what was committed is there after a kill
    server = Server(settings={**servers.FAST, "synchronous_commit": "on"})
    try:
        yield Frail(server)
    finally:
        server.stop()


@pytest.fixture
def one() -> Iterator[Frail]:
    yield from frail()


@pytest.fixture
def two() -> Iterator[Frail]:
    yield from frail()


def rows() -> Any:
    from pyspark.sql import types as T

    schema = T.StructType().add("value", T.StringType()).add("key", T.StringType())
    return Rows(schema, topic="readings", queue=None, value_is_json=False)


def batch_of(numbers: range) -> Any:
    texts = [str(number) for number in numbers]
    return pa.RecordBatch.from_pydict({"value": texts, "key": texts})


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is a task of Spark."""
    from pyspark import TaskContext

    context = TaskContext()
    context._partitionId = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(TaskContext, "_taskContext", context)


# ---------------------------------------------------------------------------- by psycopg


def test_a_connection_waits(one: Frail) -> None:
    """Also one that was open, and with a server that answers while it recovers."""
    database = Database(one.reading)
    assert database.logs()["readings"].partitions.keys() == {0, 1}
    one.fail()
    assert database.logs()["readings"].partitions.keys() == {0, 1}
    timer = one.fail(1.5)
    assert database.topics() == ["readings"]
    assert database.logs()["readings"].partitions.keys() == {0, 1}
    database.close()
    timer.join()
    timer = one.fail(1.5)
    one.reading.connect().close()
    timer.join()


def test_what_would_not_help_is_an_error_at_once(one: Frail) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        parse_options({**one.place, "url": one.url + "_other"}).connect()
    with pytest.raises(psycopg.OperationalError, match="does not support SSL"):
        parse_options({**one.place, "sslmode": "require"}).connect()
    one.server.kill()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        parse_options({**one.place, "retryTimeout": "0s"}).connect()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        parse_options({**one.place, "retryTimeout": "500ms"}).connect()


def test_a_range_is_read_on(one: Frail) -> None:
    """From the message behind the last one that came, and none twice."""
    from pgq.messages import OffsetRange

    with one.session() as log:
        log.execute(
            "select pgq.publish_batch('readings', array("
            " select to_jsonb(repeat('x', 1000)) from generate_series(1, %s)), partition => 0)",
            [ROWS],
        )
    found = read_ranges(one.reading, "readings", [OffsetRange(0, 1, 10), OffsetRange(0, 11, ROWS)])
    offsets = next(found)["offset"].to_pylist()
    one.fail()
    assert len(offsets) < ROWS
    for batch in found:
        offsets += batch["offset"].to_pylist()
    assert offsets == list(range(1, ROWS + 1))


def staged(*servers: Frail, lost: Frail, options: WriterOptions | None = None) -> Staged:
    """A task that loses a server between its batches."""

    def batches() -> Iterator[Any]:
        yield batch_of(range(9000))
        lost.fail()
        yield batch_of(range(9000, 10_000))

    options = options or servers[0].writing
    return Staged(0, tuple(send(batches(), rows(), options, 0)), None)


def test_a_task_sends_again(task: None, one: Frail) -> None:
    """What the lost transaction had, once."""
    sent = staged(one, lost=one)
    assert one.values() == []
    commit_tasks(one.writing, None, None, [sent])
    assert one.values() == list(range(10_000))
    with one.session() as log:
        assert log.execute("select count(*) from pgq.staged_chunk").fetchone() == (0,)


def test_a_task_that_has_sent_too_much_fails(task: None, one: Frail, monkeypatch: Any) -> None:
    """Spark runs it again."""
    monkeypatch.setattr("pgq.spark._send.KEPT_BYTES", 100_000)
    with pytest.raises(psycopg.OperationalError):
        staged(one, lost=one)


def test_a_write_over_two_servers(task: None, one: Frail, two: Frail) -> None:
    """One is lost while a task sends, and one before the commit."""
    urls = f"{one.url} {two.url}"
    options = parse_writer_options({**one.place, "url": urls}, streaming=False)
    sent = staged(one, two, lost=two, options=options)
    timer = two.fail(2)
    commit_tasks(options, "loader", 1, [sent])
    timer.join()
    assert one.values()
    assert two.values()
    assert sorted([*one.values(), *two.values()]) == list(range(10_000))
    assert all(state.duplicate for state in commit_tasks(options, "loader", 1, [sent]))


# ---------------------------------------------------------------------------- by Spark


def numbers(spark: Any, gate: Path) -> Any:
    """Rows that a task makes when a file is there."""

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            while not gate.exists():
                time.sleep(0.05)
            yield batch

    found = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as value")
    return found.mapInArrow(wait, found.schema)


@pytest.mark.parametrize(
    ("atomic", "name"), [(True, {"producer": "loader", "seq": 1}), (True, {}), (False, {})]
)
def test_publish_goes_on(
    spark: Any, one: Frail, tmp_path: Path, atomic: bool, name: dict[str, Any]
) -> None:
    """The tasks fail four times while the server is away; then all is done again."""
    from concurrent.futures import ThreadPoolExecutor

    from pgq.spark import Pgq

    gate = tmp_path / "gate"
    broker = Pgq(spark, one.url, {"user": one.place["user"]})
    with ThreadPoolExecutor() as pool:
        work = pool.submit(
            broker.publish, numbers(spark, gate), topic="readings", atomic=atomic, **name
        )
        with one.session() as log:
            wait_until(
                lambda: log.execute("select from pgq.bulk_write").rowcount > 0 or work.done(), 60
            )
        timer = one.fail(5)
        gate.touch()
        done = work.result(120)
        timer.join()
    assert (done.messages, done.duplicate) == (1000, False)
    assert one.values() == list(range(1000))


def test_calls_of_the_driver_wait(spark: Any, one: Frail) -> None:
    from pgq.spark import Pgq

    broker = Pgq(spark, one.url, {"user": one.place["user"]})
    timer = one.fail(2)
    assert broker.read(topic="readings").count() == 0
    timer.join()


@pytest.mark.parametrize("way", ["sink", "writer"])
def test_a_stream_goes_on(spark: Any, one: Frail, tmp_path: Path, way: str) -> None:
    """Its server is killed again and again while it copies; each message comes once."""
    from pgq.spark import Pgq, register

    register(spark)
    with one.session() as log:
        log.create_topic(topic="copies", partitions=2)
    place = {name: value for name, value in one.place.items() if name != "topic"}
    stream = spark.readStream.format("pgq").options(**one.place, startingOffsets="earliest").load()
    writer = stream.select("value").writeStream.option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    )
    if way == "sink":
        broker = Pgq(spark, one.url, {"user": one.place["user"]})
        query = writer.foreachBatch(broker.sink(topic="copies", producer="copy")).start()
    else:
        query = writer.format("pgq").options(**place, topic="copies").start()

    def copied(log: Session) -> int:
        return log.execute("select from pgq.messages where topic = 'copies'").rowcount

    published = 0
    try:
        for seconds in (3, 0):
            with one.session() as log:
                for _ in range(2):
                    bodies = [str(published + number).encode() for number in range(500)]
                    log.execute("select pgq.publish_batch('readings', bodies => %s)", [bodies])
                    published += 500
            timer = one.fail(seconds)
            if timer is not None:
                timer.join()
            assert query.isActive, query.exception()
        with one.session() as log:
            wait_until(lambda: copied(log) >= published or not query.isActive, 120)
            assert query.isActive, query.exception()
            found = log.execute("select body from pgq.messages where topic = 'copies'").fetchall()
        assert sorted(int(body) for (body,) in found) == list(range(published))
    finally:
        query.stop()
