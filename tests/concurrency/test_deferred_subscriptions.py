"""Subscriptions of deferred topics beside publishers, workers and whoever gives offsets."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import psycopg
import pytest

from support.queue import claim, enqueue, new_queue
from support.session import Connect, Session, new_name
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session
from support.subscription import delivered, new_followed_topic, publish_many, subscribe
from support.waiting import aside, blocked, results, wait_until


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


def follow(session: Session, queues: int = 1, **options: Any) -> tuple[str, list[str]]:
    """A deferred topic, and queues that are subscribed to it."""
    return new_followed_topic(session, queues, deferred=True, **options)


def test_a_publisher_that_stays_open(connect: Connect, connection: Session) -> None:
    """It delays nobody; its own messages become jobs when it commits."""
    topic, [queue] = follow(connection)
    slow = connect()
    slow.publish(topic=topic, payload=-1)
    for n in range(3):
        connection.publish(topic=topic, payload=n)
        assert delivered(connection, queue) == [n]
    slow.commit()
    assert delivered(connection, queue) == [-1]


@pytest.mark.parametrize("change", ["subscribe", "unsubscribe"])
def test_a_change_beside_an_open_publisher(
    connect: Connect, connection: Session, change: str
) -> None:
    """It does not wait. What commits behind it counts as published behind it."""
    topic, queue, other = new_name("topic"), new_queue(connection), new_queue(connection)
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    name = subscribe(connection, topic, queue)
    slow = connect()
    publish_many(slow, topic, 3)
    connection.execute("set lock_timeout = '1s'")
    if change == "subscribe":
        subscribe(connection, topic, other)
    else:
        connection.unsubscribe(subscription=name)
    slow.commit()
    connection.assign_offsets(topic=topic)
    assert delivered(connection, queue) == ([] if change == "unsubscribe" else [0, 1, 2])
    assert delivered(connection, other) == ([0, 1, 2] if change == "subscribe" else [])


@pytest.mark.parametrize("change", ["subscribe", "unsubscribe"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_change_waits_for_who_gives_offsets(
    connect: Connect, connection: Session, change: str, end: str
) -> None:
    """And for nothing else: each message is delivered once, by those subscriptions it is for."""
    topic, queue = new_name("topic"), new_queue(connection)
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    name = subscribe(connection, topic, queue)
    other = new_queue(connection)
    publish_many(connection, topic, 3)
    giver, changer = connect(), connect(autocommit=True)
    giver.assign_offsets(topic=topic)

    def work() -> Any:
        if change == "subscribe":
            return subscribe(changer, topic, other)
        return changer.unsubscribe(subscription=name)

    waiting = blocked(connection, changer, work)
    connection.publish(topic=topic, payload=3)
    getattr(giver, end)()
    results(waiting)
    connection.publish(topic=topic, payload=4)
    connection.assign_offsets(topic=topic)
    assert delivered(connection, queue) == list(range(4 if change == "unsubscribe" else 5))
    assert delivered(connection, other) == ([4] if change == "subscribe" else [])


@pytest.mark.parametrize("change", ["subscribe", "unsubscribe"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_who_gives_offsets_beside_a_change(
    connect: Connect, connection: Session, change: str, end: str
) -> None:
    """He leaves the partition out, and does not wait; publishers neither."""
    topic, queue = new_name("topic"), new_queue(connection)
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    name = subscribe(connection, topic, queue)
    other = new_queue(connection)
    changer = connect()
    if change == "subscribe":
        subscribe(changer, topic, other)
    else:
        changer.unsubscribe(subscription=name)
    connection.execute("set lock_timeout = '1s'")
    publish_many(connection, topic, 3)
    assert connection.assign_offsets(topic=topic) == []
    assert claim(connection, queue, 9) == []
    getattr(changer, end)()
    connection.assign_offsets(topic=topic)
    stays = change == "subscribe" or end == "rollback"
    assert delivered(connection, queue) == ([0, 1, 2] if stays else [])
    added = change == "subscribe" and end == "commit"
    assert delivered(connection, other) == ([0, 1, 2] if added else [])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", ["subscribe", "unsubscribe"])
@pytest.mark.parametrize("way", ["assign_offsets", "claim_job"])
def test_giving_offsets_with_an_old_snapshot(
    connect: Connect, connection: Session, level: str, change: str, way: str
) -> None:
    """It knows other subscriptions than there are: it tries again."""
    topic, [queue] = follow(connection, 1)
    other = new_queue(connection)
    name = subscribe(connection, topic, other) if change == "unsubscribe" else ""
    publish_many(connection, topic, 3)
    old = old_session(connect, level)
    if change == "subscribe":
        subscribe(connection, topic, other)
    else:
        connection.unsubscribe(subscription=name)
    publish_many(connection, topic, 3)

    def work() -> Any:
        return old.assign_offsets(topic=topic) if way == "assign_offsets" else claim(old, queue, 9)

    assert answer_of(old, work) == TRY_AGAIN
    found = [] if way == "assign_offsets" else answer_of(old, work)
    if way == "assign_offsets":
        assert len(answer_of(old, work)) == 1
    rest = delivered(connection, queue)
    assert [job.payload for job in found] + rest + delivered(connection, queue) == [0, 1, 2] * 2
    assert delivered(connection, other) == [0, 1, 2]


@pytest.mark.parametrize("level", LEVELS)
def test_changes_with_an_old_snapshot(connect: Connect, connection: Session, level: str) -> None:
    """What another one has given since makes them try again; nothing is delivered twice."""
    topic, queue = new_name("topic"), new_queue(connection)
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    name = subscribe(connection, topic, queue)
    publish_many(connection, topic, 3)
    old = old_session(connect, level)
    connection.assign_offsets(topic=topic)
    assert answer_of(old, lambda: old.unsubscribe(subscription=name)) == TRY_AGAIN
    publish_many(connection, topic, 3)
    assert answer_of(old, lambda: old.unsubscribe(subscription=name)) == ""
    assert delivered(connection, queue) == [0, 1, 2] * 2


@pytest.mark.parametrize("level", LEVELS)
def test_publishing_with_an_old_snapshot(connect: Connect, connection: Session, level: str) -> None:
    """What counts is who is subscribed when the message gets its offset."""
    topic, [queue] = follow(connection)
    other = new_queue(connection)
    old = old_session(connect, level)
    connection.publish(topic=topic, payload=1)
    assert delivered(connection, queue) == [1]
    assert answer_of(old, lambda: old.publish(topic=topic, payload=2)).log_offset is None
    assert delivered(connection, queue) == [2]
    old = old_session(connect, level)
    subscribe(connection, topic, other)
    if answer_of(old, lambda: old.publish(topic=topic, payload=3)) == TRY_AGAIN:
        old.publish(topic=topic, payload=3)
        old.commit()
    assert delivered(connection, queue) == delivered(connection, other) == [3]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_workers(connect: Connect, connection: Session, end: str) -> None:
    """The second one does not wait for the offsets of the first, and no job comes twice."""
    topic, [queue] = follow(connection)
    publish_many(connection, topic, 5)
    one, two = connect(), connect(autocommit=True)
    two.execute("set lock_timeout = '1s'")
    assert [job.payload for job in claim(one, queue, 2)] == [0, 1]
    assert claim(two, queue, 9) == []
    getattr(one, end)()
    assert [job.payload for job in claim(two, queue, 9)] == list(range(5))[2 * (end == "commit") :]


def test_a_worker_beside_jobs_that_another_one_holds(connect: Connect, connection: Session) -> None:
    """They are not for it, so it gives offsets to what is new."""
    topic, [queue] = follow(connection)
    enqueue(connection, queue, "old")
    one, two = connect(), connect()
    assert [job.payload for job in claim(one, queue)] == ["old"]
    connection.publish(topic=topic, payload=1)
    assert [job.payload for job in claim(two, queue)] == [1]
    publish_many(connection, topic, 5)
    three = connect(autocommit=True)
    three.assign_offsets(topic=topic)  # the worker two has the partition
    two.commit()
    assert [job.payload for job in claim(three, queue, 9)] == list(range(5))


@pytest.mark.parametrize("who", ["worker", "consumer"])
def test_a_killed_one(connect: Connect, connection: Session, who: str) -> None:
    """The jobs that came with its offsets are gone with them, and come again."""
    topic, [queue] = follow(connection)
    connection.create_group(topic=topic, consumer_group="g")
    publish_many(connection, topic, 5)
    victim = connect()
    if who == "worker":
        claim(victim, queue)
    else:
        victim.consume(topic=topic, consumer_group="g")
    connection.execute("select pg_terminate_backend(%s, 5000)", [victim.pid])
    assert delivered(connection, queue) == list(range(5))
    assert delivered(connection, queue) == []


def test_an_ordered_key_that_is_held(connect: Connect, connection: Session) -> None:
    """Whoever gives offsets waits for it, as a publisher does elsewhere; cleanup gives up."""
    topic, queue = new_name("topic"), new_queue(connection, ordered=True)
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    subscribe(connection, topic, queue)
    holder, giver = connect(), connect(autocommit=True)
    enqueue(holder, queue, "first", key="k")
    connection.publish(topic=topic, payload=1, key="k")
    assert ("busy", "offsets") in {action[:2] for action in connection.cleanup()}
    waiting = blocked(connection, giver, lambda: giver.assign_offsets(topic=topic))
    connection.publish(topic=topic, payload=2, key="k")  # does not wait
    holder.commit()
    results(waiting)
    for expected in ("first", 1, 2):
        [job] = claim(connection, queue)
        assert job.payload == expected
        connection.ack(job_id=job.job_id, lease_token=job.lease_token)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_crowd(connect: Connect, connection: Session, ordered: bool) -> None:
    """Publishers, members and workers at all levels: each message once, each key in its order."""
    topic, queue = new_name("topic"), new_queue(connection, ordered=ordered)
    connection.create_topic(topic=topic, partitions=2, deferred=True)
    connection.create_group(topic=topic, consumer_group="g")
    subscribe(connection, topic, queue)
    written = threading.Event()

    def publishing(writer: Session, number: int) -> list[int]:
        kept: list[int] = []
        for n in range(30):
            content = number * 1000 + n
            try:
                writer.publish(topic=topic, payload=content, key=f"k{number}")
                if n % 5 == 3:
                    writer.rollback()
                    continue
                writer.commit()
            except psycopg.errors.SerializationFailure:
                writer.rollback()
            else:
                kept.append(content)
        return kept

    def working(worker: Session) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        while True:
            last = written.is_set()
            try:
                jobs = claim(worker, queue, 3)
                for job in jobs:
                    worker.ack(job_id=job.job_id, lease_token=job.lease_token)
                worker.commit()
            except psycopg.errors.SerializationFailure:
                worker.rollback()
                continue
            found += [(job.job_id, job.payload) for job in jobs]
            if last and not jobs:
                return found

    def reading(member: Session) -> None:
        while not written.is_set():
            member.consume(topic=topic, consumer_group="g", max_messages=7)
            member.commit()

    workers = [
        aside(partial(working, connect(isolation_level=level)))
        for level in ("read committed", "read committed", *LEVELS)
    ]
    member = aside(partial(reading, connect()))
    kept = results(
        *(
            aside(partial(publishing, connect(isolation_level=level), number))
            for number, level in enumerate(("read committed", "read committed", *LEVELS))
        )
    )
    written.set()
    found = results(*workers)
    results(member)

    # a wake-up record that could not be processed is looked at again a while later
    def all_found() -> bool:
        found.append(working(connection))
        return sum(map(len, found)) >= sum(map(len, kept))

    wait_until(all_found)
    got = [content for _, content in sorted(one for each in found for one in each)]
    assert sorted(got) == sorted(n for each in kept for n in each)
    if ordered:
        # a job is there for claims once the one before it has ended, and ids rise within a key
        for number, mine in enumerate(kept):
            assert [n for n in got if n // 1000 == number] == mine
