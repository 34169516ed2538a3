"""Publishers side by side: order, waiting, deadlocks, and no gaps."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from support.clock import Clock
from support.log import (
    WAYS_TO_PUBLISH,
    committed_offsets,
    new_topic,
    newest,
    offsets,
    ways_to_publish,
)
from support.session import Connect, Session, refused
from support.waiting import PATIENCE, aside, blocked

# ---------------------------------------------------------------------------- order


def test_a_late_commit_is_never_skipped(shared_connect: Connect, log: Session) -> None:
    """One publishes and stays open, one publishes after it, the group reads and acknowledges.

    When the first one commits, its message is still before the group: the second had to wait for
    it, or has written to another partition.
    """
    topic = new_topic(log, partitions=2)
    early, late = shared_connect(), shared_connect(autocommit=True)
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
    assert same.result(PATIENCE) == (place.partition, 2, False)
    read = log.consume(topic=topic, consumer_group="readers")
    assert [row.payload for row in read] == [1, 3]


@pytest.mark.parametrize("way", WAYS_TO_PUBLISH)
def test_the_second_publisher_of_a_partition_waits(
    shared_connect: Connect, log: Session, way: str
) -> None:
    """It gets the next offset when the first commits, the same one when it rolls back."""
    topic = new_topic(log, partitions=8)
    first, second = shared_connect(), shared_connect(autocommit=True)
    write = ways_to_publish(second, topic)[way]

    first.publish_batch(topic=topic, payloads=[1, 2], partition=0)
    waiting = blocked(log, second, write)
    first.commit()
    assert waiting.result(PATIENCE)[:2] == (0, 3)

    first.publish_batch(topic=topic, payloads=[4, 5], partition=0)
    waiting = blocked(log, second, write)
    first.rollback()
    assert waiting.result(PATIENCE)[:2] == (0, 4)


def test_publishers_of_different_partitions_do_not_wait(
    shared_connect: Connect, log: Session
) -> None:
    """An open transaction holds its partition only; readers do not wait at all."""
    topic = new_topic(log, partitions=3)
    holders = [shared_connect() for _ in range(3)]
    for partition, holder in enumerate(holders):
        holder.execute("set lock_timeout = '2s'")
        assert holder.publish(topic=topic, payload=1, partition=partition) == (partition, 1, False)
    assert log.consume(topic=topic, consumer_group="readers") == []
    for holder in holders:
        holder.commit()
    assert len(log.fetch(topic=topic, consumer_group="readers")) == 3


@pytest.mark.parametrize("function", ["publish", "publish_batch"])
def test_publishers_without_a_key_take_free_partitions(
    shared_connect: Connect, log: Session, function: str
) -> None:
    """As many of them as there are partitions work at once; only one more has to wait."""
    topic = new_topic(log, partitions=3)
    content: dict[str, Any] = {"payload": 1} if function == "publish" else {"payloads": [1]}
    holders = [shared_connect() for _ in range(3)]
    taken = []
    for holder in holders:
        holder.execute("set lock_timeout = '2s'")
        written = getattr(holder, function)(topic=topic, **content)
        taken.append(written.partition if function == "publish" else written[0].partition)
    assert sorted(taken) == [0, 1, 2]

    late = shared_connect(autocommit=True)
    waiting = blocked(log, late, lambda: late.call(function, topic=topic, **content))
    for holder in holders:
        holder.commit()
    waiting.result(PATIENCE)
    assert sum(newest(log, topic, partition) for partition in range(3)) == 4


@pytest.mark.parametrize("function", ["publish", "publish_batch"])
def test_the_last_free_partition_is_found(
    shared_connect: Connect, log: Session, function: str
) -> None:
    """Whichever it is, a publisher without a key writes there at once."""
    topic = new_topic(log, partitions=4)
    content: dict[str, Any] = {"payload": 1} if function == "publish" else {"payloads": [1]}
    holder, publisher = shared_connect(), shared_connect()
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
    shared_connect: Connect, log: Session
) -> None:
    """They go where the keyed ones go, so a batch locks no more partitions than it must."""
    topic = new_topic(log, partitions=8)
    holder, writer = shared_connect(), shared_connect()
    holder.publish(topic=topic, payload=1, partition=2)
    writer.execute("set lock_timeout = '2s'")
    ranges = writer.publish_batch(topic=topic, payloads=[1, 2, 3], keys=["b", None, "a"])
    assert [row.partition for row in ranges] == [0, 1]


@pytest.mark.parametrize("place", [0, 600, 1023])
def test_one_partition_is_locked_also_where_a_segment_is_full(
    connect: Connect, connection: Session, clock: Clock, place: int
) -> None:
    """Without a key, the one that was found free is the one that goes on to another segment."""
    connection.execute(
        "create or replace function pgq._hash_position() returns integer language sql stable"
        f" as 'select {place}'"
    )
    connection.create_topic(topic="t", partitions=3, retention="1 day")
    connection.publish_batch(topic="t", payloads=[0], partition=1)
    clock.advance("20 hours")
    publisher, other = connect(), connect()
    taken = publisher.publish(topic="t", payload=1).partition
    other.execute("set lock_timeout = '2s'")
    for partition in {0, 1, 2} - {taken}:
        other.publish(topic="t", payload=2, partition=partition)
    refused("55P03", other.publish, topic="t", payload=2, partition=taken)


# ---------------------------------------------------------------------------- deadlocks


def test_batches_lock_in_ascending_order(shared_connect: Connect, log: Session) -> None:
    """A batch that waits for a low partition does not hold a higher one yet."""
    topic = new_topic(log, partitions=8)
    holder, batch, other = shared_connect(), shared_connect(), shared_connect(autocommit=True)
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
    assert waiting.result(PATIENCE) == [(p, 2, 2, False) for p in range(3)]


def test_batches_of_opposite_order_do_not_deadlock(shared_connect: Connect, log: Session) -> None:
    """Two writers, keys in opposite order, again and again: no error, nothing lost."""
    topic = new_topic(log, partitions=8)
    rounds = 60

    def write(keys: list[str]) -> None:
        writer = shared_connect(autocommit=True)
        for n in range(rounds):
            writer.publish_batch(topic=topic, payloads=[n] * len(keys), keys=keys)

    writers = [aside(lambda keys=keys: write(keys)) for keys in (["a", "b", "c"], ["c", "b", "a"])]
    for writer in writers:
        writer.result(PATIENCE)
    assert [newest(log, topic, partition) for partition in range(3)] == [2 * rounds] * 3


# ---------------------------------------------------------------------------- no gaps


def test_no_reader_sees_an_offset_without_those_below(
    shared_connect: Connect, log: Session
) -> None:
    """While four writers publish, roll back and write batches, no snapshot has a gap."""
    topic = new_topic(log, partitions=2)
    stop, written_all = threading.Event(), threading.Event()
    written = [0] * 4

    def write(number: int) -> None:
        writer = shared_connect()
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
        reader, looks = shared_connect(isolation_level="repeatable read"), 0
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
        member = shared_connect()
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
