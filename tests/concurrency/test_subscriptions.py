"""Subscriptions beside publishers, workers and each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.queue import claim, new_queue, stats
from support.session import Connect, Session, new_name
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session
from support.subscription import (
    delivered,
    in_runs,
    new_followed_topic,
    publish_many,
    subscribe,
)
from support.waiting import aside, blocked, results, wait_until


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.fixture
def topic(connection: Session) -> str:
    name = new_name("topic")
    connection.create_topic(topic=name, partitions=2)
    return name


@pytest.fixture
def queue(connection: Session) -> str:
    return new_queue(connection)


def _publish(session: Session, topic: str, **options: Any) -> Any:
    return session.publish(topic=topic, payload=7, **options)


WAYS: dict[str, Callable[[Session, str], Any]] = {
    "publish": lambda session, topic: _publish(session, topic, partition=1),
    "publish any": _publish,
    "publish by key": lambda session, topic: _publish(session, topic, key="a"),
    "publish_batch": lambda session, topic: publish_many(session, topic, 5),
    "publish_batch by key": lambda session, topic: publish_many(session, topic, 2, keys=["a", "b"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_subscribe_waits_for_publishers(
    connect: Connect, connection: Session, topic: str, queue: str, way: str
) -> None:
    """What they publish is not delivered, and what comes behind them is."""
    publisher, subscriber = connect(), connect(autocommit=True)
    WAYS[way](publisher, topic)
    waiting = blocked(connection, subscriber, lambda: subscribe(subscriber, topic, queue))
    publisher.commit()
    results(waiting)
    assert delivered(connection, queue) == []
    WAYS[way](publisher, topic)
    publisher.commit()
    assert delivered(connection, queue) != []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_publishers_wait_for_subscribe(
    connect: Connect, connection: Session, topic: str, queue: str, way: str, end: str
) -> None:
    subscriber, publisher = connect(), connect(autocommit=True)
    subscribe(subscriber, topic, queue)
    waiting = blocked(connection, publisher, lambda: WAYS[way](publisher, topic))
    getattr(subscriber, end)()
    results(waiting)
    assert bool(delivered(connection, queue)) is (end == "commit")


@pytest.mark.parametrize("way", WAYS)
def test_unsubscribe_waits_for_publishers(
    connect: Connect, connection: Session, topic: str, queue: str, way: str
) -> None:
    name = subscribe(connection, topic, queue)
    publisher, other = connect(), connect(autocommit=True)
    WAYS[way](publisher, topic)
    waiting = blocked(connection, other, lambda: other.unsubscribe(subscription=name))
    publisher.commit()
    results(waiting)
    assert delivered(connection, queue) != []
    WAYS[way](publisher, topic)
    publisher.commit()
    assert delivered(connection, queue) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_publishers_wait_for_unsubscribe(
    connect: Connect, connection: Session, topic: str, queue: str, way: str, end: str
) -> None:
    name = subscribe(connection, topic, queue)
    other, publisher = connect(), connect(autocommit=True)
    other.unsubscribe(subscription=name)
    waiting = blocked(connection, publisher, lambda: WAYS[way](publisher, topic))
    getattr(other, end)()
    results(waiting)
    assert bool(delivered(connection, queue)) is (end == "rollback")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", ["subscribe", "unsubscribe"])
def test_publishers_with_an_old_snapshot(
    connect: Connect, connection: Session, topic: str, queue: str, level: str, way: str, change: str
) -> None:
    """They try again: what they see is not how it is."""
    name = subscribe(connection, topic, queue) if change == "unsubscribe" else ""
    publisher = old_session(connect, level)
    if change == "subscribe":
        subscribe(connection, topic, queue)
    else:
        connection.unsubscribe(subscription=name)
    assert answer_of(publisher, lambda: WAYS[way](publisher, topic)) == TRY_AGAIN
    assert delivered(connection, queue) == []
    assert answer_of(publisher, lambda: WAYS[way](publisher, topic)) != TRY_AGAIN
    assert bool(delivered(connection, queue)) is (change == "subscribe")


@pytest.mark.parametrize("level", LEVELS)
def test_partitions_added_with_an_old_snapshot(
    connect: Connect, connection: Session, topic: str, queue: str, level: str
) -> None:
    session = old_session(connect, level)
    subscribe(connection, topic, queue)
    assert answer_of(session, lambda: session.alter_topic(topic=topic, partitions=3)) == TRY_AGAIN
    assert answer_of(session, lambda: session.alter_topic(topic=topic, partitions=3)) != TRY_AGAIN
    _publish(connection, topic, partition=2)
    assert delivered(connection, queue) == [7]


@pytest.mark.parametrize("first", ["subscribe", "alter_topic"])
def test_partitions_added_beside_subscribe(
    connect: Connect, connection: Session, topic: str, queue: str, first: str
) -> None:
    """Those are followed as well."""
    one, two = connect(), connect()
    calls: list[Callable[[Session], Any]] = [
        lambda session: subscribe(session, topic, queue),
        lambda session: session.alter_topic(topic=topic, partitions=3),
    ]
    if first == "alter_topic":
        calls.reverse()
    calls[0](one)
    waiting = blocked(connection, two, lambda: calls[1](two))
    one.commit()
    results(waiting)
    two.commit()
    for partition in range(3):
        _publish(connection, topic, partition=partition)
    assert delivered(connection, queue) == [7, 7, 7]


@pytest.mark.parametrize("change", ["drop_topic", "drop_queue", "unsubscribe"])
@pytest.mark.parametrize("level", ["read committed", *LEVELS])
def test_a_subscription_that_goes_while_it_is_asked_for(
    connect: Connect, connection: Session, topic: str, queue: str, change: str, level: str
) -> None:
    """It is unknown then, and a new one can be made."""
    name = subscribe(connection, topic, queue)
    one, two = connect(), old_session(connect, level)
    what = {"drop_topic": {"topic": topic}, "drop_queue": {"queue": queue}}
    one.call(change, **what.get(change, {"subscription": name}))
    waiting = blocked(
        connection,
        two,
        lambda: answer_of(two, lambda: two.unsubscribe(subscription=name), "MQ011"),
    )
    one.commit()
    assert results(waiting) == [TRY_AGAIN]
    connection.create_topic(topic=topic)
    connection.create_queue(queue=queue)
    connection.subscribe(subscription=name, topic=topic, queue=queue)


@pytest.mark.parametrize("level", ["read committed", *LEVELS])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_subscribe_at_once(
    connect: Connect, connection: Session, topic: str, queue: str, level: str, end: str
) -> None:
    one, two = connect(), old_session(connect, level)
    name = subscribe(one, topic, queue)

    def again() -> Any:
        return two.subscribe(subscription=name, topic=topic, queue=queue)

    waiting = blocked(connection, two, lambda: answer_of(two, again))
    getattr(one, end)()
    [answer] = results(waiting)
    if level != "read committed" and end == "commit":
        assert answer == TRY_AGAIN
        answer = answer_of(two, again)
    assert answer.subscription == name
    publish_many(connection, topic, 5)
    assert delivered(connection, queue) == list(range(5))


def test_drop_queue_beside_a_publisher(connect: Connect, connection: Session) -> None:
    """What it adds meanwhile is nobody's, and cleanup removes it."""
    topic, [queue] = new_followed_topic(connection)
    publisher, dropper = connect(), connect()
    dropper.drop_queue(queue=queue)
    publish_many(publisher, topic, 5)
    dropper.commit()
    publisher.commit()
    publish_many(connection, topic, 5)
    connection.cleanup()
    assert connection.execute(
        "select count(*) from pgq.job_extent as r left join pgq.queue as q using (queue_id)"
        " where q.queue_id is null"
    ).fetchall() == [(0,)]


# ------------------------------------------------------------------------------------ runs


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_workers_and_one_run(connect: Connect, connection: Session, end: str) -> None:
    """The second one does not wait, and no job comes twice or is lost."""
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 5)
    one, two = connect(), connect()
    assert [job.payload for job in claim(one, queue)] == [0]
    assert claim(two, queue, 9) == []
    getattr(one, end)()
    assert [job.payload for job in claim(two, queue, 9)] == [0, 1, 2, 3, 4][end == "commit" :]
    two.commit()
    assert claim(connection, queue) == []


def test_two_workers_and_two_runs(connect: Connect, connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 5)
    publish_many(connection, topic, 6)
    one, two = connect(), connect()
    assert len(claim(one, queue)) == 1
    assert len(claim(two, queue, 9)) == 6
    two.commit()
    one.commit()
    assert len(claim(connection, queue, 9)) == 4


def test_many_workers(connect: Connect, connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection)
    for _ in range(10):
        publish_many(connection, topic, 40)
    sessions = [connect(autocommit=True) for _ in range(4)]

    def work(session: Session) -> list[int]:
        found: list[int] = []
        while stats(session, queue).get("ready"):
            found += [job.job_id for job in claim(session, queue, 7)]
        return found

    jobs = [n for each in results(*(aside(lambda s=s: work(s)) for s in sessions)) for n in each]
    assert len(jobs) == len(set(jobs)) == 400


@pytest.mark.parametrize("level", LEVELS)
def test_a_claim_with_an_old_snapshot(connect: Connect, connection: Session, level: str) -> None:
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 5)
    worker = old_session(connect, level)
    claim(connection, queue)
    assert answer_of(worker, lambda: claim(worker, queue, 9)) == TRY_AGAIN
    assert len(answer_of(worker, lambda: claim(worker, queue, 9))) == 4
    worker = old_session(connect, level)
    publish_many(connection, topic, 5)
    assert answer_of(worker, lambda: claim(worker, queue, 9)) == []
    assert len(answer_of(worker, lambda: claim(worker, queue, 9))) == 5


@pytest.mark.parametrize("change", ["purge_queue", "drop_queue"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_runs_that_a_worker_takes_meanwhile(
    connect: Connect, connection: Session, change: str, end: str
) -> None:
    """Who removes all jobs waits for the worker, and finds the jobs that it made."""
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 5)
    worker, other = connect(), connect(autocommit=True)
    claim(worker, queue)
    options = {"all_jobs": True} if change == "purge_queue" else {}
    waiting = blocked(connection, other, lambda: other.call(change, queue=queue, **options))
    getattr(worker, end)()
    [removed] = results(waiting)
    if change == "purge_queue":
        assert removed.taken == 5
        assert delivered(connection, queue) == []
    assert connection.execute(
        "select count(*) from pgq.job as j left join pgq.queue as q using (queue_id)"
        " where coalesce(q.queue, %s) = %s",
        [queue, queue],
    ).fetchall() == [(0,)]


def test_a_worker_beside_a_purge(connect: Connect, connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 5)
    purger = connect()
    assert purger.purge_queue(queue=queue, all_jobs=True).taken == 5
    assert claim(connection, queue) == []
    purger.rollback()
    assert delivered(connection, queue) == list(range(5))


@pytest.mark.parametrize("who", ["publisher", "worker"])
def test_a_session_that_is_killed(connect: Connect, connection: Session, who: str) -> None:
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 5)
    session = connect()
    if who == "publisher":
        publish_many(session, topic, 50)
        _publish(session, topic)
    else:
        claim(session, queue, 2)
    connection.execute("select pg_terminate_backend(%s)", [session.pid])
    found: list[int] = []

    def take() -> bool:
        found.extend(delivered(connection, queue))
        return len(found) == 5

    wait_until(take)
    assert found == list(range(5))
    assert publish_many(connection, topic, 1)[0].first_offset == 6


def test_a_floor_never_rises_above_a_run(connect: Connect, connection: Session) -> None:
    """However long a worker is at making jobs of it."""
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 5)
    publish_many(connection, topic, 5)
    worker = connect()
    claim(worker, queue)
    assert len(claim(connection, queue, 9)) == 5
    for _ in range(5):
        connection.execute(
            "select pgq._raise_floor(queue_id, pgq._clock()) from pgq.queue where queue = %s",
            [queue],
        )
    worker.rollback()
    assert delivered(connection, queue) == list(range(5))
    assert in_runs(connection, queue) == 0
