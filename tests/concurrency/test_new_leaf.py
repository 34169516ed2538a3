"""Writes into a leaf that was attached after the transaction had taken all its locks.

PostgreSQL routes an insert into a partitioned table by the partitions that it knew when it last
took a new lock. So each transaction here makes the same call before, for what is stored elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from support.bulk import begin, numbers, stage, stage_long
from support.queue import claim_one
from support.session import Connect, Session, row

INSTALLED = 16  # leaves that an installation makes
RETENTION = {"known": "7 days", "new": "31 days"}


def _furnish(session: Session, name: str) -> None:
    """Topics and a queue whose messages, keys and finished jobs are stored in one segment."""
    kept = {"retention": RETENTION[name], "idempotency_window": RETENTION[name]}
    session.create_topic(topic=name, partitions=2, **kept)
    session.create_topic(topic=f"{name}-deferred", partitions=2, deferred=True, **kept)
    replaces = {"unique_until": "claimed", "on_duplicate": "replace"}
    session.create_queue(queue=name, archive=True, **kept, **replaces)
    session.create_queue(queue=f"{name}-kept", archive=False, keep_results=True, **kept)


@pytest.fixture
def full(connection: Session) -> Session:
    """A database where every leaf that the installation made is in use."""
    _furnish(connection, "known")
    while row(connection, "select count(*) from pgq.leaf where free") != (0,):
        (number,) = row(connection, "select count(*) from pgq.leaf where not free")
        connection.create_topic(topic=f"limited-{number}", max_bytes=1_000_000)
    return connection


def _leased(other: Session, name: str) -> dict[str, Any]:
    """A job that another session has claimed: this one has not looked at its message."""
    other.enqueue(queue=name, payload=1)
    job = claim_one(other, name)
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def _several(leased: dict[str, Any]) -> dict[str, Any]:
    return {"job_ids": [leased["job_id"]], "lease_token": leased["lease_token"]}


def _cancel(session: Session, other: Session, name: str) -> Any:
    return session.cancel_job(job_id=other.enqueue(queue=name, payload=1).job_id)


def _expire(session: Session, other: Session, name: str) -> Any:
    job_id = other.enqueue(queue=name, payload=1).job_id
    other.execute("update pgq.job set expires_at = '2000-01-01' where job_id = %s", [job_id])
    return session.execute(
        "select * from pgq._expire_jobs(%s, pgq._clock())", [[job_id]]
    ).fetchall()


def _reclaim(session: Session, other: Session, name: str, **options: Any) -> Any:
    """A job whose worker was lost."""
    other.execute(
        "update pgq.job set visible_at = clock_timestamp() where job_id = %s",
        [_leased(other, name)["job_id"]],
    )
    return session.claim_job(queue=name, **options)


def _carry(session: Session, other: Session, name: str) -> Any:
    """A job of another leaf, whose queue has gone on to this one."""
    moved = f"{name}-moved"
    if not row(other, "select exists (select from pgq.queue where queue = %s)", [moved])[0]:
        other.create_queue(queue=moved, retention=RETENTION["known"])
    other.alter_queue(queue=moved, retention=RETENTION["known"])
    other.enqueue(queue=moved, payload=1)
    (leaf,) = row(other, "select segment from pgq.queue where queue = %s", [moved])
    other.alter_queue(queue=moved, retention=RETENTION[name])
    return session.execute(
        "select * from pgq._relocate_payloads(%s, null, null, pgq._clock(), 100)", [leaf]
    ).fetchall()


def _replace(session: Session, other: Session, name: str) -> Any:
    key = {"queue": name, "unique_key": str(uuid4())}
    made = other.enqueue(**key, payload=1)
    assert tuple(session.enqueue(**key, payload=2)) == (made.job_id, True)


def _end_replaced(session: Session, other: Session, name: str) -> Any:
    key = {"queue": name, "unique_key": str(uuid4())}
    other.enqueue(**key, payload=1)
    job = claim_one(other, name)
    newer = other.enqueue(**key, payload=2)
    assert session.nack(job_id=job.job_id, lease_token=job.lease_token)
    assert other.cancel_job(job_id=newer.job_id)


def _bulk(session: Session, other: Session, name: str, **options: Any) -> None:
    """A task of several chunks, which are stored in the leaf before the write is committed."""
    stage_long(session, begin(other, topic=name), numbers(1, 4), **options)


WAYS: dict[str, Callable[[Session, Session, str], Any]] = {
    "publish": lambda s, o, name: s.publish(topic=name, payload=1),
    "publish with a key": lambda s, o, name: s.publish(topic=name, payload=1, key="k"),
    "publish once": lambda s, o, name: s.publish(topic=name, payload=1, idempotency_key="k"),
    "publish_batch": lambda s, o, name: s.publish_batch(topic=name, payloads=[1, 2]),
    "publish_batch with keys": lambda s, o, name: s.publish_batch(
        topic=name, payloads=[1, 2], keys=["a", "b"]
    ),
    "deferred publish": lambda s, o, name: s.publish(topic=f"{name}-deferred", payload=1),
    "deferred publish_batch": lambda s, o, name: s.publish_batch(
        topic=f"{name}-deferred", payloads=[1, 2]
    ),
    "deferred publish_batch with keys": lambda s, o, name: s.publish_batch(
        topic=f"{name}-deferred", payloads=[1, 2], keys=["a", "b"]
    ),
    "enqueue": lambda s, o, name: s.enqueue(queue=name, payload=1),
    "enqueue_batch": lambda s, o, name: s.enqueue_batch(queue=name, payloads=[1, 2]),
    "ack": lambda s, o, name: s.ack(**_leased(o, name)),
    "finish_and_claim": lambda s, o, name: s.finish_and_claim(
        queue=name, **_several(_leased(o, name))
    ),
    "archive_job": lambda s, o, name: s.archive_job(**_leased(o, name), result=Jsonb(1)),
    "ack_batch": lambda s, o, name: s.ack_batch(**_several(_leased(o, name))),
    "cancel_job": _cancel,
    "expired": _expire,
    "carried": _carry,
    "nack": lambda s, o, name: s.nack(**_leased(o, name), error="e"),
    "nack_batch": lambda s, o, name: s.nack_batch(**_several(_leased(o, name))),
    "reject_job": lambda s, o, name: s.reject_job(**_leased(o, name)),
    "claim_job of a lost job": _reclaim,
    "claim_job of lost jobs": lambda s, o, name: _reclaim(s, o, name, max_jobs=9),
    "ack, kept": lambda s, o, name: s.ack(**_leased(o, f"{name}-kept")),
    "ack_batch, kept": lambda s, o, name: s.ack_batch(**_several(_leased(o, f"{name}-kept"))),
    "finish_and_claim, kept": lambda s, o, name: s.finish_and_claim(
        queue=name, **_several(_leased(o, f"{name}-kept"))
    ),
    "archive_job, kept": lambda s, o, name: s.archive_job(**_leased(o, f"{name}-kept")),
    "cancel_job, kept": lambda s, o, name: _cancel(s, o, f"{name}-kept"),
    "expired, kept": lambda s, o, name: _expire(s, o, f"{name}-kept"),
    "duplicate": _replace,
    "replaced": _end_replaced,
    "write_chunk": _bulk,
    "write_chunk of JSON": lambda s, o, name: _bulk(s, o, name, json=True),
    "write_chunk with keys": lambda s, o, name: _bulk(s, o, name, keys=["a", "b", "a", "b"]),
    "write_chunk of JSON with keys": lambda s, o, name: _bulk(
        s, o, name, json=True, keys=["a", "b", "a", "b"]
    ),
    "write_chunk at once": lambda s, o, name: stage(
        s, begin(o, topic=name, atomic=False), numbers(1, 4)
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_new_leaf_is_found(connect: Connect, full: Session, way: str) -> None:
    """What was attached meanwhile gets its rows, and the call does not fail with 23514."""
    session = connect()
    session.execute("set lock_timeout = '20 s'")
    # every lock of such a call
    for _ in range(2):
        WAYS[way](session, full, "known")

    _furnish(full, "new")
    assert row(full, "select max(leaf) from pgq.leaf") == (INSTALLED,)
    WAYS[way](session, full, "new")
    session.commit()
    assert row(
        full,
        """
        select exists (select from pgq.message where segment = %(leaf)s and partition_id <> 0)
            or exists (select from pgq.job_archive where segment = %(leaf)s)
            or exists (select from pgq.job_event where segment = %(leaf)s)
        """,
        {"leaf": INSTALLED},
    ) == (True,)
