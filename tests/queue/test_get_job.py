"""get_job: what has become of a job that is not finished."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, refused, row


def get(session: Session, job_id: int) -> dict[str, Any]:
    found = session.get_job(job_id=job_id)
    return {} if found is None else dict(found._asdict())


def times(session: Session, job_id: int) -> dict[str, Any]:
    """Those of its times that it has."""
    found = get(session, job_id)
    return {
        name: found[name]
        for name in ("due_at", "leased_until", "expires_at", "died_at")
        if found[name] is not None
    }


def test_all_that_a_job_has(connection: Session) -> None:
    queue = new_queue(connection, max_attempts=4)
    number = enqueue(
        connection,
        queue,
        {"a": 1},
        key="k",
        headers={"h": 2},
        label="l",
        priority=3,
        unique_key="u",
        max_attempts=9,
    )
    found = get(connection, number)
    assert found["enqueued_at"] == found["due_at"]
    assert found["expires_at"] > found["due_at"]
    assert {
        name: value for name, value in found.items() if not name.endswith(("_at", "_until"))
    } == {
        "job_id": number,
        "queue": queue,
        "state": "ready",
        "priority": 3,
        "attempt": 0,
        "max_attempts": 9,
        "label": "l",
        "unique_key": "u",
        "last_error": None,
        "key": "k",
        "headers": {"h": 2},
        "payload": {"a": 1},
        "body": None,
        "snoozes": 0,
        "progress": None,
    }
    assert found["progress_at"] is None
    raw = get(connection, enqueue(connection, queue, body=b"\x00\xff"))
    assert (raw["payload"], raw["body"], raw["max_attempts"]) == (None, b"\x00\xff", 4)


def test_its_states(connection: Session, clock: Clock) -> None:
    """In the words of queue_stats."""
    queue = new_queue(connection, job_ttl="1 day", max_attempts=2, lease="1 minute")
    number = enqueue(connection, queue, delay="1 hour")

    def state() -> str:
        found = get(connection, number)
        column = row(
            connection,
            "select ready, leased, delayed, expired, dead from pgq.queue_stats where queue = %s",
            [queue],
        )
        shown = dict(zip(("ready", "leased", "delayed", "expired", "dead"), column, strict=True))
        assert shown == {**dict.fromkeys(shown, 0), found["state"]: 1}
        return str(found["state"])

    assert state() == "delayed"
    assert times(connection, number).keys() == {"due_at", "expires_at"}
    clock.advance("61 minutes")
    assert state() == "ready"
    job = claim_one(connection, queue)
    assert state() == "leased"
    assert times(connection, number) == {
        "leased_until": job.leased_until,
        "expires_at": get(connection, number)["expires_at"],
    }
    clock.advance("2 minutes")
    assert state() == "ready"
    assert times(connection, number)["due_at"] == job.leased_until
    clock.advance("1 day")
    assert state() == "expired"
    connection.cleanup()
    assert get(connection, number) == {}


def test_a_dead_letter(connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1, no_limit=["job_ttl"])
    number = enqueue(connection, queue, "mine", key="k")
    assert times(connection, number).keys() == {"due_at"}
    job = claim_one(connection, queue)
    connection.nack(job_id=number, lease_token=job.lease_token, error="bad")
    found = get(connection, number)
    assert (found["state"], found["attempt"], found["last_error"]) == ("dead", 1, "bad")
    assert (found["queue"], found["payload"], found["key"]) == (queue, "mine", "k")
    assert times(connection, number).keys() == {"died_at"}
    assert found["enqueued_at"] == job.enqueued_at


def test_no_job(connection: Session, queue: str) -> None:
    """Finished, cancelled, purged, dropped with its queue, or never there."""
    numbers = [enqueue(connection, queue) for _ in range(4)]
    assert ack(connection, claim_one(connection, queue))
    assert connection.cancel_job(job_id=numbers[1])
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 2
    other = new_queue(connection)
    numbers.append(enqueue(connection, other))
    connection.drop_queue(queue=other)
    for number in (*numbers, 0, -1, 2**62):
        assert get(connection, number) == {}
    refused("22004", connection.get_job, job_id=None)


def test_no_limit_of_attempts(connection: Session) -> None:
    queue = new_queue(connection, no_limit=["max_attempts"])
    assert get(connection, enqueue(connection, queue))["max_attempts"] is None
    assert get(connection, enqueue(connection, queue, max_attempts=3))["max_attempts"] == 3


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_it_changes_nothing(connect: Connect, connection: Session, queue: str, level: str) -> None:
    """A transaction that may only read can call it, and it waits for nobody."""
    number = enqueue(connection, queue)
    other = connect()
    claim_one(other, queue)
    reader = connect(isolation_level=level)
    reader.execute("set transaction read only")
    reader.execute("set local lock_timeout = '1ms'")
    assert get(reader, number)["state"] == "ready"
    other.commit()
    assert get(reader, number)["state"] == ("leased" if level == "read committed" else "ready")


def test_a_payload_that_was_moved_since(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """An old snapshot shows it where it stood, and there is nothing any more: never no payload."""
    queue = new_queue(connection, retention="1 hour", job_ttl="30 days")
    number = enqueue(connection, queue, "mine", delay="20 days")
    reader = connect(isolation_level="repeatable read")
    reader.execute("select 1")
    for _ in range(12):
        clock.advance("1 hour")
        connection.cleanup()
    assert get(connection, number)["payload"] == "mine"
    refused("40001", reader.get_job, job_id=number)
    reader.rollback()
    assert get(reader, number)["payload"] == "mine"


def test_many_segments(connection: Session) -> None:
    """More than have statements of their own."""
    connection.set_storage_bounds(max_retentions=200)
    for days in range(40, 95):
        queue = new_queue(connection, retention=f"{days} days")
        assert get(connection, enqueue(connection, queue, days))["payload"] == days
