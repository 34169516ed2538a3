"""Jobs that point at messages of a topic, when these go."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, ack, claim, claim_one, new_queue, stats
from support.session import Connect, Session, new_name, row
from support.storage import actions, clean, close_segment
from support.subscription import delivered, in_runs, publish_many, subscribe


@pytest.fixture
def queue(connection: Session) -> str:
    return new_queue(
        connection, job_ttl="30 days", retention="30 days", lease="30 days", max_attempts=1
    )


def _topic(session: Session, queue: str, **settings: Any) -> str:
    name = new_name("topic")
    session.create_topic(topic=name, partitions=1, **(settings or {"retention": "9 hours"}))
    subscribe(session, name, queue)
    return name


def _outlive(session: Session, clock: Clock) -> list[str]:
    """Let the topic's messages go."""
    clock.advance("4 hours")
    done = clean(session)
    clock.advance("10 hours")
    return done + clean(session)


def test_a_topic_that_keeps_less_long_than_its_jobs_live(
    connection: Session, queue: str, clock: Clock
) -> None:
    """Contents are carried to the queue: of runs, of leased, waiting and dead jobs."""
    topic = _topic(connection, queue)
    publish_many(connection, topic, 3, keys=["a", "b", "c"], headers=[{"h": n} for n in range(3)])
    leased, dead, _ = claim(connection, queue, 3)
    connection.nack(job_id=dead.job_id, lease_token=dead.lease_token, error="e")
    publish_many(connection, topic, 150)
    connection.publish(topic=topic, body=b"b")
    assert in_runs(connection, queue) == 150
    done = _outlive(connection, clock)
    assert "payloads moved" in done
    assert "segment truncated" in done
    assert row(connection, "select count(*) from pgq.messages") == (0,)
    assert in_runs(connection, queue) == 0
    assert ack(connection, leased)
    assert connection.get_job(job_id=dead.job_id).payload == 1
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    jobs = claim(connection, queue, 200)
    assert [job.payload for job in jobs] == [*range(150), None, 1]
    assert (jobs[-1].key, jobs[-1].headers, jobs[-1].enqueued_at) == (
        "b",
        {"h": 1},
        dead.enqueued_at,
    )
    assert jobs[-2].body == b"b"
    assert row(connection, "select payload, key from pgq.archived_jobs") == (0, "a")


def test_more_runs_than_one_cleanup_carries(connection: Session, queue: str, clock: Clock) -> None:
    topic = _topic(connection, queue)
    publish_many(connection, topic, 25_000)
    _outlive(connection, clock)
    assert stats(connection, queue)["ready"] == 25_000
    assert delivered(connection, queue) == list(range(25_000))


@pytest.mark.slow
def test_more_jobs_of_a_dropped_topic_than_one_cleanup_carries(
    connection: Session, queue: str
) -> None:
    """Of a topic that was dropped, whose partitions have many each."""
    topic = new_name("topic")
    connection.create_topic(topic=topic, partitions=2, no_limit=["retention"])
    subscribe(connection, topic, queue)
    for partition in (0, 1):
        publish_many(connection, topic, 7_500, partition=partition)
    connection.drop_topic(topic=topic)
    done = {action.action: action.amount for action in connection.cleanup()}
    assert done["payloads moved"] <= 10_000
    assert "more" in done
    clean(connection)
    assert row(connection, "select count(*) from pgq.dropped_range") == (0,)
    assert delivered(connection, queue) == [*range(7_500)] * 2


@pytest.mark.parametrize("number", [1, 5])
def test_a_worker_that_is_at_work_meanwhile(
    connect: Connect, connection: Session, queue: str, clock: Clock, number: int
) -> None:
    """What it holds is left for the next time, and its segment with it."""
    topic = _topic(connection, queue)
    publish_many(connection, topic, number)
    close_segment(connection, clock, "4 hours")
    clock.advance("10 hours")
    worker = connect()
    assert claim_one(worker, queue).payload == 0
    assert "segment busy" in actions(connection)
    worker.rollback()
    worker = connect()
    assert claim_one(worker, queue).payload == 0
    assert "segment busy" in actions(connection)
    worker.commit()
    assert "segment truncated" in clean(connection)
    assert delivered(connection, queue) == list(range(1, number))


def test_finished_jobs_go_with_the_messages_of_the_topic(
    connection: Session, queue: str, clock: Clock
) -> None:
    topic = _topic(connection, queue)
    publish_many(connection, topic, 2)
    job = claim_one(connection, queue)
    assert ack(connection, job)
    assert row(connection, "select payload from pgq.archived_jobs") == (0,)
    _outlive(connection, clock)
    assert row(connection, "select count(*) from pgq.archived_jobs") == (0,)
    assert delivered(connection, queue) == [1]


@pytest.mark.parametrize("company", [True, False])
@pytest.mark.parametrize("queue_settings", [{}, {"no_limit": ["retention", "job_ttl"]}])
def test_messages_that_were_stored_for_ever(
    connect: Connect,
    connection: Session,
    clock: Clock,
    company: bool,
    queue_settings: dict[str, Any],
) -> None:
    """Jobs that point at them keep their contents, wherever these are removed row by row."""
    queue = new_queue(
        connection,
        max_attempts=1,
        **(queue_settings or {"job_ttl": "30 days", "retention": "30 days"}),
    )
    topic = _topic(connection, queue, no_limit=["retention"])
    if company:
        other = new_name("topic")
        connection.create_topic(topic=other, no_limit=["retention"])
        publish_many(connection, other, 3)
    publish_many(connection, topic, 120)
    connection.publish(topic=topic, payload=120)
    dead = claim_one(connection, queue)
    connection.nack(job_id=dead.job_id, lease_token=dead.lease_token)
    connection.drop_topic(topic=topic)
    worker = connect()
    held: Job = claim_one(worker, queue)
    _outlive_busy(connection, clock)
    worker.rollback()
    done = clean(connection)
    _outlive(connection, clock)
    assert held.payload == 1
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    assert sorted(delivered(connection, queue)) == list(range(121))
    assert row(connection, "select count(*) from pgq.messages") == (3 * company,)
    assert done


def _outlive_busy(session: Session, clock: Clock) -> None:
    for _ in range(3):
        clock.advance("7 hours")
        for _ in range(5):
            session.cleanup()


def test_expired_runs(connection: Session, clock: Clock) -> None:
    """Their jobs are archived as expired."""
    queue = new_queue(connection, job_ttl="1 hour")
    topic = _topic(connection, queue)
    publish_many(connection, topic, 120)
    clock.advance("2 hours")
    assert delivered(connection, queue) == []
    found = [(a.action, a.amount) for a in connection.cleanup()]
    assert ("jobs expired", 120) in found
    assert row(connection, "select outcome, count(*) from pgq.archived_jobs group by outcome") == (
        "expired",
        120,
    )
    assert stats(connection, queue) == {}


def test_claims_look_for_runs_while_there_may_be_some(
    connection: Session, queue: str, clock: Clock
) -> None:
    topic = _topic(connection, queue)

    def flag() -> Any:
        clean(connection)
        return row(connection, "select subscribed from pgq.queue where queue = %s", [queue])[0]

    assert flag() is True
    publish_many(connection, topic, 5)
    [subscription] = connection.list_subscriptions()
    connection.unsubscribe(subscription=subscription.subscription)
    assert flag() is True
    assert delivered(connection, queue) == list(range(5))
    assert flag() is False
    subscribe(connection, topic, queue)
    assert flag() is True
    connection.drop_topic(topic=topic)
    assert flag() is False


def test_cleanup_beside_subscribe(
    connect: Connect, connection: Session, queue: str, clock: Clock
) -> None:
    """It does not take back what is not committed yet."""
    topic = new_name("topic")
    connection.create_topic(topic=topic)
    connection.execute("update pgq.queue set subscribed = true")
    subscriber = connect()
    subscribe(subscriber, topic, queue)
    clean(connection)
    subscriber.commit()
    publish_many(connection, topic, 5)
    assert delivered(connection, queue) == list(range(5))


def test_a_clock_that_goes_back(connection: Session, queue: str, clock: Clock) -> None:
    """Runs that stand below the floor are found all the same."""
    topic = _topic(connection, queue)
    for _ in range(3):
        publish_many(connection, topic, 5)
        assert len(delivered(connection, queue)) == 5
        clock.advance("1 minute")
    claim(connection, queue)
    clock.advance("-1 hour")
    publish_many(connection, topic, 5)
    clean(connection)
    assert delivered(connection, queue) == list(range(5))
    clock.advance("10 minutes")
    publish_many(connection, topic, 5)
    assert delivered(connection, queue) == list(range(5))
