"""Publishers side by side: order, waiting, deadlocks, isolation levels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from log_support import (
    PATIENCE,
    Log,
    aside,
    blocked,
    committed_offsets,
    new_name,
    new_topic,
    newest,
    offsets,
    refused,
)

OpenLog = Callable[..., Log]

# partitions of 8 that a key belongs to
KEY_OF = {0: "b", 1: "a", 2: "c"}

SNAPSHOTS = ["repeatable read", "serializable"]


def ways_to_publish(log: Log, topic: str, partition: int = 0) -> dict[str, Callable[[], Any]]:
    """The functions that write to one partition of 8; each writes one message."""
    return {
        "publish": lambda: log.publish(topic=topic, payload=7, partition=partition),
        "publish by key": lambda: log.publish(topic=topic, payload=7, key=KEY_OF[partition]),
        "publish_batch": lambda: log.publish_batch(topic=topic, payloads=[7], partition=partition)[
            0
        ],
        "publish_batch by key": lambda: log.publish_batch(
            topic=topic, payloads=[7], keys=[KEY_OF[partition]]
        )[0],
    }


WAYS = ["publish", "publish by key", "publish_batch", "publish_batch by key"]


# ---------------------------------------------------------------------------- order


def test_a_late_commit_is_never_skipped(open_log: OpenLog, log: Log) -> None:
    """One publishes and stays open, one publishes after it, the group reads and acknowledges.

    When the first one commits, its message is still before the group: the second had to wait for
    it, or has written to another partition.
    """
    topic = new_topic(log, partitions=2)
    early, late = open_log(), open_log(autocommit=True)
    place = early.publish(topic=topic, payload=1)
    other = late.publish(topic=topic, payload=2)
    assert other.partition != place.partition
    same = blocked(
        log, late, lambda: late.publish(topic=topic, payload=3, partition=place.partition)
    )
    read = log.consume(topic=topic, consumer_group="readers")
    assert [row.payload for row in read] == [2]
    assert log.consume(topic=topic, consumer_group="readers") == []
    early.commit()
    assert same.result(PATIENCE) == (place.partition, 2)
    read = log.consume(topic=topic, consumer_group="readers")
    assert [row.payload for row in read] == [1, 3]


@pytest.mark.parametrize("way", WAYS)
def test_the_second_publisher_of_a_partition_waits(open_log: OpenLog, log: Log, way: str) -> None:
    """It gets the next offset when the first commits, the same one when it rolls back."""
    topic = new_topic(log, partitions=8)
    first, second = open_log(), open_log(autocommit=True)
    write = ways_to_publish(second, topic)[way]

    first.publish_batch(topic=topic, payloads=[1, 2], partition=0)
    waiting = blocked(log, second, write)
    first.commit()
    assert waiting.result(PATIENCE)[:2] == (0, 3)

    first.publish_batch(topic=topic, payloads=[4, 5], partition=0)
    waiting = blocked(log, second, write)
    first.rollback()
    assert waiting.result(PATIENCE)[:2] == (0, 4)


def test_publishers_of_different_partitions_do_not_wait(open_log: OpenLog, log: Log) -> None:
    """An open transaction holds its partition only; readers do not wait at all."""
    topic = new_topic(log, partitions=3)
    holders = [open_log() for _ in range(3)]
    for partition, holder in enumerate(holders):
        holder.execute("set lock_timeout = '2s'")
        assert holder.publish(topic=topic, payload=1, partition=partition) == (partition, 1)
    assert log.consume(topic=topic, consumer_group="readers") == []
    for holder in holders:
        holder.commit()
    assert len(log.fetch(topic=topic, consumer_group="readers")) == 3


@pytest.mark.parametrize("function", ["publish", "publish_batch"])
def test_publishers_without_a_key_take_free_partitions(
    open_log: OpenLog, log: Log, function: str
) -> None:
    """As many of them as there are partitions work at once; only one more has to wait."""
    topic = new_topic(log, partitions=3)
    content: dict[str, Any] = {"payload": 1} if function == "publish" else {"payloads": [1]}
    holders = [open_log() for _ in range(3)]
    taken = []
    for holder in holders:
        holder.execute("set lock_timeout = '2s'")
        written = getattr(holder, function)(topic=topic, **content)
        taken.append(written.partition if function == "publish" else written[0].partition)
    assert sorted(taken) == [0, 1, 2]

    late = open_log(autocommit=True)
    waiting = blocked(log, late, lambda: getattr(late, function)(topic=topic, **content))
    for holder in holders:
        holder.commit()
    waiting.result(PATIENCE)
    assert sum(newest(log, topic, partition) for partition in range(3)) == 4


@pytest.mark.parametrize("function", ["publish", "publish_batch"])
def test_the_last_free_partition_is_found(open_log: OpenLog, log: Log, function: str) -> None:
    """Whichever it is, a publisher without a key writes there at once."""
    topic = new_topic(log, partitions=4)
    content: dict[str, Any] = {"payload": 1} if function == "publish" else {"payloads": [1]}
    holder, publisher = open_log(), open_log()
    publisher.execute("set lock_timeout = '2s'")
    for free in range(4):
        for partition in {*range(4)} - {free}:
            holder.publish(topic=topic, payload=1, partition=partition)
        getattr(publisher, function)(topic=topic, **content)
        publisher.commit()
        assert newest(log, topic, free) == 1
        holder.rollback()
        log.drop_topic(topic=topic)
        log.create_topic(topic=topic, partitions=4)


def test_messages_without_a_key_in_a_keyed_batch_wait_for_nothing_else(
    open_log: OpenLog, log: Log
) -> None:
    """They go where the keyed ones go, so a batch locks no more partitions than it must."""
    topic = new_topic(log, partitions=8)
    holder, writer = open_log(), open_log()
    holder.publish(topic=topic, payload=1, partition=2)
    writer.execute("set lock_timeout = '2s'")
    ranges = writer.publish_batch(topic=topic, payloads=[1, 2, 3], keys=["b", None, "a"])
    assert [row.partition for row in ranges] == [0, 1]


# ---------------------------------------------------------------------------- deadlocks


def test_batches_lock_in_ascending_order(open_log: OpenLog, log: Log) -> None:
    """A batch that waits for a low partition does not hold a higher one yet."""
    topic = new_topic(log, partitions=8)
    holder, batch, other = open_log(), open_log(), open_log(autocommit=True)
    holder.publish(topic=topic, payload=1, partition=0)
    waiting = blocked(
        log,
        batch,
        lambda: batch.publish_batch(topic=topic, payloads=[1, 2, 3], keys=["c", "a", "b"]),
    )
    other.execute("set lock_timeout = '2s'")
    assert other.publish(topic=topic, payload=1, partition=1) == (1, 1, False)
    assert other.publish(topic=topic, payload=1, partition=2) == (2, 1, False)
    holder.commit()
    assert waiting.result(PATIENCE) == [(0, 2, 2), (1, 2, 2), (2, 2, 2)]


def test_batches_of_opposite_order_do_not_deadlock(open_log: OpenLog, log: Log) -> None:
    """Two writers, keys in opposite order, again and again: no error, nothing lost."""
    topic = new_topic(log, partitions=8)
    rounds = 60

    def write(keys: list[str]) -> None:
        writer = open_log(autocommit=True)
        for n in range(rounds):
            writer.publish_batch(topic=topic, payloads=[n] * len(keys), keys=keys)

    writers = [aside(lambda keys=keys: write(keys)) for keys in (["a", "b", "c"], ["c", "b", "a"])]
    for writer in writers:
        writer.result(PATIENCE)
    assert [newest(log, topic, partition) for partition in range(3)] == [2 * rounds] * 3


# ---------------------------------------------------------------------------- no gaps


def test_no_reader_sees_an_offset_without_those_below(open_log: OpenLog, log: Log) -> None:
    """While four writers publish, roll back and write batches, no snapshot has a gap."""
    topic = new_topic(log, partitions=2)
    stop, written_all = threading.Event(), threading.Event()
    written = [0] * 4

    def write(number: int) -> None:
        writer = open_log()
        turn = number
        while not stop.is_set():
            turn += 1
            if turn % 3 == 0:
                writer.publish(topic=topic, payload=turn)
            else:
                partition = None if turn % 2 else turn % 4 // 2
                writer.publish_batch(
                    topic=topic, payloads=[turn] * (turn % 7 + 1), partition=partition
                )
            if turn % 5 == 0:
                writer.rollback()
            else:
                writer.commit()
                written[number] += 1 if turn % 3 == 0 else turn % 7 + 1

    def read() -> int:
        reader, looks = open_log(isolation_level="repeatable read"), 0
        while not stop.is_set():
            rows = reader.execute(
                "select p.partition, count(*), min(m.log_offset), max(m.log_offset)"
                " from pgq.message as m"
                " join pgq.partition as p using (partition_id)"
                " join pgq.topic as t using (topic_id)"
                " where t.topic = %s group by 1",
                [topic],
            ).fetchall()
            for _, count, lowest, highest in rows:
                assert (lowest, highest) == (1, count)
                looks += 1
            for partition, _, _, highest in rows:
                first = max(1, highest - 20)
                range_ = reader.fetch_range(
                    topic=topic, partition=partition, first_offset=first, last_offset=highest
                )
                assert offsets(range_) == list(range(first, highest + 1))
            reader.commit()
        return looks

    def follow() -> dict[int, list[int]]:
        member = open_log()
        seen: dict[int, list[int]] = {0: [], 1: []}
        while True:
            ended = written_all.is_set()
            rows = member.consume(topic=topic, consumer_group="readers", max_messages=5)
            member.commit()
            for row in rows:
                seen[row.partition].append(row.log_offset)
            if ended and not rows:
                return seen

    writers = [aside(lambda number=number: write(number)) for number in range(4)]
    reader, follower = aside(read), aside(follow)
    time.sleep(1.0)  # the length of the experiment, not a wait for something
    stop.set()
    for writer in writers:
        writer.result(PATIENCE)
    written_all.set()
    assert reader.result(PATIENCE) > 10
    seen = follower.result(PATIENCE)
    last_offsets = [newest(log, topic, partition) for partition in range(2)]
    assert [seen[partition] for partition in range(2)] == [
        list(range(1, highest + 1)) for highest in last_offsets
    ]
    assert sum(last_offsets) == sum(written) > 0
    assert committed_offsets(log, topic, "readers") == last_offsets


# ---------------------------------------------------------------------------- isolation levels


@pytest.mark.parametrize("level", SNAPSHOTS)
@pytest.mark.parametrize("way", WAYS)
def test_an_old_snapshot_gets_40001(open_log: OpenLog, log: Log, way: str, level: str) -> None:
    """Whoever published since the snapshot wins; the loser never gets a duplicate offset.

    On the next try it gets the next offset.
    """
    topic = new_topic(log, partitions=8)
    loser = open_log(isolation_level=level)
    write = ways_to_publish(loser, topic)[way]
    loser.execute("select 1")
    log.publish(topic=topic, payload=1, partition=0)
    refused("40001", write)
    loser.rollback()
    assert write()[:2] == (0, 2)
    loser.commit()
    assert newest(log, topic) == 2


@pytest.mark.parametrize("level", SNAPSHOTS)
@pytest.mark.parametrize("way", ["publish", "publish_batch by key"])
def test_waiting_behind_a_publisher_with_a_snapshot(
    open_log: OpenLog, log: Log, way: str, level: str
) -> None:
    """The one that waited gets 40001 when the other commits, and its offset when it does not."""
    topic = new_topic(log, partitions=8)
    first, second = open_log(), open_log(isolation_level=level)
    write = ways_to_publish(second, topic)[way]

    first.publish(topic=topic, payload=1, partition=0)
    waiting = blocked(log, second, write)
    first.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        waiting.result(PATIENCE)
    second.rollback()

    first.publish(topic=topic, payload=2, partition=0)
    waiting = blocked(log, second, write)
    first.rollback()
    assert waiting.result(PATIENCE)[:2] == (0, 2)
    second.commit()


@pytest.mark.parametrize("level", SNAPSHOTS)
def test_a_snapshot_older_than_the_segment(
    connect: Callable[..., psycopg.Connection[Any]], level: str
) -> None:
    """When the topic writes elsewhere by now, the old snapshot gets 40001 as well."""
    log, loser = Log(connect(autocommit=True)), Log(connect(isolation_level=level))
    topic = new_topic(log, messages=3)
    loser.execute("select 1")
    log.alter_topic(topic=topic, retention="1 day")
    log.publish(topic=topic, payload=4)
    refused("40001", loser.publish, topic=topic, payload=5)
    loser.rollback()
    assert loser.publish(topic=topic, payload=5) == (0, 5, False)
    loser.commit()


@pytest.mark.parametrize("level", SNAPSHOTS)
def test_racing_publishers_that_try_again(open_log: OpenLog, log: Log, level: str) -> None:
    """Three publishers with snapshots: each message is there once, the offsets have no gap."""
    topic = new_topic(log)
    each = 15

    def write(number: int) -> int:
        writer, failures = open_log(isolation_level=level), 0
        for n in range(each):
            while True:
                try:
                    if n % 2:
                        writer.publish(topic=topic, payload=number * 1000 + n)
                    else:
                        writer.publish_batch(topic=topic, payloads=[number * 1000 + n])
                    writer.commit()
                    break
                except psycopg.errors.SerializationFailure:
                    writer.rollback()
                    failures += 1
        return failures

    writers = [aside(lambda number=number: write(number)) for number in range(3)]
    for writer in writers:
        writer.result(PATIENCE)
    rows = log.fetch(topic=topic, consumer_group="readers")
    assert offsets(rows) == list(range(1, 3 * each + 1))
    assert sorted(row.payload for row in rows) == [
        number * 1000 + n for number in range(3) for n in range(each)
    ]


# ---------------------------------------------------------------------------- topics come and go


def test_racing_create_topic(open_log: OpenLog, log: Log) -> None:
    """All who create a topic at once get the same one, and its partitions are there once."""
    topic = new_name()
    first, second = open_log(), open_log(autocommit=True)
    made = first.create_topic(topic=topic, partitions=3)
    waiting = blocked(log, second, lambda: second.create_topic(topic=topic, partitions=5))
    first.commit()
    assert waiting.result(PATIENCE) == made
    assert log.publish(topic=topic, payload=1, partition=2) == (2, 1, False)

    topic = new_name()
    first.create_topic(topic=topic, partitions=3)
    waiting = blocked(log, second, lambda: second.create_topic(topic=topic, partitions=5))
    first.rollback()
    assert waiting.result(PATIENCE).partitions == 5

    topic = new_name()
    sessions = [open_log(autocommit=True) for _ in range(6)]
    racers = [
        aside(lambda session=session: session.create_topic(topic=topic)) for session in sessions
    ]
    assert len({racer.result(PATIENCE) for racer in racers}) == 1


def test_racing_create_topic_with_a_snapshot(open_log: OpenLog, log: Log) -> None:
    """With an old snapshot the loser gets 40001, and on the next try the topic."""
    topic = new_name()
    loser = open_log(isolation_level="repeatable read")
    loser.execute("select 1")
    made = log.create_topic(topic=topic)
    refused("40001", loser.create_topic, topic=topic)
    loser.rollback()
    assert loser.create_topic(topic=topic) == made


def test_drop_topic_waits_for_a_publisher(open_log: OpenLog, log: Log) -> None:
    """What was being published is published, then all of it goes."""
    topic = new_topic(log, partitions=2)
    publisher, dropper = open_log(), open_log(autocommit=True)
    publisher.publish(topic=topic, payload=1, partition=1)
    waiting = blocked(log, dropper, lambda: dropper.drop_topic(topic=topic))
    publisher.publish(topic=topic, payload=2, partition=1)
    publisher.commit()
    waiting.result(PATIENCE)
    refused("MQ001", log.publish, topic=topic, payload=1)


@pytest.mark.parametrize("way", WAYS)
def test_a_publisher_that_waited_for_drop_topic(open_log: OpenLog, log: Log, way: str) -> None:
    """It finds no topic; when the drop is rolled back it goes on."""
    topic = new_topic(log, partitions=8)
    dropper, publisher = open_log(), open_log(autocommit=True)
    write = ways_to_publish(publisher, topic)[way]

    dropper.drop_topic(topic=topic)
    waiting = blocked(log, publisher, write)
    dropper.rollback()
    assert waiting.result(PATIENCE)[:2] == (0, 1)

    dropper.drop_topic(topic=topic)
    waiting = blocked(log, publisher, write)
    dropper.commit()
    with pytest.raises(psycopg.Error) as caught:
        waiting.result(PATIENCE)
    assert caught.value.sqlstate == "MQ001"


def test_drop_topic_and_a_publisher_that_changes_segment(open_log: OpenLog, log: Log) -> None:
    """A publisher that has its partition and then needs the topic does not deadlock with a drop.

    It came while the drop waited for another publisher, so the drop waits for it as well.
    """
    topic = new_topic(log, partitions=2)
    first, dropper, second = open_log(), open_log(autocommit=True), open_log()
    first.publish(topic=topic, payload=1, partition=0)
    log.alter_topic(topic=topic, retention="3 days")
    dropping = blocked(log, dropper, lambda: dropper.drop_topic(topic=topic))
    second.execute("set lock_timeout = '5s'")
    assert second.publish(topic=topic, payload=2, partition=1) == (1, 1, False)
    first.commit()
    second.commit()
    dropping.result(PATIENCE)
    refused("MQ001", log.publish, topic=topic, payload=1)


def test_alter_topic_beside_open_publishers(open_log: OpenLog, log: Log) -> None:
    """New partitions and a new retention wait for nobody; what is open is stored all the same."""
    topic = new_topic(log, partitions=1)
    publisher, altering = open_log(), open_log(autocommit=True)
    publisher.publish(topic=topic, payload=1)
    altering.execute("set lock_timeout = '2s'")
    altering.alter_topic(topic=topic, partitions=2, retention="5 days")
    assert altering.publish(topic=topic, payload=9, partition=1) == (1, 1, False)
    publisher.publish(topic=topic, payload=2, partition=0)
    publisher.commit()
    assert log.publish(topic=topic, payload=3, partition=0) == (0, 3, False)
    rows = log.fetch(topic=topic, consumer_group="readers", partition=0)
    assert [row.payload for row in rows] == [1, 2, 3]


@pytest.mark.parametrize("way", [*WAYS, "publish unkeyed"])
def test_a_publisher_that_waited_while_the_topic_was_made_anew(
    open_log: OpenLog, log: Log, way: str
) -> None:
    """A topic is dropped and made again in one transaction: who waited writes to the new one."""
    topic = new_topic(log, partitions=1, messages=5)
    keep, renewer, publisher = open_log(), open_log(), open_log(autocommit=True)
    keep.commit()
    write = {
        **ways_to_publish(publisher, topic),
        "publish unkeyed": lambda: publisher.publish(topic=topic, payload=7),
    }[way]
    renewer.drop_topic(topic=topic)
    renewer.create_topic(topic=topic, partitions=1)
    waiting = blocked(log, publisher, write)
    renewer.commit()
    assert waiting.result(PATIENCE)[:2] == (0, 1)
    assert newest(log, topic) == 1
