"""enqueue_batch: all or nothing, in the order of the array."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.queue import claim, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged

THREE = [Jsonb(n) for n in range(3)]


def test_order_and_contents(connection: Session, queue: str) -> None:
    """One row per job, in the order of the array, in which the ids rise; none was there before."""
    added = connection.enqueue_batch(
        queue=queue,
        payloads=THREE,
        priority=4,
        labels=["a", None, "c"],
        headers=[Jsonb({"n": 0}), Jsonb({"n": 1}), None],
        keys=[None, "k1", "k2"],
    )
    ids = [job_id for job_id, _ in added]
    assert added == [(job_id, False) for job_id in sorted(set(ids))]
    found = claim(connection, queue, 10)
    assert [job.job_id for job in found] == ids
    assert [(job.payload, job.label, job.headers, job.key, job.priority) for job in found] == [
        (0, "a", {"n": 0}, None, 4),
        (1, None, {"n": 1}, "k1", 4),
        (2, "c", None, "k2", 4),
    ]
    assert len({job.enqueued_at for job in found}) == 1


def test_bodies(connection: Session, queue: str) -> None:
    connection.enqueue_batch(queue=queue, bodies=[b"", b"\x00\xff"])
    assert [(job.body, job.payload) for job in claim(connection, queue, 10)] == [
        (b"", None),
        (b"\x00\xff", None),
    ]


def test_null_is_the_default(connection: Session, queue: str) -> None:
    nulls = dict.fromkeys(("keys", "headers", "delay", "run_at", "priority", "labels", "bodies"))
    assert len(connection.enqueue_batch(queue=queue, payloads=THREE, **nulls)) == 3
    found = claim(connection, queue, 10)
    assert [job.payload for job in found] == [0, 1, 2]
    assert {(job.priority, job.label, job.key, job.headers) for job in found} == {
        (0, None, None, None)
    }


def test_arrays_may_begin_anywhere(connection: Session, queue: str) -> None:
    """An array of PostgreSQL need not begin at 1."""
    connection.execute(
        "select pgq.enqueue_batch(%s, '[5:6]={1,2}'::jsonb[], labels => '[0:1]={a,b}'::text[])",
        [queue],
    )
    assert [(job.payload, job.label) for job in claim(connection, queue, 10)] == [
        (1, "a"),
        (2, "b"),
    ]


def test_many(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 5000)
    found = claim(connection, queue, 10_000)
    assert [job.job_id for job in found] == ids
    assert [job.payload for job in found] == list(range(5000))


@pytest.mark.parametrize(
    "empty", [{"payloads": []}, {"bodies": []}, {"payloads": [], "labels": [], "keys": []}]
)
def test_an_empty_batch_adds_nothing(
    connection: Session, queue: str, empty: dict[str, Any]
) -> None:
    assert connection.enqueue_batch(queue=queue, **empty) == []
    assert stats(connection, queue) == {}
    with unchanged(connection):
        refused("MQ002", connection.enqueue_batch, queue="no-such-queue", **empty)


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("MQ002", {"payloads": THREE, "queue": "no-such-queue"}),
        ("22004", {"payloads": THREE, "queue": None}),
        ("22004", {}),
        ("22023", {"payloads": THREE, "bodies": [b"", b"", b""]}),
        ("22004", {"payloads": [Jsonb(1), None, Jsonb(3)]}),
        ("22004", {"bodies": [None]}),
        ("22023", {"payloads": THREE, "labels": ["a", None, "x" * 256]}),
        ("22023", {"payloads": THREE, "labels": ["a"]}),
        ("22023", {"payloads": THREE, "labels": ["a"] * 4}),
        ("22023", {"payloads": THREE, "keys": []}),
        ("22023", {"payloads": THREE, "headers": [Jsonb({})]}),
        ("22023", {"payloads": THREE, "headers": [Jsonb({}), Jsonb({}), Jsonb([])]}),
        ("22023", {"payloads": [[Jsonb(1)], [Jsonb(2)]]}),
        ("22023", {"payloads": THREE, "priority": -1}),
        ("22023", {"payloads": THREE, "priority": 10}),
        ("22023", {"payloads": THREE, "delay": "-1 s"}),
        ("22023", {"payloads": THREE, "delay": "14 days"}),
        ("22023", {"payloads": THREE, "run_at": "infinity"}),
        ("22023", {"payloads": THREE, "run_at": "3000-01-01"}),
        ("22023", {"payloads": THREE, "delay": "0", "run_at": "2030-01-01"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    with unchanged(connection):
        refused(sqlstate, connection.enqueue_batch, **{"queue": queue, **bad})


def test_a_null_is_named(connection: Session, queue: str) -> None:
    error = refused("22004", connection.enqueue_batch, queue=queue, payloads=[Jsonb(1), None])
    assert "2 of 2" in str(error.diag.message_detail)


def test_delay_and_time_are_those_of_all(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, delay="1 hour")
    [moment] = row(connection, "select pgq._clock()")
    enqueue_many(connection, queue, 2)
    enqueue_many(connection, queue, 2, delay="1 minute")
    enqueue_many(connection, queue, 2, run_at=moment + timedelta(minutes=2))
    enqueue_many(connection, queue, 2, delay="0")
    assert stats(connection, queue) == {"ready": 2, "delayed": 6}
    clock.advance("61 seconds")
    assert stats(connection, queue) == {"ready": 4, "delayed": 4}
    clock.advance("1 minute")
    assert stats(connection, queue) == {"ready": 6, "delayed": 2}
    clock.advance("1 hour")
    assert stats(connection, queue) == {"ready": 8}


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    """A batch that is refused in between takes nothing else with it."""
    session = connect()
    ids = enqueue_many(session, queue, 2)
    with pytest.raises(psycopg.Error), session.transaction():
        session.enqueue_batch(queue=queue, payloads=[Jsonb(1), None])
    ids += enqueue_many(session, queue, 2)
    assert claim(connection, queue, 10) == []
    session.commit()
    assert [job.job_id for job in claim(connection, queue, 10)] == ids


def test_one_notification(connection: Session) -> None:
    queue = new_queue(connection, notify=True)
    connection.execute("listen pgq_queue")
    connection.enqueue_batch(queue=queue, payloads=[])
    enqueue_many(connection, queue, 10)
    assert [notice.payload for notice in connection.notifies(timeout=0.05)] == [queue]
