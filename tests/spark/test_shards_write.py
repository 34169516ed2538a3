"""Writes to a topic that is spread over several databases: each row in one of them, once."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from psycopg.errors import InvalidParameterValue

from pgq.errors import UnknownTopic
from pgq.shards import shard_of
from support.bulk import begin, stage
from support.session import Session
from support.shards import Shards
from support.writer import numbers

pytest.importorskip("pyspark")

ROWS = 300


def keyed(spark: Any, rows: int = ROWS, keys: int = 40, tasks: int = 2) -> Any:
    """Numbers, each with one of so many keys."""
    return spark.range(0, rows, 1, tasks).selectExpr(
        f"concat('key ', id % {keys}) as key", "cast(id as string) as value"
    )


def expected(rows: int = ROWS, keys: int = 40, shards: int = 2) -> list[list[str]]:
    """What each database has of them, sorted."""
    found: list[list[str]] = [[] for _ in range(shards)]
    for number in range(rows):
        found[shard_of(f"key {number % keys}", shards)].append(str(number))
    return [sorted(bodies) for bodies in found]


# ---------------------------------------------------------------------------- where rows go


@pytest.mark.parametrize("batch", [10_000, 7])
def test_a_row_goes_to_the_shard_of_its_key(spark: Any, shards: Shards, batch: int) -> None:
    """In the order of each key, however Spark hands the rows over; the result says how many."""
    topic = shards.create("readings")
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, batch)
    done = shards.broker(spark).publish(keyed(spark, tasks=1), topic=topic, chunk_rows=50)
    spark.conf.set(name, before)
    assert shards.bodies(topic) == expected()
    assert done.messages == ROWS
    assert done.shards == tuple(map(len, expected()))
    assert (done.write_id, done.duplicate) == (None, False)
    for log in shards.logs:
        rows = log.execute(
            "select key, convert_from(body, 'UTF8')::int from pgq.messages"
            " order by partition, log_offset"
        ).fetchall()
        for key in {key for key, _ in rows}:
            written = [number for of, number in rows if of == key]
            assert written == sorted(written)
    assert shards.open_writes() == 0


def test_a_row_without_a_key_goes_by_its_content(spark: Any, shards: Shards) -> None:
    """So to the same place whichever task has it."""
    topic = shards.create("readings")
    for tasks in (1, 3):
        shards.broker(spark).publish(numbers(spark, ROWS, tasks), topic=topic)
    found: list[list[str]] = [[], []]
    for number in range(ROWS):
        found[zlib.crc32(str(number).encode()) % 2] += [str(number)] * 2
    assert shards.bodies(topic) == [sorted(bodies) for bodies in found]


def test_the_column_shard_wins(spark: Any, shards: Shards) -> None:
    """Where it is null the key decides."""
    topic = shards.create("readings")
    frame = keyed(spark).selectExpr("*", "case when key <> 'key 1' then 1 end as shard")
    shards.broker(spark).publish(frame, topic=topic)
    ones = [str(number) for number in range(ROWS) if number % 40 == 1]
    assert shard_of("key 1", 2) == 0
    assert shards.bodies(topic)[0] == sorted(ones)
    assert len(shards.bodies(topic)[1]) == ROWS - len(ones)


@pytest.mark.parametrize("shard", ["2", "-1", "4294967296", "cast(4294967297 as bigint)"])
def test_a_shard_that_is_none(spark: Any, shards: Shards, shard: str) -> None:
    """Is an error, and no number wraps into another."""
    topic = shards.create("readings")
    with pytest.raises(Exception, match="a row with a shard that is none of 2"):
        shards.broker(spark).publish(
            keyed(spark, 3).selectExpr("*", f"{shard} as shard"), topic=topic
        )
    assert shards.all(topic) == []


def test_headers_partitions_and_payloads(spark: Any, shards: Shards) -> None:
    """Whatever publish takes of one database."""
    topic = shards.create("readings", partitions=3)
    frame = spark.range(20).selectExpr(
        "cast(id as string) as key",
        "named_struct('id', id) as payload",
        "map('a', cast(id as string)) as headers",
        "cast(id % 3 as int) as partition",
    )
    shards.broker(spark).publish(frame, topic=topic)
    found = []
    for shard, log in enumerate(shards.logs):
        for key, payload, headers, partition in log.execute(
            "select key, payload, headers, partition from pgq.messages"
        ):
            assert shard_of(key, 2) == shard
            assert (payload, headers) == ({"id": int(key)}, {"a": key})
            assert partition == int(key) % 3
            found.append(int(key))
    assert sorted(found) == list(range(20))


def test_one_url_in_a_list(spark: Any, shards: Shards) -> None:
    """Is a topic that may be spread over more databases later."""
    from pgq.spark import Pgq

    topic = shards.create("readings")
    broker = Pgq(spark, shards.urls[:1], shards.properties)
    assert broker.publish(keyed(spark), topic=topic).shards == (ROWS,)
    assert broker.read(topic=topic).select("shard").distinct().collect() == [(0,)]


def test_jobs(spark: Any, shards: Shards) -> None:
    """A queue may be spread as well."""
    for log in shards.logs:
        log.create_queue(queue="work")
    frame = keyed(spark).selectExpr("*", "'l' as label")
    done = shards.broker(spark).enqueue(frame, queue="work", priority=3)
    assert done.messages == ROWS
    found = []
    for log in shards.logs:
        rows = log.execute(
            "select convert_from(body, 'UTF8'), label, priority"
            " from pgq.claim_job('work', max_jobs => 1000)"
        ).fetchall()
        assert {tuple(row[1:]) for row in rows} == {("l", 3)}
        found.append(sorted(row[0] for row in rows))
    assert found == expected()


# ---------------------------------------------------------------------------- once


def test_a_write_that_is_repeated(spark: Any, shards: Shards) -> None:
    """Writes nothing, also when it is divided into other tasks; other contents are an error."""
    topic = shards.create("readings")
    broker = shards.broker(spark)
    name: dict[str, Any] = {"topic": topic, "producer": "loader", "seq": 7}
    assert not broker.publish(keyed(spark), **name).duplicate
    again = broker.publish(keyed(spark, tasks=5), **name)
    assert (again.duplicate, again.messages) == (True, ROWS)
    with pytest.raises(InvalidParameterValue, match="with other messages"):
        broker.publish(keyed(spark, ROWS - 1), **name)
    assert broker.publish(keyed(spark, ROWS - 1), **name, check_repeated=False).duplicate
    assert shards.bodies(topic) == expected()
    assert shards.open_writes() == 0


def test_other_contents_of_a_shard_that_had_none(spark: Any, shards: Shards) -> None:
    """Are an error too: each database knows the name, whether it got rows or not."""
    topic = shards.create("readings")
    broker = shards.broker(spark)
    name: dict[str, Any] = {"topic": topic, "producer": "loader", "seq": 1}

    def one(shard: int) -> Any:
        return spark.range(1).selectExpr("'a' as value", f"{shard} as shard")

    broker.publish(one(0), **name)
    with pytest.raises(InvalidParameterValue, match="with other messages"):
        broker.publish(one(1), **name)
    assert shards.bodies(topic) == [["a"], []]


def test_a_commit_that_fails_in_the_second_database(spark: Any, shards: Shards) -> None:
    """The error says where it is committed, and repeating it completes it."""
    from pgq.spark import PartlyWritten

    topic = shards.create("readings")
    broker = shards.broker(spark)
    name: dict[str, Any] = {"topic": topic, "producer": "loader", "seq": 7}
    shards.refuse_commits(1, "update on pgq.bulk_write")
    with pytest.raises(PartlyWritten, match=r"in the shards \[0\], and not in \[1\]: the commit f"):
        broker.publish(keyed(spark), **name)
    assert shards.bodies(topic) == [expected()[0], []]
    shards.allow_commits(1)
    done = broker.publish(keyed(spark, tasks=3), **name)
    assert (done.duplicate, done.messages) == (False, ROWS)
    assert shards.bodies(topic) == expected()
    assert broker.publish(keyed(spark), **name).duplicate
    assert shards.bodies(topic) == expected()


@pytest.mark.parametrize("named", [True, False])
def test_what_fails_before_a_commit_leaves_nothing_anywhere(
    spark: Any, shards: Shards, named: bool
) -> None:
    """Where one database cannot do it, none does."""
    topic = "readings"
    shards.logs[0].create_topic(topic=topic)
    name: dict[str, Any] = {"producer": "loader", "seq": 7} if named else {}
    one = spark.range(1).selectExpr("'a' as value", "0 as shard")
    with pytest.raises(UnknownTopic):
        shards.broker(spark).publish(one, topic=topic, **name)
    assert shards.all(topic) == []


def test_a_number_of_messages_that_is_not_expected(spark: Any, shards: Shards) -> None:
    """Is refused, and nothing is left."""
    topic = shards.create("readings")
    with pytest.raises(ValueError, match=f"is 3, but there are {ROWS}"):
        shards.broker(spark).publish(keyed(spark), topic=topic, expected_messages=3)
    assert shards.all(topic) == []
    assert shards.open_writes() == 0


def test_a_row_that_is_refused(spark: Any, shards: Shards) -> None:
    """Is said once, and nothing is left."""
    from pgq.spark import RowRefused

    topic = shards.create("readings")
    frame = keyed(spark).selectExpr(
        "case when value = '7' then concat('a', chr(0)) else key end as key", "value"
    )
    with pytest.raises(RowRefused, match="row 8 of task 0: column key has a NUL"):
        shards.broker(spark).publish(frame, topic=topic)
    assert shards.all(topic) == []
    assert shards.open_writes() == 0


def test_a_task_is_taken_from_one_attempt(spark: Any, shards: Shards) -> None:
    """The first one commits in one database and fails in the other; none of its rows is there."""
    topic = shards.create("readings")
    # the databases are committed one after the other, the last one first
    shards.refuse_commits(0, "insert on pgq.staged_task", times=1)

    def mark(batches: Any) -> Any:
        import pyarrow as pa
        from pyspark import TaskContext

        attempt = TaskContext.get().attemptNumber()  # type: ignore[union-attr]
        for batch in batches:
            keys = [f"{key} of attempt {attempt}" for key in batch["key"].to_pylist()]
            yield pa.RecordBatch.from_pydict({"key": keys, "value": batch["value"]})

    frame = keyed(spark, tasks=1).mapInArrow(mark, "key string, value string")
    shards.broker(spark).publish(frame, topic=topic, producer="loader", seq=1)
    assert shards.all(topic) == sorted(map(str, range(ROWS)))
    keys = [key for log in shards.logs for (key,) in log.execute("select key from pgq.messages")]
    assert {key.partition(" of ")[2] for key in keys} == {"attempt 1"}
    assert shards.logs[0].execute("select last_value from public.refused").fetchone()[0] > 1


def test_what_it_refuses(spark: Any, shards: Shards) -> None:
    """A write that is not atomic, half a name, no database."""
    from pgq.spark import Pgq

    topic = shards.create("readings")
    broker = shards.broker(spark)
    with pytest.raises(ValueError, match="leave out atomic=False"):
        broker.publish(keyed(spark), topic=topic, atomic=False)
    with pytest.raises(ValueError, match="give both, or neither"):
        broker.publish(keyed(spark), topic=topic, producer="loader")
    with pytest.raises(ValueError, match="take one of shards"):
        broker.consume(lambda frame: None, topic=topic, consumer_group="g")
    with pytest.raises(ValueError, match="is empty"):
        Pgq(spark, [])
    with pytest.raises(ValueError, match="columns that cannot be written: shard"):
        broker.shards[0].publish(keyed(spark).selectExpr("*", "0 as shard"), topic=topic)
    assert shards.all(topic) == []


# ---------------------------------------------------------------------------- the data source


def save(frame: Any, shards: Shards, **options: object) -> None:
    """Write by the data source."""
    from pgq.spark import register

    register(frame.sparkSession)
    frame.write.format("pgq").mode("append").options(**shards.options, **options).save()


def test_the_data_source_writes_to_all(spark: Any, shards: Shards) -> None:
    """By key; once for each name."""
    topic = shards.create("readings")
    for _ in range(2):
        save(keyed(spark), shards, topic=topic, producer="loader", seq=1)
    assert shards.bodies(topic) == expected()
    with pytest.raises(Exception, match="with other messages"):
        save(keyed(spark, 7), shards, topic=topic, producer="loader", seq=1)
    assert shards.bodies(topic) == expected()


@pytest.mark.parametrize("by", ["publish", "the data source"])
def test_what_earlier_attempts_have_staged_is_removed(spark: Any, shards: Shards, by: str) -> None:
    """In every database, whichever way the rows are written."""
    topic = shards.create("readings")
    for log in shards.logs:
        stage(log, begin(log, topic=topic, owner=f"loader 1 {topic}", seq=1), [b"-1"])
    name = {"topic": topic, "producer": "loader", "seq": 1}
    if by == "publish":
        shards.broker(spark).publish(keyed(spark), **name)
    else:
        save(keyed(spark), shards, **name)
    assert shards.open_writes() == 0
    assert shards.bodies(topic) == expected()


def test_what_was_read_is_written_back(spark: Any, shards: Shards) -> None:
    """Column by column, several topics at once, each row to the shard where it was."""
    first, second = shards.create("first"), shards.create("second")
    broker = shards.broker(spark)
    broker.publish(keyed(spark), topic=first)
    broker.publish(keyed(spark, 7), topic=second)
    both = broker.read(topic=first).unionByName(broker.read(topic=second))
    save(both, shards, producer="copy", seq=1)
    assert [sorted(set(bodies)) for bodies in shards.bodies(first)] == expected()
    assert len(shards.all(first)) == 2 * ROWS
    assert len(shards.all(second)) == 14


def test_one_database_ignores_the_column_shard(
    spark: Any, shards: Shards, save: Any, own: Session
) -> None:
    """It says where a row comes from, when several are copied into one."""
    topic = shards.create("readings")
    own.create_topic(topic=topic, partitions=2)
    broker = shards.broker(spark)
    broker.publish(keyed(spark), topic=topic)
    save(broker.read(topic=topic))
    assert own.execute("select count(*) from pgq.messages").fetchone() == (ROWS,)


def test_a_stream_is_written_to_all(spark: Any, shards: Shards, tmp_path: Any) -> None:
    """By the sink and by the writer: a batch that fails half way is completed by the next run."""
    from pgq.spark import register

    register(spark)
    lines = tmp_path / "lines"
    lines.mkdir()
    broker = shards.broker(spark)

    def run(kind: str, topic: str) -> Any:
        frame = spark.readStream.text(str(lines))
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / topic))
        if kind == "sink":
            writer = writer.foreachBatch(broker.sink(topic=topic, producer="query"))
        else:
            writer = writer.format("pgq").options(**shards.options, topic=topic)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    for kind in ("sink", "writer"):
        topic = shards.create(kind)
        (lines / f"{kind}.txt").write_text("".join(f"{kind} {n}\n" for n in range(20)))
        shards.refuse_commits(1, "update on pgq.bulk_write")
        with pytest.raises(Exception, match=r"in the shards \[0\], and not in \[1\]"):
            run(kind, topic)
        shards.allow_commits(1)
        assert shards.bodies(topic)[1] == []
        run(kind, topic)
        wanted = [line for path in lines.iterdir() for line in path.read_text().splitlines()]
        assert shards.all(topic) == sorted(wanted)
        assert min(map(len, shards.bodies(topic))) > 0


def test_nothing_to_write(spark: Any, shards: Shards) -> None:
    """Is a write too, and its name is known then."""
    topic = shards.create("readings")
    name: dict[str, Any] = {"topic": topic, "producer": "loader", "seq": 1}
    done = shards.broker(spark).publish(keyed(spark, 0), **name)
    assert (done.messages, done.shards, done.duplicate) == (0, (0, 0), False)
    assert shards.broker(spark).publish(keyed(spark, 0), **name).duplicate
    with pytest.raises(InvalidParameterValue, match="with other messages"):
        shards.broker(spark).publish(keyed(spark, 1), **name)
