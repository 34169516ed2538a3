"""enqueue: what a job carries, when it is due, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged


def test_what_a_job_carries(connection: Session, queue: str) -> None:
    [before] = row(connection, "select pgq._clock()")
    job_id = enqueue(
        connection,
        queue,
        {"order": 7, "text": "ü \" ' \\"},
        priority=3,
        label="mail",
        headers={"trace": "a1"},
        key="customer 7",
    )
    [after] = row(connection, "select pgq._clock()")
    job = claim_one(connection, queue)
    assert job.job_id == job_id
    assert job.payload == {"order": 7, "text": "ü \" ' \\"}
    assert job.body is None
    assert (job.priority, job.label, job.key) == (3, "mail", "customer 7")
    assert job.headers == {"trace": "a1"}
    assert job.attempt == 1
    assert before <= job.enqueued_at <= after


_OPTIONAL = ("key", "headers", "delay", "run_at", "priority", "label", "body")


@pytest.mark.parametrize("nulls", [{}, dict.fromkeys(_OPTIONAL)])
def test_little_is_required(connection: Session, queue: str, nulls: dict[str, None]) -> None:
    """What is null is as if it had not been given."""
    job_id, duplicate = connection.enqueue(queue=queue, payload="1", **nulls)
    assert duplicate is False
    job = claim_one(connection, queue)
    assert (job.job_id, job.payload, job.body) == (job_id, 1, None)
    assert (job.priority, job.label, job.key, job.headers) == (0, None, None, None)


@pytest.mark.parametrize("payload", [None, False, 0, "", [], {}, "x" * 1_000_000])
def test_any_json_is_a_payload(connection: Session, queue: str, payload: Any) -> None:
    """JSON's null as well, which is not SQL's."""
    enqueue(connection, queue, payload)
    job = claim_one(connection, queue)
    assert job.payload == payload
    assert job.body is None


@pytest.mark.parametrize("body", [b"", b"\x00\xff raw", bytes(range(256)) * 4096])
def test_any_bytes_are_a_body(connection: Session, queue: str, body: bytes) -> None:
    enqueue(connection, queue, body=body)
    job = claim_one(connection, queue)
    assert job.body == body
    assert job.payload is None


def test_ids_rise_over_all_queues(connection: Session, queue: str) -> None:
    other = new_queue(connection)
    ids = [enqueue(connection, name) for name in (queue, other, queue, other)]
    assert ids == sorted(set(ids))


ONE = {"payload": Jsonb(1)}


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("MQ002", {**ONE, "queue": "no-such-queue"}),
        ("22004", {**ONE, "queue": None}),
        ("22004", {}),
        ("22004", {"payload": None, "body": None}),
        ("22023", {**ONE, "body": b""}),
        ("22023", {**ONE, "headers": Jsonb([])}),
        ("22023", {**ONE, "headers": Jsonb(None)}),
        ("22023", {**ONE, "headers": Jsonb("text")}),
        ("22023", {**ONE, "label": "x" * 256}),
        ("22023", {**ONE, "priority": -1}),
        ("22023", {**ONE, "priority": 10}),
        ("22023", {**ONE, "priority": 2147483647}),
        ("22023", {**ONE, "delay": "-1 microsecond"}),
        ("22023", {**ONE, "delay": "36501 days"}),
        ("22023", {**ONE, "delay": "14 days"}),
        ("22023", {**ONE, "delay": "1 s", "run_at": "2030-01-01"}),
        ("22023", {**ONE, "run_at": "infinity"}),
        ("22023", {**ONE, "run_at": "-infinity"}),
        ("22023", {**ONE, "run_at": "3000-01-01"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    with unchanged(connection):
        refused(sqlstate, connection.enqueue, **{"queue": queue, **bad})


def test_delays(connection: Session, clock: Clock) -> None:
    """The job's own delay goes before that of the queue, zero too."""
    queue = new_queue(connection, delay="10 seconds")
    enqueue(connection, queue, "queue")
    enqueue(connection, queue, "later", delay="20 seconds")
    enqueue(connection, queue, "now", delay="0")
    assert [job.payload for job in claim(connection, queue, 10, lease="1 hour")] == ["now"]
    assert stats(connection, queue) == {"delayed": 2, "leased": 1}
    clock.advance("9 seconds")
    assert claim(connection, queue, 10) == []
    clock.advance("2 seconds")
    assert [job.payload for job in claim(connection, queue, 10, lease="1 hour")] == ["queue"]
    clock.advance("10 seconds")
    assert [job.payload for job in claim(connection, queue, 10, lease="1 hour")] == ["later"]


def test_a_time_to_run_at(connection: Session, clock: Clock) -> None:
    """It goes before the queue's delay; one that has passed means at once."""
    queue = new_queue(connection, delay="1 hour")
    [moment] = row(connection, "select pgq._clock()")
    enqueue(connection, queue, "future", run_at=moment + timedelta(minutes=1))
    enqueue(connection, queue, "past", run_at=moment - timedelta(days=400))
    enqueue(connection, queue, "epoch", run_at="1970-01-01")
    assert [job.payload for job in claim(connection, queue, 10, lease="1 hour")] == [
        "past",
        "epoch",
    ]
    clock.advance("58 seconds")
    assert claim(connection, queue) == []
    clock.advance("3 seconds")
    assert claim_one(connection, queue).payload == "future"


def test_without_job_ttl_any_time_will_do(connection: Session) -> None:
    """However short the retention is."""
    queue = new_queue(connection, no_limit=["job_ttl"], retention="1 hour")
    enqueue(connection, queue, run_at="3000-01-01")
    enqueue(connection, queue, delay="36500 days")
    assert stats(connection, queue) == {"delayed": 2}


def test_expiry_counts_from_enqueue(connection: Session, clock: Clock) -> None:
    """Whether it was leased before or not, and however long it was delayed."""
    queue = new_queue(connection, job_ttl="1 hour")
    for name in ("leased", "plain"):
        enqueue(connection, queue, name)
    enqueue(connection, queue, "delayed", delay="59 minutes")
    assert claim_one(connection, queue).payload == "leased"
    clock.advance("3599 seconds")
    assert [job.payload for job in claim(connection, queue, 10, lease="1 s")] == [
        "plain",
        "leased",
        "delayed",
    ]
    clock.advance("2 seconds")
    assert claim(connection, queue, 10) == []
    assert stats(connection, queue) == {"expired": 3}


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    """Both are there after the commit, and neither before."""
    session = connect()
    ids = [enqueue(session, queue, n) for n in range(2)]
    assert stats(connection, queue) == {}
    assert claim(connection, queue, 10) == []
    session.commit()
    assert [job.job_id for job in claim(connection, queue, 10)] == ids


def test_rollback(connect: Connect, connection: Session, queue: str) -> None:
    session = connect()
    enqueue(session, queue)
    session.rollback()
    assert claim(connection, queue, 10) == []
    session.execute("savepoint before")
    enqueue(session, queue, "undone")
    session.execute("rollback to before")
    enqueue(session, queue, "done")
    session.commit()
    assert [job.payload for job in claim(connection, queue, 10)] == ["done"]


def test_a_transaction_may_claim_what_it_enqueued(connect: Connect, queue: str) -> None:
    session = connect()
    job_id = enqueue(session, queue)
    job = claim_one(session, queue)
    assert job.job_id == job_id
    assert session.ack(job_id=job_id, lease_token=job.lease_token)
    session.commit()
    assert stats(session, queue) == {}


def test_notification(connect: Connect, connection: Session) -> None:
    """Only where the queue asks for it, and only after the commit."""
    quiet, loud = new_queue(connection), new_queue(connection, notify=True)
    connection.execute("listen pgq_queue")
    session = connect()
    enqueue(session, quiet)
    enqueue(session, loud)
    assert list(connection.notifies(timeout=0.05)) == []
    session.commit()
    [notice] = connection.notifies(timeout=10, stop_after=1)
    assert (notice.channel, notice.payload) == ("pgq_queue", loud)
    enqueue(session, loud)
    session.rollback()
    assert list(connection.notifies(timeout=0.05)) == []
