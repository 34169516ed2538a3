"""on_duplicate replace: a waiting job gets the content of its duplicate, and stays what it was."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.duplicates import BACK, held, put, replacing
from support.queue import ack, claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged
from support.storage import clean
from support.unique import keys_of, loose_keys


def test_the_content(connection: Session) -> None:
    """Payload, headers and body, whatever of them the job had before; one job, and then none."""
    queue = replacing(connection)
    first, _ = put(connection, queue, {"n": 1}, headers={"a": "1"})
    contents: list[dict[str, Any]] = [
        {"payload": {"n": 2}},
        {"body": b"\x00\xff"},
        {"body": b"", "headers": {"b": "2"}},
        {"payload": Jsonb(None), "headers": {"c": "3"}},
    ]
    for content in contents:
        made = connection.enqueue(queue=queue, unique_key="k", **content)
        assert tuple(made) == (first, True)
        assert stats(connection, queue) == {"ready": 1}
        with connection.transaction(force_rollback=True):
            job = claim_one(connection, queue)
            given = content.get("payload")
            assert job.payload == (None if isinstance(given, Jsonb) else given)
            assert (job.body, job.headers) == (content.get("body"), content.get("headers"))
    assert ack(connection, claim_one(connection, queue))
    assert (stats(connection, queue), keys_of(connection, queue)) == ({}, {})


def test_what_stays(connection: Session, clock: Clock) -> None:
    """Id, place, priority, label, key, limit of attempts, and when it was enqueued."""
    queue = replacing(connection, job_ttl="1 day")
    options = {"key": "o", "label": "l", "priority": 3, "max_attempts": 7, "delay": "10 seconds"}
    first, _ = put(connection, queue, "old", **options)
    others = [enqueue(connection, queue, "other", delay="11 seconds", priority=3)]
    columns = "visible_at, priority, label, max_attempts, attempt, segment, unique_key"
    before = row(connection, f"select {columns} from pgq.job where job_id = %s", [first])
    enqueued = connection.get_job(job_id=first).enqueued_at
    clock.advance("5 seconds")
    changed = {"key": "p", "label": "m", "priority": 9, "max_attempts": 1, "delay": "1 hour"}
    assert put(connection, queue, "new", **changed) == (first, True)
    assert row(connection, f"select {columns} from pgq.job where job_id = %s", [first]) == before
    assert claim(connection, queue) == []
    clock.advance("7 seconds")
    job, other = claim(connection, queue, 9)
    assert (job.job_id, job.payload, job.key, job.label) == (first, "new", "o", "l")
    assert (job.priority, job.max_attempts, job.attempt) == (3, 7, 1)
    assert job.enqueued_at == enqueued
    assert [other.job_id] == others


def test_it_lives_as_long_as_a_new_one(connection: Session, clock: Clock) -> None:
    """The job_ttl is counted again; one without stays without."""
    queue = replacing(connection, job_ttl="1 hour")
    first, _ = put(connection, queue, "old")
    clock.advance("50 minutes")
    assert put(connection, queue, "new") == (first, True)
    clock.advance("50 minutes")
    assert connection.alter_queue(queue=queue, no_limit=["job_ttl"])
    assert put(connection, queue, "newest") == (first, True)
    clock.advance("50 days")
    assert claim_one(connection, queue).payload == "newest"


def test_an_expired_job_is_not_replaced(connection: Session, clock: Clock) -> None:
    queue = replacing(connection, job_ttl="1 hour")
    first, _ = put(connection, queue, "old")
    clock.advance("61 minutes")
    second, duplicate = put(connection, queue, "new")
    assert (second > first, duplicate) == (True, False)
    assert [job.payload for job in claim(connection, queue, 9)] == ["new"]


@pytest.mark.parametrize("way", BACK)
def test_a_job_that_was_tried(connection: Session, way: str) -> None:
    """It keeps its attempts and its last error."""
    queue = replacing(connection)
    first, _ = put(connection, queue, "old")
    job = claim_one(connection, queue)
    connection.nack(**held(job), delay="0", error="first")
    assert BACK[way](connection, claim_one(connection, queue))
    before = connection.get_job(job_id=first)
    assert put(connection, queue, "new") == (first, True)
    after = connection.get_job(job_id=first)
    assert (after.attempt, after.last_error) == (before.attempt, "first")
    assert claim_one(connection, queue).payload == "new"


def test_a_batch(connection: Session) -> None:
    """The last of several counts, of those that wait already and of those that are new."""
    queue = replacing(connection)
    first, _ = put(connection, queue, "old", "a")
    keys = ["b", "a", None, "b", "a", "c"]
    made = [
        tuple(each)
        for each in connection.enqueue_batch(
            queue=queue, payloads=list(range(6)), unique_keys=keys, headers=[{"n": n} for n in keys]
        )
    ]
    second = made[0][0]
    assert [duplicate for _, duplicate in made] == [False, True, False, True, True, False]
    assert [made[n][0] for n in (1, 3, 4)] == [first, second, first]
    found = {job.job_id: (job.payload, job.headers) for job in claim(connection, queue, 9)}
    assert found[first] == (4, {"n": "a"})
    assert found[second] == (3, {"n": "b"})
    assert sorted(payload for payload, _ in found.values()) == [2, 3, 4, 5]
    assert loose_keys(connection) == 0


@pytest.mark.parametrize("kind", ["replace", "postpone"])
def test_a_batch_of_one_key(connect: Connect, connection: Session, kind: str) -> None:
    """Only its last element is written: a row for each would take time that grows as a square."""
    queue = replacing(connection, kind)
    first, _ = put(connection, queue, "old")
    session = connect()
    session.enqueue_batch(queue=queue, payloads=list(range(50)), unique_keys=["k"] * 50)
    assert row(
        session,
        "select pg_stat_get_xact_tuples_updated('pgq.job'::regclass)"
        " + pg_stat_get_xact_tuples_inserted('pgq.job'::regclass)",
    ) == (1,)
    session.commit()
    assert [(job.job_id, job.payload) for job in claim(connection, queue, 9)] == [(first, 49)]


def test_idempotency_keys(connection: Session) -> None:
    """What is known by its idempotency key replaces nothing, alone or in a batch."""
    queue = replacing(connection)
    first, _ = put(connection, queue, 1, idempotency_key="x")
    assert put(connection, queue, 2, idempotency_key="y") == (first, True)
    for again in ("x", "y"):
        assert put(connection, queue, 0, idempotency_key=again) == (first, True)
        assert claim_payload(connection, queue) == 2
    made = connection.enqueue_batch(
        queue=queue, payloads=[3, 4, 5], unique_keys=["k"] * 3, idempotency_keys=["z", "y", "z"]
    )
    assert [tuple(each) for each in made] == [(first, True)] * 3
    assert claim_payload(connection, queue) == 3


def claim_payload(session: Session, queue: str) -> Any:
    """What a worker would get now."""
    with session.transaction(force_rollback=True):
        return claim_one(session, queue).payload


def test_a_blocked_job_of_an_ordered_queue(connection: Session) -> None:
    """It gets the content, and comes when it is its turn."""
    queue = replacing(connection, ordered=True)
    enqueue(connection, queue, "first", key="o")
    second, _ = put(connection, queue, "old", key="o")
    job = claim_one(connection, queue)
    assert put(connection, queue, "new", key="o") == (second, True)
    assert claim(connection, queue) == []
    assert ack(connection, job)
    assert claim_one(connection, queue).payload == "new"


@pytest.mark.parametrize("size", [13_000, 70_000, 900_000])
def test_large_content(connection: Session, size: int) -> None:
    """A claim of several counts it as it is now."""
    queue = replacing(connection)
    first, _ = put(connection, queue, "old")
    enqueue(connection, queue, "other")
    assert put(connection, queue, "x" * size) == (first, True)
    [job] = claim(connection, queue, 9, max_bytes=size)
    assert (job.job_id, job.payload, job.cut_short) == (first, "x" * size, True)


def test_content_that_is_too_large(connection: Session) -> None:
    """Alone or in a batch; nothing changes."""
    queue = replacing(connection, max_message_bytes=1024)
    put(connection, queue, "old")
    with unchanged(connection):
        content = {"queue": queue, "payload": Jsonb("x" * 2000), "unique_key": "k"}
        error = refused("22023", connection.enqueue, **content)
        assert "max_message_bytes is 1024" in str(error.diag.message_detail)
        payloads = [Jsonb("x"), Jsonb("x" * 2000)]
        content = {"queue": queue, "payloads": payloads, "unique_keys": ["a", "k"]}
        refused("22023", connection.enqueue_batch, **content)
    assert put(connection, queue, "x" * 1000)[1]
    assert len(claim_one(connection, queue).payload) == 1000


def test_headers_beside_the_key_of_the_job(connection: Session) -> None:
    """The key stays, so it counts, and not that of the duplicate."""
    queue = replacing(connection)
    key, headers = "o" * 200_000, {"h": "x" * 100_000}
    first, _ = put(connection, queue, "old", key=key)
    with unchanged(connection):
        content = {"queue": queue, "payload": 1, "unique_key": "k", "headers": headers}
        error = refused("22023", connection.enqueue, **content)
        assert "the limit is 262144" in str(error.diag.message_detail)
    assert put(connection, queue, "new", key=key, headers={"h": "x"}) == (first, True)
    enqueue(connection, queue, "other")
    [job] = claim(connection, queue, 9, max_bytes=200_000)
    assert (job.payload, job.cut_short) == ("new", True)


def test_refused_arguments_change_nothing(connection: Session) -> None:
    queue = replacing(connection, job_ttl="1 hour")
    put(connection, queue, "old")
    with unchanged(connection):
        for wrong in ({"delay": "-1 s"}, {"delay": "2 hours"}, {"priority": 10}):
            content = {"queue": queue, "payload": Jsonb("new"), "unique_key": "k"}
            refused("22023", connection.enqueue, **content, **wrong)


def test_a_payload_that_cleanup_has_moved(connection: Session, clock: Clock) -> None:
    queue = replacing(connection, retention="3 days", no_limit=["job_ttl"])
    first, _ = put(connection, queue, "old")
    enqueued = connection.get_job(job_id=first).enqueued_at
    stored = set()
    for _ in range(9):
        stored.add(row(connection, "select segment from pgq.job where job_id = %s", [first]))
        clock.advance("24 hours")
        clean(connection)
    assert len(stored) > 1
    assert put(connection, queue, "new") == (first, True)
    for _ in range(9):
        clock.advance("24 hours")
        clean(connection)
    job = claim_one(connection, queue)
    assert (job.payload, job.enqueued_at) == ("new", enqueued)


def test_a_full_queue(connection: Session) -> None:
    """A duplicate adds nothing, so max_unfinished does not refuse it."""
    queue = replacing(connection, max_unfinished=1)
    first, _ = put(connection, queue, "old")
    assert put(connection, queue, "new") == (first, True)
    refused("MQ010", connection.enqueue, queue=queue, payload=1, unique_key="other")
    assert claim_one(connection, queue).payload == "new"


def test_keep(connection: Session) -> None:
    """By default a duplicate changes nothing, and what comes back goes on without its key."""
    for queue in (
        new_queue(connection, unique_until="claimed"),
        replacing(connection, "keep"),
    ):
        first, _ = put(connection, queue, "old")
        with unchanged(connection):
            assert put(connection, queue, "new") == (first, True)
        job = claim_one(connection, queue)
        assert job.payload == "old"
        second, _ = put(connection, queue, "new")
        assert connection.nack(**held(job), delay="0")
        assert {job.job_id for job in claim(connection, queue, 9)} == {first, second}
