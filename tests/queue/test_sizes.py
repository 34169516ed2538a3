"""Sizes of jobs: what a queue takes, and how much of it one claim returns."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from support.clock import Clock
from support.session import Session, new_name, refused, row, unchanged

MEGABYTE = 1 << 20
LONG_NUMBERS = '{"h": [' + ", ".join(["1e100000"] * 800) + "]}"
"""Of some 10 kB as jsonb, and 80 MB as text."""

# Ways to enqueue one job; those of a batch put a small one before it.
ENQUEUE: dict[str, Callable[..., Any]] = {
    "enqueue": lambda session, queue, body: session.enqueue(queue=queue, body=body),
    "delayed": lambda session, queue, body: session.enqueue(queue=queue, body=body, delay="0"),
    "with an idempotency key": lambda session, queue, body: session.enqueue(
        queue=queue, body=body, idempotency_key=new_name("key")
    ),
    "batch": lambda session, queue, body: session.enqueue_batch(queue=queue, bodies=[b"", body]),
    "batch with idempotency keys": lambda session, queue, body: session.enqueue_batch(
        queue=queue, bodies=[b"", body], idempotency_keys=[new_name("key"), new_name("key")]
    ),
}


@pytest.mark.parametrize("limit", [1024, MEGABYTE, 2 * MEGABYTE])
@pytest.mark.parametrize("way", ENQUEUE)
def test_content_up_to_the_limit(connection: Session, way: str, limit: int) -> None:
    """One byte more is refused, with both sizes and the number in the batch."""
    queue = new_name("queue")
    connection.create_queue(queue=queue, max_message_bytes=limit)
    ENQUEUE[way](connection, queue, bytes(limit))
    with unchanged(connection):
        error = refused("22023", ENQUEUE[way], connection, queue, body=bytes(limit + 1))
    number = "Number 2 of 2" if way.startswith("batch") else "Number 1 of 1"
    assert f'queue "{queue}"' in str(error)
    assert error.diag.message_detail == (
        f"{number} has {limit + 1} bytes; max_message_bytes is {limit}; nothing was stored."
    )


def test_key_and_headers(connection: Session, queue: str) -> None:
    """Together at most 256 KiB."""
    for given in ({"key": "k" * 262145}, {"key": "k", "headers": LONG_NUMBERS}):
        with unchanged(connection):
            refused("22023", connection.enqueue, queue=queue, payload=1, **given)
    connection.enqueue(queue=queue, payload=1, key="k" * 262144)


# ---------------------------------------------------------------------------- claiming


@pytest.mark.parametrize("sizes", [[300] * 10, [40_000] * 10, [10, 90_000, 10, 10, 10] * 2])
@pytest.mark.parametrize("call", ["claim_job", "finish_and_claim"])
def test_a_claim_returns_at_most_so_many_bytes(
    connection: Session, queue: str, call: str, sizes: list[int]
) -> None:
    """At least one job; the others stay due, and unleased."""
    for size in sizes:
        connection.enqueue(queue=queue, body=bytes(size))
    for most in (1, 299, 300, 950, 80_000, 200_000, 10**6):
        with connection.transaction(force_rollback=True):
            claimed: list[Any] = []
            while len(claimed) < len(sizes):
                rows = getattr(connection, call)(queue=queue, max_jobs=100, max_bytes=most)
                total = sum(len(job.body) for job in rows)
                assert len(rows) == 1 or total <= most
                claimed += rows
                more = len(claimed) < len(sizes)
                assert {job.cut_short for job in rows} == {more}
                assert not more or total + sizes[len(claimed)] > most
                [stats] = connection.execute(
                    "select ready, leased from pgq.queue_stats where queue = %s", [queue]
                ).fetchall()
                assert stats == (len(sizes) - len(claimed), len(claimed))
            assert [len(job.body) for job in claimed] == sizes
            assert {job.attempt for job in claimed} == {1}


@pytest.mark.parametrize(
    "settings",
    [
        {"rate_limit": 10, "rate_interval": "1 day"},
        {"max_leased": 10},
        {"max_leased_per_key": 3},
        {"unique_until": "claimed"},
    ],
    ids=lambda settings: min(settings),
)
def test_what_was_left_out_counts_nowhere(
    connection: Session, clock: Clock, settings: dict[str, Any]
) -> None:
    """Not against a limit, and its unique key stays taken."""
    queue = new_name("queue")
    connection.create_queue(queue=queue, **settings)
    for number in range(6):
        connection.enqueue(
            queue=queue, body=bytes(50_000), key=f"k{number % 2}", unique_key=f"u{number}"
        )
    [first] = connection.claim_job(queue=queue, max_jobs=6, max_bytes=1)
    assert first.cut_short
    again = [
        connection.enqueue(queue=queue, body=b"", unique_key=f"u{number}").duplicate
        for number in range(6)
    ]
    assert again == [settings.get("unique_until") != "claimed", *[True] * 5]
    rest = connection.claim_job(queue=queue, max_jobs=5)
    assert [len(job.body) for job in rest] == [50_000] * 5


@pytest.mark.parametrize("partitions", [1, 2])
def test_jobs_of_a_subscription(connection: Session, queue: str, partitions: int) -> None:
    """Their messages are in the log, and count as well."""
    topic = new_name("topic")
    connection.create_topic(topic=topic, partitions=partitions)
    connection.subscribe(subscription=new_name("s"), topic=topic, queue=queue)
    for number in range(6):
        connection.publish(topic=topic, body=bytes(50_000), key=f"k{number}")
    claimed = connection.claim_job(queue=queue, max_jobs=6, max_bytes=110_000)
    assert (len(claimed), claimed[0].cut_short) == (2, True)
    claimed = connection.claim_job(queue=queue, max_jobs=6)
    assert (len(claimed), claimed[0].cut_short) == (4, False)


def test_bytes_that_are_refused(connection: Session, queue: str) -> None:
    connection.enqueue_batch(queue=queue, payloads=[1, 2])
    for most in (0, -1):
        with unchanged(connection):
            for call, jobs in product((connection.claim_job, connection.finish_and_claim), (1, 2)):
                refused("22023", call, queue=queue, max_jobs=jobs, max_bytes=most)


def test_jobs_from_before_the_limit_was_lowered(connection: Session, queue: str) -> None:
    """They are claimed, given up and redriven."""
    connection.alter_queue(queue=queue, max_attempts=1)
    connection.enqueue(queue=queue, body=bytes(MEGABYTE))
    connection.alter_queue(queue=queue, max_message_bytes=1024)
    for _ in range(2):
        [job] = connection.claim_job(queue=queue)
        assert len(job.body) == MEGABYTE
        connection.reject_job(job_id=job.job_id, lease_token=job.lease_token)
        connection.redrive(queue=queue, all_jobs=True)


def test_a_schedule_from_before_the_limit_was_lowered(
    connection: Session, queue: str, clock: Clock
) -> None:
    name = new_name("schedule")
    connection.create_schedule(schedule=name, queue=queue, body=bytes(20_000), every="1 hour")
    connection.alter_queue(queue=queue, max_message_bytes=1024)
    clock.advance("2 hours")
    [run] = [one for one in connection.run_schedules() if one.schedule == name]
    assert run.error is None
    [job] = connection.claim_job(queue=queue)
    assert len(job.body) == 20_000


@pytest.mark.parametrize("keys", ["idempotency_key", "unique_key"])
@pytest.mark.parametrize("batch", [False, True])
def test_a_retry_after_the_limit_was_lowered(
    connection: Session, queue: str, keys: str, batch: bool
) -> None:
    """A job that is known by its key is found; one that is new is refused."""
    body = bytes(50_000)

    def enqueue(*values: str) -> Any:
        if not batch:
            found = connection.enqueue(queue=queue, body=body, **{keys: values[0]})
        else:
            found = connection.enqueue_batch(
                queue=queue, bodies=[body] * len(values), **{f"{keys}s": [*values]}
            )[0]
        return found

    first = enqueue("a")
    for limit in (20_000, 2000):
        connection.alter_queue(queue=queue, max_message_bytes=limit)
        again = enqueue("a")
        assert (again.job_id, again.duplicate) == (first.job_id, True)
        with unchanged(connection):
            new = ("a", "b", "c") if batch else ("b",)
            error = refused("22023", enqueue, *new)
        number = "Number 2 of 3" if batch else "Number 1 of 1"
        assert str(error.diag.message_detail).startswith(f"{number} has 50000 bytes")


@pytest.mark.parametrize("settings", [{}, {"max_leased_per_key": 500}], ids=["plain", "keys"])
def test_a_claim_costs_what_it_returns(connection: Session, settings: dict[str, Any]) -> None:
    """Jobs behind those that are returned are not measured."""
    queue = new_name("queue")
    connection.create_queue(queue=queue, **settings)
    connection.enqueue_batch(queue=queue, bodies=[bytes(50_000)] * 1000, keys=["k"] * 1000)
    with connection.transaction(force_rollback=True):
        connection.execute(
            "create or replace function pgq._message_bytes("
            " payload jsonb, key text, headers jsonb, body bytea) returns bigint"
            " language plpgsql volatile as $$ begin perform nextval('public.pgq_measured');"
            " return octet_length(body); end $$"
        )
        connection.execute("create sequence public.pgq_measured")
        rows = connection.claim_job(queue=queue, max_jobs=1000, max_bytes=500_000)
        assert (len(rows), rows[-1].cut_short) == (10, True)
        (measured,) = row(connection, "select last_value from public.pgq_measured")
        assert 11 <= measured <= 60


@pytest.mark.parametrize("batch", [False, True])
def test_a_unique_key_after_the_limit_was_lowered(
    connection: Session, queue: str, batch: bool
) -> None:
    """It is found with a new idempotency key too."""
    first = connection.enqueue(queue=queue, body=bytes(50_000), unique_key="u")
    connection.alter_queue(queue=queue, max_message_bytes=20_000)
    for key in ("u", "v"):
        given: dict[str, Any] = {"queue": queue}
        if batch:
            given |= {"bodies": [bytes(50_000)], "unique_keys": [key], "idempotency_keys": ["i"]}
        else:
            given |= {"body": bytes(50_000), "unique_key": key, "idempotency_key": "j"}
        call = connection.enqueue_batch if batch else connection.enqueue
        if key == "v":
            given |= {"idempotency_keys": ["k"]} if batch else {"idempotency_key": "k"}
            refused("22023", call, **given)
            continue
        found = call(**given)
        [found] = found if batch else [found]
        assert (found.job_id, found.duplicate) == (first.job_id, True)


def test_json_that_is_longer_as_text(connection: Session, queue: str) -> None:
    """It counts as it came in, whether it is stored compressed or not."""
    sizes = {}
    for number, text in enumerate(["\x01" * 30_000, '"' * 60_000, "x" * 60_000] * 4):
        job_id = connection.enqueue(queue=queue, payload={"n": number, "t": text}).job_id
        sizes[job_id] = len(text)
    claimed = connection.claim_job(queue=queue, max_jobs=12, max_bytes=310_000)
    assert (len(claimed), claimed[0].cut_short) == (6, True)
    assert sum(sizes[job.job_id] for job in claimed) <= 310_000
    claimed = connection.claim_job(queue=queue, max_jobs=12, max_bytes=310_000)
    assert (len(claimed), claimed[0].cut_short) == (6, False)


def test_bounds_of_many_others(connection: Session, queue: str) -> None:
    """Those of other queues with this retention are not read one by one."""
    connection.enqueue_batch(queue=queue, payloads=[1, 2])
    with connection.transaction(force_rollback=True):
        connection.execute(
            "insert into pgq.size_bound select q.segment, -n, 65536"
            " from generate_series(1, 5000) as n, pgq.queue as q where q.queue = %s",
            [queue],
        )
        assert len(connection.claim_job(queue=queue, max_jobs=2)) == 2
        (read,) = row(
            connection,
            "select seq_tup_read + idx_tup_fetch from pg_stat_xact_all_tables"
            " where relid = 'pgq.size_bound'::regclass",
        )
    assert read < 20
