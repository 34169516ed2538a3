"""Partitions are leased while something is sent: kept, lost, given back."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from support.clock import Clock
from support.log import committed_offsets, new_topic
from support.push_config import settings
from support.receiver import Received, Receiver, Reply, first_deliveries
from support.session import Session, new_name
from support.waiting import PATIENCE, wait_until


def until_committed(log: Session, topic: str, offset: int) -> None:
    wait_until(
        lambda: committed_offsets(log, topic, "readers") == [offset],
        PATIENCE,
        f"for a commit of {offset}",
    )


def leases(log: Session, topic: str) -> list[Any]:
    rows = log.execute(
        "select leased_until from pgq.group_lag where topic = %s order by partition", [topic]
    ).fetchall()
    return [row[0] for row in rows]


def positions(log: Session, topic: str) -> int:
    """How often the position or the lease of a topic has changed."""
    row = log.execute(
        "select max(j.seq) from pgq.group_position as j"
        " join pgq.consumer_group as g using (group_id) join pgq.topic as t using (topic_id)"
        " where t.topic = %s",
        [topic],
    ).fetchone()
    return int(row[0])


def test_a_lease_is_renewed_while_a_request_hangs(
    log: Session, topic: str, receiver: Receiver, push: Any
) -> None:
    """A request may take several times as long as the lease; nobody else gets the partition."""
    answered = threading.Event()
    log.publish(topic=topic, payload=1)
    receiver.script(Reply(after=answered))
    for _ in range(2):
        push(lease="6s", timeout="5m")
    receiver.wait_for(1)
    begun = positions(log, topic)
    (before,) = leases(log, topic)
    wait_until(lambda: positions(log, topic) >= begun + 2, PATIENCE, "for renewals")
    (after,) = leases(log, topic)
    assert (after - before).total_seconds() > 1.5
    answered.set()
    until_committed(log, topic, 1)
    assert len(receiver.requests) == 1


def test_a_2xx_after_the_lease_has_gone_commits_nothing(
    log: Session, shared_clock: Clock, topic: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """The other member, who has it now, delivers; whoever lost it does not touch the position."""
    answered = threading.Event()
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    receiver.script(Reply(after=answered), then=Reply(500))
    push(lease="60s")
    receiver.wait_for(1)

    def take() -> Any:
        # a heartbeat may have come in between
        shared_clock.advance("2 minutes")
        return log.poll(topic=topic, consumer_group="readers", max_messages=1, lease="1 hour")

    (taken,) = wait_until(take)
    assert taken.log_offset == 1
    answered.set()
    assert events("lease lost")
    assert committed_offsets(log, topic, "readers") == [0]
    log.release_poll(
        topic=topic, consumer_group="readers", partition=0, lease_token=taken.lease_token
    )
    receiver.reply = lambda _: Reply()
    until_committed(log, topic, 3)


def test_what_takes_the_lease_ends_the_request(
    log: Session, topic: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """A seek takes the lease away: the worker notices while it waits, and goes on from there."""
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    receiver.script(Reply(after=receiver.released))
    push(lease="3s", timeout="5m", max_messages=1)
    receiver.wait_for(1)
    log.seek(topic=topic, consumer_group="readers", partition=0, log_offset=3)
    assert events("lease lost")
    until_committed(log, topic, 3)
    assert [request.offsets for request in receiver.requests] == [[1], [3]]


def test_an_attempt_is_not_repeated_without_the_lease(
    log: Session, topic: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """Between two attempts the database is asked: whoever took over is alone in sending."""
    log.publish_batch(topic=topic, payloads=[1, 2])

    def reply(_: Received) -> Reply:
        if len(receiver.requests) == 1:
            log.seek(topic=topic, consumer_group="readers", partition=0, log_offset=2)
            return Reply(500)
        return Reply()

    receiver.reply = reply
    push(lease="1h")
    until_committed(log, topic, 2)
    assert events("lease lost")
    assert [request.offsets for request in receiver.requests] == [[1, 2], [2]]


def test_a_stop_lets_the_request_end(
    log: Session, topic: str, receiver: Receiver, push: Any
) -> None:
    answered = threading.Event()
    log.publish_batch(topic=topic, payloads=[1, 2])
    receiver.script(Reply(after=answered))
    running = push(max_messages=1)
    receiver.wait_for(1)
    running.told_to_stop()
    answered.set()
    running.ended()
    assert committed_offsets(log, topic, "readers") == [1]
    assert leases(log, topic) == [None]
    assert len(receiver.requests) == 1


def test_a_stop_does_not_wait_for_ever(
    log: Session, shared_dsn: str, topic: str, receiver: Receiver, run_push: Any
) -> None:
    log.publish(topic=topic, payload=1)
    receiver.script(Reply(after=receiver.released))
    text = settings(topic, receiver.url, lease="1h", timeout="1h")
    running = run_push(f'grace = "50ms"\n{text}', shared_dsn)
    receiver.wait_for(1)
    running.stop()
    assert committed_offsets(log, topic, "readers") == [0]
    assert leases(log, topic) == [None]


@pytest.mark.parametrize("way", ["pause", "twice"])
def test_a_stop_gives_the_lease_back(
    log: Session, topic: str, receiver: Receiver, push: Any, events: Any, way: str
) -> None:
    """At once in the pause between two attempts; told twice, also in a request."""
    log.publish(topic=topic, payload=1)
    receiver.script(Reply(503) if way == "pause" else Reply(after=receiver.released))
    running = push(lease="1h", timeout="1h", backoff="1h", backoff_max="1h")
    receiver.wait_for(1)
    if way == "pause":
        assert events("not accepted")
    else:
        running.told_to_stop()
    running.stop()
    assert committed_offsets(log, topic, "readers") == [0]
    assert leases(log, topic) == [None]


def test_two_workers_share_the_partitions(log: Session, receiver: Receiver, push: Any) -> None:
    """Nothing is sent twice, and each partition stays in order."""
    topic = new_topic(log, 4, messages=6)
    expected = {partition: list(range(1, 7)) for partition in range(4)}
    workers = [push(topic=topic, max_messages=1) for _ in range(2)]
    wait_until(
        lambda: committed_offsets(log, topic, "readers") == [6] * 4,
        PATIENCE,
        "for everything",
    )
    for worker in workers:
        worker.stop()
    assert first_deliveries(receiver.requests) == expected
    assert len(receiver.requests) == 24
    assert sum(worker.counted("messages_total", "hook") for worker in workers) == 24


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_stricter_isolation(
    log: Session, shared_dsn: str, topic: str, receiver: Receiver, run_push: Any, level: str
) -> None:
    """Two workers whose transactions are isolated more strictly meet, and try again."""
    log.publish_batch(topic=topic, payloads=[0] * 12)
    options = f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"
    dsn = make_conninfo(shared_dsn, options=options)
    text = settings(topic, receiver.url, max_messages=1)
    workers = [run_push(text, dsn) for _ in range(2)]
    until_committed(log, topic, 12)
    for worker in workers:
        worker.stop()
    assert first_deliveries(receiver.requests) == {0: list(range(1, 13))}
    assert len(receiver.requests) == 12


def test_what_fails_at_once_is_not_claimed_at_once(
    log: Session, shared_dsn: str, topic: str, receiver: Receiver, run_push: Any, events: Any
) -> None:
    """A role that lacks a permission claims once per backoff, and holds nothing."""
    role = new_name("half a role")
    log.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
    try:
        for grant in (
            "usage on schema pgq",
            "execute on function pgq.create_group, pgq.poll, pgq.release_poll",
        ):
            log.execute(sql.SQL("grant {} to {}").format(sql.SQL(grant), sql.Identifier(role)))
        log.publish(topic=topic, payload=1)
        text = settings(topic, receiver.url, backoff="1h", backoff_max="1h")
        running = run_push(text, make_conninfo(shared_dsn, user=role))
        assert "permission denied" in events("delivery failed")[0]["reason"]
        wait_until(lambda: leases(log, topic) == [None], PATIENCE, "for the lease to end")
        running.stop()
        assert len(events("delivery failed")) <= 2
        assert len(receiver.requests) <= 2
    finally:
        log.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
        log.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
