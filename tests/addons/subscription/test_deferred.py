"""What is published to a deferred topic becomes jobs when it gets its offsets."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, new_name, refused, row
from support.subscription import (
    delivered,
    in_runs,
    new_followed_topic,
    publish_many,
    subscribe,
)


def follow(session: Session, queues: int = 1, **options: Any) -> tuple[str, list[str]]:
    """A deferred topic, and queues that are subscribed to it."""
    return new_followed_topic(session, queues, deferred=True, **options)


def test_a_claim_gets_its_job(connection: Session) -> None:
    """Nobody else has to do anything; each queue gets each message once."""
    topic, [one, other] = follow(connection, 2)
    assert connection.publish(topic=topic, payload=1, key="k", headers={"h": 1}).log_offset is None
    connection.publish(topic=topic, body=b"\x00")
    first = claim_one(connection, one)
    assert (first.payload, first.key, first.headers) == (1, "k", {"h": 1})
    [message] = connection.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=1)
    assert first.enqueued_at == message.published_at
    assert [job.body for job in claim(connection, one, 9)] == [b"\x00"]
    assert [job.payload for job in claim(connection, other, 9)] == [1, None]
    assert claim(connection, one, 9) == claim(connection, other, 9) == []


@pytest.mark.parametrize(
    "way", ["assign_offsets", "consume", "poll", "cleanup", "finish_and_claim"]
)
def test_whoever_gives_offsets(connection: Session, way: str) -> None:
    """He makes the jobs, whatever he came for."""
    topic, [queue] = follow(connection)
    connection.create_group(topic=topic, consumer_group="g")
    publish_many(connection, topic, 5)
    assert not stats(connection, queue)
    options: dict[str, Any] = {
        "assign_offsets": {"topic": topic},
        "cleanup": {},
        "finish_and_claim": {"queue": queue},
    }.get(way, {"topic": topic, "consumer_group": "g"})
    connection.call(way, **options)
    claimed = way == "finish_and_claim"
    assert stats(connection, queue) == ({"ready": 4, "leased": 1} if claimed else {"ready": 5})
    rest = delivered(connection, queue)
    assert rest == list(range(5))[way == "finish_and_claim" :]
    assert delivered(connection, queue) == []


@pytest.mark.parametrize("number", [3, 4, 100, 101, 250])
def test_many(connection: Session, number: int) -> None:
    """Single ones and batches become one piece."""
    topic, [queue] = follow(connection)
    connection.publish(topic=topic, payload=0)
    connection.publish_batch(topic=topic, payloads=list(range(1, number)))
    connection.assign_offsets(topic=topic)
    assert in_runs(connection, queue) == (number if number > 3 else 0)
    assert delivered(connection, queue) == list(range(number))


def test_filters(connection: Session) -> None:
    """They are looked at as elsewhere; what no queue wants is only in the log."""
    topic, [red] = follow(connection, filter={"color": ["red"]})
    keys = new_queue(connection)
    subscribe(connection, topic, keys, routing_key="a.*")
    for n, headers in enumerate(({"color": "red"}, {"routing_key": "a.b"}, None)):
        connection.publish(topic=topic, payload=n, headers=headers)
    assert delivered(connection, red) == [0]
    assert delivered(connection, keys) == [1]
    assert [r.last_offset for r in connection.list_offsets(topic=topic)] == [3]


def test_jobs_that_are_due_come_first(connection: Session) -> None:
    """As long as there are some, a claim gives no offsets: then they come in larger numbers."""
    topic, [queue] = follow(connection)
    enqueue(connection, queue, "first", priority=3)
    publish_many(connection, topic, 5)
    assert claim_one(connection, queue).payload == "first"
    assert [r.last_offset for r in connection.list_offsets(topic=topic)] == [0]
    connection.publish(topic=topic, payload=5)
    assert claim_one(connection, queue).payload == 0
    connection.publish(topic=topic, payload=6)
    assert [job.payload for job in claim(connection, queue, 9)] == [1, 2, 3, 4, 5]
    assert [r.last_offset for r in connection.list_offsets(topic=topic)] == [6]
    assert delivered(connection, queue) == [6]


def test_which_claims_look(connection: Session) -> None:
    """Not one by a label, which no such job has, and not one of a paused queue."""
    topic, [queue] = follow(connection)
    connection.publish(topic=topic, payload=1)
    assert claim(connection, queue, label="a") == []
    connection.finish_and_claim(queue=queue, max_jobs=0)
    connection.pause_queue(queue=queue)
    assert claim(connection, queue) == []
    assert [r.last_offset for r in connection.list_offsets(topic=topic)] == [0]
    connection.resume_queue(queue=queue)
    assert delivered(connection, queue) == [1]


def test_several_topics(connection: Session) -> None:
    """A queue gets what they all have, deferred or not, each in its order."""
    topic, [queue] = follow(connection, partitions=2)
    second, third = new_name("topic"), new_name("topic")
    connection.create_topic(topic=second, deferred=True)
    connection.create_topic(topic=third)
    for name in (second, third):
        subscribe(connection, name, queue)
    for n, name in enumerate((topic, topic, second)):
        connection.publish(topic=name, payload=n, partition=n % 2)
    assert sorted(delivered(connection, queue)) == [0, 1, 2]
    connection.publish(topic=third, payload=3)
    connection.publish(topic=second, payload=4)
    assert [delivered(connection, queue) for _ in range(3)] == [[3], [4], []]


def test_a_full_queue(connection: Session) -> None:
    """It holds up neither the publisher nor the log: it gets more than its max_unfinished."""
    topic, queue = new_name("topic"), new_queue(connection, max_unfinished=2)
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    connection.create_group(topic=topic, consumer_group="g")
    subscribe(connection, topic, queue)
    publish_many(connection, topic, 5)
    assert len(connection.consume(topic=topic, consumer_group="g")) == 5
    assert delivered(connection, queue) == list(range(5))
    refused("MQ010", connection.enqueue, queue=queue, payload=6)
    connection.publish(topic=topic, payload=5)
    assert delivered(connection, queue) == [5]


@pytest.mark.parametrize(
    "settings", [{"max_leased": 2}, {"rate_limit": 2, "rate_interval": "1 hour"}]
)
def test_a_limited_queue(connection: Session, settings: dict[str, Any]) -> None:
    """It gets its jobs, and hands out no more than it may."""
    topic, queue = new_name("topic"), new_queue(connection, **settings)
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    subscribe(connection, topic, queue)
    publish_many(connection, topic, 5)
    assert [job.payload for job in claim(connection, queue, 9)] == [0, 1]
    assert claim(connection, queue) == []


def test_an_ordered_queue(connection: Session) -> None:
    """The jobs of a key wait for each other, in the order of the key's transactions."""
    topic, queue = new_name("topic"), new_queue(connection, ordered=True)
    connection.create_topic(topic=topic, partitions=4, deferred=True)
    subscribe(connection, topic, queue)
    for n in range(8):
        connection.publish(topic=topic, payload=n, key="ab"[n % 2])
        if n % 3 == 2:
            connection.assign_offsets(topic=topic)
    seen: dict[Any, list[Any]] = {"a": [], "b": []}
    while jobs := claim(connection, queue, 9):
        assert len({job.key for job in jobs}) == len(jobs)
        for job in jobs:
            seen[job.key].append(job.payload)
            connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    assert seen == {"a": [0, 2, 4, 6], "b": [1, 3, 5, 7]}


def test_delay_and_time_to_live(connection: Session, clock: Clock) -> None:
    """They count from when the message gets its offset."""
    topic = new_name("topic")
    queue = new_queue(connection, delay="1 hour", job_ttl="3 hours")
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    subscribe(connection, topic, queue)
    connection.publish(topic=topic, payload=1)
    clock.advance("2 hours")
    assert claim(connection, queue) == []
    clock.advance("61 minutes")
    assert delivered(connection, queue) == [1]


def test_a_clock_that_was_set_back(connection: Session, clock: Clock) -> None:
    topic, [queue] = follow(connection)
    connection.publish(topic=topic, payload=1)
    assert delivered(connection, queue) == [1]
    clock.advance("-1 day")
    connection.publish(topic=topic, payload=2)
    assert delivered(connection, queue) == [2]


def test_what_was_there_before(connection: Session) -> None:
    """It is not for the new subscription, though it has no offset yet, but for the others."""
    topic, [first] = follow(connection)
    publish_many(connection, topic, 5)
    second = new_queue(connection)
    subscribe(connection, topic, second)
    connection.publish(topic=topic, payload=5)
    assert delivered(connection, second) == [5]
    assert delivered(connection, first) == list(range(6))


@pytest.mark.parametrize("way", ["unsubscribe", "drop_topic"])
def test_what_was_there_when_it_ends(connection: Session, way: str) -> None:
    """It is delivered, though it had no offset; what comes later is not."""
    topic, queue = new_name("topic"), new_queue(connection)
    connection.create_topic(topic=topic, deferred=True, partitions=1)
    name = subscribe(connection, topic, queue)
    publish_many(connection, topic, 5)
    if way == "unsubscribe":
        connection.unsubscribe(subscription=name)
        connection.publish(topic=topic, payload=5)
        connection.assign_offsets(topic=topic)
    else:
        connection.drop_topic(topic=topic)
    assert delivered(connection, queue) == list(range(5))
    assert row(connection, "select subscribed from pgq.queue where queue = %s", [queue]) == (True,)
    connection.cleanup()
    assert row(connection, "select subscribed from pgq.queue where queue = %s", [queue]) == (False,)


def test_a_queue_that_goes(connection: Session) -> None:
    """The topic goes on without it."""
    topic, [one, other] = follow(connection, 2)
    publish_many(connection, topic, 5)
    connection.drop_queue(queue=one)
    assert delivered(connection, other) == list(range(5))


def test_new_partitions(connection: Session) -> None:
    """They are followed as well."""
    topic, [queue] = follow(connection)
    connection.alter_topic(topic=topic, partitions=3)
    for partition in range(3):
        connection.publish(topic=topic, payload=partition, partition=partition)
    assert sorted(delivered(connection, queue)) == [0, 1, 2]


def test_a_bulk_write(connection: Session) -> None:
    """It is delivered at its commit, behind what was there."""
    topic, [queue] = follow(connection)
    connection.publish(topic=topic, payload=0)
    write = connection.begin_write(topic=topic).write_id
    connection.write_chunk(
        write_id=write,
        task=0,
        task_attempt="a",
        chunk=0,
        lengths=[1] * 5,
        packed_payloads=b"12345",
        last_chunk=True,
    )
    connection.commit_write(write_id=write)
    assert delivered(connection, queue) == [0, 1, 2, 3, 4, 5]


def test_notify(connect: Connect, connection: Session) -> None:
    """The commit of a publish wakes the workers of a queue, and only who asked for it."""
    topic, [silent] = follow(connection)
    queue = new_queue(connection, notify=True)
    subscribe(connection, topic, queue, filter={"h": ["v"]})
    listener, publisher = connect(autocommit=True), connect()
    for channel in ("pgq_queue", "pgq_topic"):
        listener.execute(f"listen {channel}".encode())

    def heard() -> set[tuple[str, str]]:
        return {(n.channel, n.payload) for n in listener.notifies(timeout=0.1)}

    ways: list[dict[str, Any]] = [
        {"payload": 1},
        {"payload": 1},
        {"payloads": [1, 2]},
        {"payloads": [1, 2], "keys": ["a", "b"]},
    ]
    for options in ways:
        publisher.call(
            "publish" if "payload" in options else "publish_batch", topic=topic, **options
        )
        assert heard() == set()
        publisher.commit()
        assert heard() == {("pgq_queue", queue)}
    # what no filter wants wakes nobody again
    connection.assign_offsets(topic=topic)
    assert heard() == set()
    connection.alter_topic(topic=topic, notify=True)
    connection.publish(topic=topic, payload=1, headers={"h": "v"})
    assert heard() == {("pgq_queue", queue), ("pgq_topic", topic)}
    connection.assign_offsets(topic=topic)
    assert heard() == {("pgq_queue", queue), ("pgq_topic", topic)}
    connection.drop_queue(queue=queue)
    connection.drop_queue(queue=silent)


def test_a_segment_that_is_left(connection: Session, clock: Clock) -> None:
    """Jobs point at where the messages are moved to."""
    topic, [queue] = follow(connection)
    publish_many(connection, topic, 5)
    for _ in range(30):
        clock.advance("12 hours")
        actions = {action.action for action in connection.cleanup()}
        if "segment closed" in actions:
            break
    connection.publish(topic=topic, payload=5)
    assert [delivered(connection, queue) for _ in range(2)] == [list(range(5)), [5]]
