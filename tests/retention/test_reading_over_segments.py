"""Reading the log from one segment to the next, and what a reader keeps cleanup from."""

from __future__ import annotations

from datetime import timedelta

from support.clock import Clock
from support.queue import claim, enqueue, new_queue
from support.session import Connect, Session, refused, row
from support.storage import actions, close_segment, publish
from support.waiting import aside


def test_a_reader_of_the_leaf(connect: Connect, connection: Session, clock: Clock) -> None:
    """cleanup does not wait for it, and so nobody waits for cleanup; the next one succeeds."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    connection.create_topic(topic="t", partitions=1, retention="9 hours")
    enqueue(connection, queue, "old")
    publish(connection, "t")
    close_segment(connection, clock, "3 hours")
    clock.advance("10 hours")
    all_of_it = {"topic": "t", "partition": 0, "first_offset": 1}

    reader, third = connect(), connect(autocommit=True)
    assert reader.fetch_range(**all_of_it, last_offset=1)
    third.execute("set lock_timeout = '5s'")
    cleaned = aside(lambda: actions(connection))
    # whoever comes meanwhile gets through
    publish(third, "t")
    assert len(third.fetch_range(**all_of_it, last_offset=2)) == 2
    enqueue(third, queue, "new")
    assert [job.payload for job in claim(third, queue, 10)] == ["new"]
    assert "segment busy" in cleaned.result(30)
    reader.rollback()
    assert "segment truncated" in actions(connection)
    refused("MQ004", connection.fetch_range, **all_of_it, last_offset=2)


def test_a_group_that_slept_over_a_switch(connection: Session, clock: Clock) -> None:
    """It reads on in the old segment, then in the new one, also where nothing came since."""
    connection.create_topic(topic="t", partitions=2, retention="90 hours")
    connection.create_group(topic="t", consumer_group="g")
    for partition in range(2):
        publish(connection, "t", 4, partition=partition)
    for partition in range(2):
        options = {"topic": "t", "consumer_group": "g", "partition": partition}
        assert len(connection.consume(**options, max_messages=2)) == 2
    close_segment(connection, clock, "30 hours")
    publish(connection, "t", 2, partition=1)
    found: dict[int, list[int]] = {0: [], 1: []}
    while messages := connection.consume(topic="t", consumer_group="g", max_messages=3):
        for message in messages:
            found[message[0]].append(message[1])
    assert found == {0: [3, 4], 1: [3, 4, 5, 6]}
    publish(connection, "t", 1, partition=0)
    assert [message[:2] for message in connection.consume(topic="t", consumer_group="g")] == [
        (0, 5)
    ]


def test_seek_over_segments(connection: Session, clock: Clock) -> None:
    """By time and by offset, to every message of every segment."""
    connection.create_topic(topic="t", partitions=1, retention="90 hours")
    connection.create_group(topic="t", consumer_group="g")
    times = []
    for _ in range(6):
        publish(connection, "t", 2)
        [moment] = row(connection, "select pgq._clock()")
        times.append(moment)
        clock.advance("16 hours")
        connection.cleanup()
    for turn, moment in enumerate(times):
        place = connection.seek(topic="t", consumer_group="g", published_at=moment)
        assert place == [(0, 2 * turn + 3)]
        place = connection.seek(
            topic="t", consumer_group="g", published_at=moment - timedelta(hours=1)
        )
        assert place == [(0, 2 * turn + 1)]
    assert (
        row(connection, "select count(distinct segment) from pgq.message where partition_id > 0")[0]
        >= 3
    )
    for offset in range(1, 13):
        connection.seek(topic="t", consumer_group="g", partition=0, log_offset=offset)
        found = connection.fetch(topic="t", consumer_group="g")
        assert [message[1] for message in found] == list(range(offset, 13))
