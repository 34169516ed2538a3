"""Streams by the data source pgq: ``spark.readStream.format("pgq")``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from support.clock import Clock
from support.log import new_topic
from support.session import Connect, Session
from support.waiting import wait_until

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]
PASSWORD = "S3CRET-of-the-stream"
DRIVER = Path(__file__).resolve().parent / "source_driver.py"
PATIENCE = 120.0


@pytest.fixture
def own(connection: psycopg.Connection[Any]) -> Session:
    """The log in a database of the test's own."""
    return connection


class Stream:
    """A query from a topic to the table ``public.got``, with a checkpoint, run again and again."""

    source = "pgq"

    def __init__(self, spark: Any, location: Location, dsn: str, checkpoint: Path) -> None:
        url, properties = location
        self._spark = spark
        self._dsn = dsn
        self._options = {"url": url, **properties, "password": PASSWORD}
        self.checkpoint = checkpoint
        self.before_commit: Callable[[int], None] = lambda batch_id: None
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "create table public.got (batch bigint, partition int, log_offset bigint,"
                " value text, primary key (partition, log_offset, value))"
            )

    def start(self, topic: str, *, available_now: bool = True, **options: object) -> Any:
        """Start the query."""
        frame = (
            self._spark.readStream.format(self.source)
            .options(**self._options)
            .option("topic", topic)
            .options(**options)
            .load()
        )
        trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        return (
            frame.writeStream.option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .foreachBatch(self._write)
            .start()
        )

    def run(self, topic: str, **options: object) -> list[list[tuple[int, int]]]:
        """Run the query to the end of what is there; partition and offset of all that it got."""
        query = self.start(topic, **options)
        query.awaitTermination()
        return self.batches()

    def fail(self, topic: str, **options: object) -> str:
        """Run the query, which must fail, and return the error."""
        query = self.start(topic, **options)
        with pytest.raises(Exception, match="pgq") as caught:
            query.awaitTermination()
        return str(caught.value)

    def _write(self, frame: Any, batch_id: int) -> None:
        rows = [
            (batch_id, row["partition"], row["offset"], bytes(row["value"]).decode())
            for row in frame.collect()
        ]
        with psycopg.connect(self._dsn) as connection:
            # a row that comes twice is an error here
            connection.cursor().executemany("insert into public.got values (%s, %s, %s, %s)", rows)
            self.before_commit(batch_id)

    def batches(self) -> list[list[tuple[int, int]]]:
        """What came so far, by batch."""
        with psycopg.connect(self._dsn) as connection:
            rows = connection.execute(
                "select batch, partition, log_offset from public.got order by 1, 2, 3"
            ).fetchall()
        found: dict[int, list[tuple[int, int]]] = {}
        for batch, partition, offset in rows:
            found.setdefault(batch, []).append((partition, offset))
        return list(found.values())


@pytest.fixture
def stream(spark: Any, location: Location, dsn: str, tmp_path: Path) -> Iterator[Stream]:
    """A stream with a checkpoint of its own; its queries are stopped at the end."""
    from pgq.spark._source import PgqDataSource

    spark.dataSource.register(PgqDataSource)
    yield Stream(spark, location, dsn, tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def plain(spark: Any) -> str:
    """The name of the source as Spark before 4.2 gets it."""
    from pgq.spark._source import PgqDataSource, _PlainStreamReader

    class PlainSource(PgqDataSource):
        # so that the workers get it by value
        __module__ = "__main__"

        @classmethod
        def name(cls) -> str:
            return "pgq_plain"

        def streamReader(self, schema: Any) -> Any:  # noqa: N802
            return _PlainStreamReader(self._parsed(schema))

    spark.dataSource.register(PlainSource)
    return PlainSource.name()


def sources(query: Any) -> list[dict[str, Any]]:
    """What the progress of a query tells of the source, batch by batch."""
    return [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]


def remove(log: Session, clock: Clock) -> None:
    """Let all that is stored become older than its retention, and truncate its segments."""
    log.publish(topic=new_topic(log, groups=()), payload=0)
    for move in ("3 days", "0", "8 days", "0"):
        clock.advance(move)
        log.cleanup()


# ---------------------------------------------------------------------------- batches


def test_each_message_once_over_restarts(stream: Stream, own: Session) -> None:
    topic = new_topic(own, partitions=2, messages=3)
    assert stream.run(topic, startingOffsets="earliest") == [
        [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    ]
    # nothing new is no batch, and the options of the start do not count any more
    assert len(stream.run(topic, startingOffsets="latest")) == 1
    own.publish(topic=topic, payload=4, partition=1)
    assert stream.run(topic, startingOffsets="earliest")[1:] == [[(1, 4)]]


def test_limits_and_what_comes_later(stream: Stream, own: Session, connect: Connect) -> None:
    """AvailableNow takes what was there at its start, in batches within the limit."""
    topic = new_topic(own, partitions=2, messages=5)
    late = connect(autocommit=True)

    def publish(batch_id: int) -> None:
        late.publish(topic=topic, payload=6, partition=batch_id % 2)

    stream.before_commit = publish
    query = stream.start(topic, startingOffsets="earliest", maxOffsetsPerTrigger=3, minPartitions=2)
    query.awaitTermination()
    first = stream.batches()
    assert [len(batch) for batch in first] == [3, 3, 3, 1]
    assert sorted(chain(*first)) == [(p, n) for p in (0, 1) for n in range(1, 6)]
    # the lag: where the topic ended while a batch was planned
    ends = [source["latestOffset"][topic] for source in sources(query)]
    assert ends[0] == {"0": 6, "1": 6}
    assert sum(ends[-1].values()) > 12
    assert sources(query)[-1]["endOffset"][topic] == {"0": 6, "1": 6}

    stream.before_commit = lambda batch_id: None
    second = stream.run(topic, maxOffsetsPerTrigger=3)[len(first) :]
    assert [len(batch) for batch in second] == [3, 1]
    assert sorted(chain(*second)) == [(0, 6), (0, 7), (1, 6), (1, 7)]


def test_a_stream_begins_at_the_latest(stream: Stream, own: Session) -> None:
    """By default; and a connection that was cut between two batches does not end the query."""
    topic = new_topic(own, messages=2)
    query = stream.start(topic, available_now=False)
    planners = (
        "select pid from pg_stat_activity where application_name = 'pgq spark'"
        " and datname = current_database() and state = 'idle' and query ~ 'list_offsets'"
    )
    (pid,) = wait_until(
        lambda: own.execute(planners).fetchone(), PATIENCE, "for the stream to begin"
    )
    own.publish(topic=topic, payload=3)
    query.processAllAvailable()
    assert stream.batches() == [[(0, 3)]]
    own.execute("select pg_terminate_backend(%s)", [pid])
    own.publish(topic=topic, payload=4)
    query.processAllAvailable()
    assert stream.batches() == [[(0, 3)], [(0, 4)]]
    query.stop()
    wait_until(lambda: own.execute(planners).fetchone() is None, what="for the connection to end")


def test_the_latest_is_that_of_the_first_run(stream: Stream, own: Session) -> None:
    """Also if nothing was there to read; what comes between two runs is not passed over."""
    topic = new_topic(own, messages=2)
    assert stream.run(topic) == []
    own.publish(topic=topic, payload=3)
    assert stream.run(topic) == [[(0, 3)]]


@pytest.mark.parametrize("source", ["pgq", "pgq_plain"])
def test_a_first_batch_that_is_repeated(
    stream: Stream, plain: str, own: Session, source: str
) -> None:
    """It has the messages that it had, wherever a new stream would begin by now."""
    stream.source = source
    topic = new_topic(own, messages=4)

    def fail(batch_id: int) -> None:
        raise RuntimeError("pgq: not this time")

    stream.before_commit = fail
    assert "not this time" in stream.fail(topic, startingOffsets=json.dumps({topic: {"0": 3}}))
    own.publish(topic=topic, payload=5)
    stream.before_commit = lambda batch_id: None
    # without SupportsTriggerAvailableNow, Spark ends a run after the batch that it repeated
    stream.run(topic, startingOffsets="latest")
    assert stream.run(topic, startingOffsets="latest") == [[(0, 3), (0, 4)], [(0, 5)]]


def test_where_a_stream_begins(stream: Stream, own: Session, clock: Clock) -> None:
    topic = new_topic(own, messages=2)
    clock.advance("1 hour")
    row = own.execute("select (extract(epoch from pgq._clock()) * 1000)::bigint - 1").fetchone()
    assert row is not None
    own.publish_batch(topic=topic, payloads=[3, 4])
    offsets = json.dumps({topic: {"0": 2}})
    starts: list[dict[str, object]] = [{"startingTimestamp": row[0]}, {"startingOffsets": offsets}]
    for number, options in enumerate(starts):
        stream.checkpoint = stream.checkpoint.with_name(f"checkpoint {number}")
        own.execute("truncate public.got")
        assert stream.run(topic, **options) == [[(0, n) for n in range(3 - number, 5)]]


def test_partitions_that_are_added(stream: Stream, own: Session) -> None:
    """While a query runs, and between two: they are read from their beginnings."""
    topic = new_topic(own, messages=1)
    query = stream.start(topic, available_now=False, startingOffsets="earliest")
    query.processAllAvailable()
    own.alter_topic(topic=topic, partitions=2)
    own.publish(topic=topic, payload=1, partition=1)
    query.processAllAvailable()
    query.stop()
    own.alter_topic(topic=topic, partitions=3)
    own.publish_batch(topic=topic, payloads=[1, 2], partition=2)
    assert stream.run(topic) == [[(0, 1)], [(1, 1)], [(2, 1), (2, 2)]]


def test_a_reader_without_limits(stream: Stream, plain: str, own: Session) -> None:
    """The one for Spark before 4.2, which later versions can run as well."""
    stream.source = plain
    topic = new_topic(own, messages=2)
    assert stream.run(topic) == []
    own.publish(topic=topic, payload=3)
    assert stream.run(topic, startingOffsets="earliest") == [[(0, 3)]]
    assert stream.run(topic) == [[(0, 3)]]
    own.publish(topic=topic, payload=4)
    assert stream.run(topic) == [[(0, 3)], [(0, 4)]]


# ---------------------------------------------------------------------------- data loss


def test_what_retention_removed(stream: Stream, own: Session, clock: Clock) -> None:
    topic = new_topic(own, messages=2)
    stream.run(topic, startingOffsets="earliest")
    own.publish_batch(topic=topic, payloads=[3, 4])
    remove(own, clock)
    own.publish_batch(topic=topic, payloads=[5, 6])
    text = stream.fail(topic)
    assert "offsets 3 to 4 are not there any more" in text
    assert "failOnDataLoss" in text
    assert stream.batches() == [[(0, 1), (0, 2)]]
    assert stream.run(topic, failOnDataLoss="false")[1:] == [[(0, 5), (0, 6)]]
    # the gap is behind it, so it goes on as strictly as before
    own.publish(topic=topic, payload=7)
    assert stream.run(topic)[2:] == [[(0, 7)]]


def test_a_topic_made_anew(stream: Stream, own: Session) -> None:
    topic = new_topic(own, messages=3)
    stream.run(topic, startingOffsets="earliest")
    own.execute("select pgq.drop_topic(topic => %s)", [topic])
    own.create_topic(topic=topic, partitions=1)
    own.publish_batch(topic=topic, payloads=[11, 12, 13, 14, 15])
    assert "made anew" in stream.fail(topic)
    assert stream.run(topic, failOnDataLoss="false")[1:] == [[(0, n) for n in range(1, 6)]]


def test_a_checkpoint_of_another_topic(stream: Stream, own: Session) -> None:
    topic, other = new_topic(own, messages=1), new_topic(own, messages=1)
    stream.run(topic, startingOffsets="earliest")
    assert f"but of '{topic}'" in stream.fail(other)


def test_a_checkpoint_ahead_of_the_topic(stream: Stream, own: Session) -> None:
    """As after a restore of an older state: an error, or nothing is read until it is there."""
    topic = new_topic(own, messages=3)
    stream.run(topic, startingOffsets="earliest")
    leaf = own.execute("select tableoid::regclass::text from pgq.message limit 1").fetchone()
    assert leaf is not None
    own.execute(sql.SQL("delete from {}").format(sql.SQL(leaf[0])))
    own.publish(topic=topic, payload=10)
    assert "the topic ends at 1" in stream.fail(topic)
    assert len(stream.run(topic, failOnDataLoss="false")) == 1
    own.publish_batch(topic=topic, payloads=[20, 30, 40])
    assert stream.run(topic)[1:] == [[(0, 4)]]


# ---------------------------------------------------------------------------- secrets


@pytest.mark.parametrize("form", ["jdbc", "properties", "libpq"])
def test_the_password_is_shown_nowhere(
    stream: Stream, spark: Any, own: Session, location: Location, form: str
) -> None:
    """Not in plans, progress, descriptions or errors, whichever way it is given."""
    from pgq.spark._source import PgqDataSource

    topic = new_topic(own, messages=1)
    url, properties = location
    user = properties["user"]
    options = {
        "jdbc": {"url": f"{url}?user={user}&password={PASSWORD}"},
        "properties": {"url": url, "user": user, "password": PASSWORD},
        "libpq": {
            "url": url.replace("jdbc:postgresql://", f"postgresql://{user}:{PASSWORD}@"),
        },
    }[form]
    stream._options = options
    query = stream.start(topic, startingOffsets="earliest")
    query.awaitTermination()
    assert stream.batches() == [[(0, 1)]]
    batch = spark.read.format("pgq").options(**options, topic=topic).load()
    texts = [
        *(progress.json for progress in query.recentProgress),
        str(query.status),
        query._jsq.toString(),
        batch._jdf.queryExecution().toString(),
        repr(batch),
        repr(PgqDataSource({**options, "topic": topic}).reader(batch.schema)),
    ]
    for wrong in (
        {"topic": "nowhere"},
        {"topic": topic, "unknown": "1"},
        {"topic": topic, "startingOffsets": "soon"},
        {"topic": topic, "url": options["url"].replace("127.0.0.1:", "127.0.0.1:1")},
        {"topic": topic, "url": options["url"].replace("postgresql:", "postgre:")},
        {"topic": topic, "url": options["url"].replace("pgq_test", "nowhere")},
    ):
        with pytest.raises(Exception, match="pgq") as caught:
            spark.read.format("pgq").options(**{**options, **wrong}).load().collect()
        texts += [str(caught.value), repr(caught.value)]
        texts += [str(getattr(caught.value, "desc", "")), str(caught.value.__cause__)]
    assert [text for text in texts if PASSWORD in text] == []


# ---------------------------------------------------------------------------- crashes

# Holds the calls for messages from 4 on while the test holds the lock; they are the real ones.
GATE = """
alter function pgq.fetch_range set schema public;
create function pgq.fetch_range(topic text, partition int, first_offset bigint, last_offset bigint)
returns setof pgq.message_record
language plpgsql
as $$
begin
    if first_offset >= 4 then
        perform pg_advisory_xact_lock_shared(1);
    end if;
    return query
    select *
    from public.fetch_range(
        fetch_range.topic, fetch_range.partition, fetch_range.first_offset, fetch_range.last_offset
    );
end
$$;
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["reading", "planned", "writing", "committed"])
def test_a_driver_that_is_killed(
    spark: Any,
    broker: Any,
    own: Session,
    connect: Connect,
    location: Location,
    tmp_path: Path,
    step: str,
) -> None:
    """In the second batch: while the source reads, before the sink, in its commit, and after it.

    The query goes on from its checkpoint, and the output has each message once. The password is in
    nothing that the killed one has written.
    """
    from pgq.spark._source import PgqDataSource

    topic, output = new_topic(own, messages=9), new_topic(own)
    url, properties = location
    properties = {**properties, "password": PASSWORD}
    options = {"url": url, **properties, "topic": topic, "startingOffsets": "earliest"}
    options["maxOffsetsPerTrigger"] = "3"
    checkpoint = tmp_path / "checkpoint"
    settings = {
        "url": url,
        "properties": properties,
        "options": options,
        "checkpoint": str(checkpoint),
        "output": output,
        "stop": "planned" if step == "writing" else step,
    }
    log = tmp_path / "log"
    lock = connect()
    if step == "reading":
        own.execute(GATE)
        lock.execute("select pg_advisory_xact_lock(1)")
    with driver(settings, log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if step != "reading":
            assert process.stdout.readline().strip() == settings["stop"], log.read_text()[-5000:]
        if step == "writing":
            lock.publish(topic=output, payload=0)
            process.stdin.write("go on\n")
            process.stdin.flush()
        if step in ("reading", "writing"):
            blocked = f"{BACKENDS} and wait_event_type = 'Lock'"
            wait_until(
                lambda: own.execute(blocked).fetchone() or process.poll() is not None,
                PATIENCE,
                "for the driver to wait for a lock",
            )
        assert process.poll() is None, log.read_text()[-5000:]
    lock.rollback()
    wait_until(lambda: not own.execute(BACKENDS).fetchone(), PATIENCE, "for it to be gone")
    # the server finishes a commit even if nobody is there any more to hear of it
    assert len(published(own, output)) == (6 if step in ("writing", "committed") else 3)

    spark.dataSource.register(PgqDataSource)
    query = (
        spark.readStream.format("pgq")
        .options(**options)
        .load()
        .select("key", "value")
        .writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(broker.sink(output, producer="query"))
        .start()
    )
    query.awaitTermination()
    assert sorted(published(own, output)) == [b"%d" % number for number in range(1, 10)]

    written = log.read_text(errors="replace")
    assert "MicroBatchExecution" in written
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert [path.name for path in files if path.parent.name == "offsets"]
    for text in [written, *(path.read_text(errors="replace") for path in files)]:
        assert PASSWORD not in text


BACKENDS = (
    "select pid from pg_stat_activity"
    " where application_name = 'pgq spark' and datname = current_database()"
)


def published(log: Session, topic: str) -> list[bytes]:
    """The bodies of all messages of a topic."""
    rows = log.execute("select body from pgq.messages where topic = %s", [topic]).fetchall()
    return [row[0] for row in rows]


@contextlib.contextmanager
def driver(settings: dict[str, Any], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver of its own, with a log; at the end it is killed, and all that it started."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, DRIVER, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
