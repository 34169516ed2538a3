"""While somebody holds an old snapshot: what may pin the floor of a queue must not slow claims.

The floor lets claims begin behind what finished jobs have left. It cannot pass a job that waits,
and a session at REPEATABLE READ cannot raise it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.types.json import Jsonb

from plans.counting import Reader, refuse_growth
from support.queue import claim, enqueue_many, new_queue
from support.session import Connect

pytestmark = pytest.mark.slow

ROUNDS = 12
JOBS_PER_ROUND = 200


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    reader = Reader(dsn)
    yield reader
    reader.close()


def _hold_a_snapshot(connect: Connect) -> None:
    holder = connect(isolation_level="repeatable read")
    holder.execute("select count(*) from pgq.job")


def _done(reader: Reader, jobs: int, **asked: Any) -> int:
    """Claim and ack jobs, and return what the claim read."""
    done = reader.call("claim_job", queue="work", max_jobs=jobs, **asked)
    work = reader.last
    assert len(done) == jobs
    assert not work.scanned
    reader.call("ack_batch", job_ids=[j.job_id for j in done], lease_token=done[0].lease_token)
    return work.entries


def _refuse_growth(work: list[int]) -> None:
    refuse_growth(work)
    # with a floor that never rises the last ones read nearly all rounds
    assert max(work) < ROUNDS // 2 * JOBS_PER_ROUND, work


def _enqueue(reader: Reader, jobs: int, **options: Any) -> None:
    reader.call("enqueue_batch", queue="work", payloads=[Jsonb(1)] * jobs, **options)


@pytest.mark.parametrize(("waiting", "max_jobs"), [("green", 1), (None, 2)])
def test_claims_by_label_beside_a_job_of_another_one(
    reader: Reader,
    connection: psycopg.Connection[Any],
    connect: Connect,
    waiting: str | None,
    max_jobs: int,
) -> None:
    """Nobody asks for that one, and it is older than all others."""
    connection.execute("select pgq.create_queue('work')")
    _enqueue(reader, 1, labels=[waiting])
    _hold_a_snapshot(connect)
    work = []
    for _ in range(ROUNDS):
        _enqueue(reader, JOBS_PER_ROUND + 4, labels=["blue"] * (JOBS_PER_ROUND + 4))
        _done(reader, JOBS_PER_ROUND, label="blue")
        # the floor rises a few times a second at most
        for _ in range(3):
            time.sleep(0.055)
            _done(reader, 1, label="blue")
        _enqueue(reader, max_jobs - 1, labels=["blue"] * (max_jobs - 1))
        work.append(_done(reader, max_jobs, label="blue"))
    _refuse_growth(work)
    # and it is still there for whoever takes it
    [job] = claim(connection, "work", 10)
    assert (job.label, job.attempt) == (waiting, 1)


def test_claims_by_two_labels(
    reader: Reader, connection: psycopg.Connection[Any], connect: Connect
) -> None:
    """Some workers do blue jobs and are quick, those of the green ones are behind."""
    connection.execute("select pgq.create_queue('work')")
    _enqueue(reader, 3 * ROUNDS, labels=["green"] * (3 * ROUNDS))
    _hold_a_snapshot(connect)
    blue, green = [], []
    for _ in range(ROUNDS):
        _enqueue(reader, JOBS_PER_ROUND + 3, labels=["blue"] * (JOBS_PER_ROUND + 3))
        _done(reader, JOBS_PER_ROUND, label="blue")
        for _ in range(2):
            time.sleep(0.055)
            _done(reader, 1, label="blue")
        blue.append(_done(reader, 1, label="blue"))
        green.append(_done(reader, 1, label="green"))
    _refuse_growth(blue)
    _refuse_growth(green)


def test_workers_that_all_ask_for_a_label(
    reader: Reader, connection: psycopg.Connection[Any], connect: Connect
) -> None:
    """Nor are those slow that find fewer jobs than they want, or none of their label."""
    connection.execute("select pgq.create_queue('work')")
    _hold_a_snapshot(connect)
    fewer, none = [], []
    for _ in range(ROUNDS):
        _enqueue(reader, JOBS_PER_ROUND + 4, labels=["blue"] * (JOBS_PER_ROUND + 4))
        _done(reader, JOBS_PER_ROUND, label="blue")
        # the floor rises a few times a second at most
        for _ in range(3):
            time.sleep(0.055)
            _done(reader, 1, label="blue")
        assert len(reader.call("claim_job", queue="work", max_jobs=9, label="blue")) == 1
        fewer.append(reader.last.entries)
        assert reader.call("claim_job", queue="work", label="green") == []
        none.append(reader.last.entries)
    _refuse_growth(fewer)
    _refuse_growth(none)


@pytest.mark.parametrize(("label", "level"), [(None, "repeatable read"), ("blue", "serializable")])
def test_workers_with_snapshots_of_their_own(
    reader: Reader,
    connection: psycopg.Connection[Any],
    connect: Connect,
    label: str | None,
    level: str,
) -> None:
    """Nobody claims at READ COMMITTED; now and then there is a cleanup."""
    connection.execute("select pgq.create_queue('work')")
    reader.connection.isolation_level = IsolationLevel[level.upper().replace(" ", "_")]
    asked = {} if label is None else {"label": label}
    _hold_a_snapshot(connect)
    work = []
    for _ in range(ROUNDS):
        _enqueue(reader, JOBS_PER_ROUND + 1, labels=[label] * (JOBS_PER_ROUND + 1))
        _done(reader, JOBS_PER_ROUND, **asked)
        for _ in range(3):
            time.sleep(0.055)
            connection.cleanup()
        work.append(_done(reader, 1, **asked))
    _refuse_growth(work)


@pytest.mark.parametrize("label", [None, "blue"])
def test_claims_beside_an_open_id(
    reader: Reader, connection: psycopg.Connection[Any], connect: Connect, label: str | None
) -> None:
    """A transaction that has written elsewhere holds no floor, as it has called no queue."""
    connection.execute("select pgq.create_queue('work')")
    asked = {} if label is None else {"label": label}
    connect().execute("create table public.note (n integer)")
    work = []
    for _ in range(ROUNDS):
        _enqueue(reader, JOBS_PER_ROUND + 19, labels=[label] * (JOBS_PER_ROUND + 19))
        _done(reader, JOBS_PER_ROUND, **asked)
        # each raises the floor, and some of them look through the locks
        for _ in range(18):
            time.sleep(0.021)
            _done(reader, 1, **asked)
        work.append(_done(reader, 1, **asked))
    _refuse_growth(work)


@pytest.mark.parametrize("max_jobs", [1, 3])
def test_serializable_claims_lock_no_floor(
    connection: psycopg.Connection[Any], connect: Connect, max_jobs: int
) -> None:
    """What they cannot raise they do not keep from others, however long they work."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 3)
    time.sleep(0.055)
    session = connect(isolation_level="serializable")
    assert len(claim(session, queue, max_jobs)) == max_jobs
    tables = connection.execute(
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind = 'r' and relname like '%floor%'"
    ).fetchall()
    locked = {}
    for (table,) in tables:
        rows = len(connection.execute(f"select from pgq.{table}").fetchall())
        free = connection.execute(f"select from pgq.{table} for update skip locked").fetchall()
        locked[table] = rows - len(free)
    assert set(locked.values()) <= {0}, locked
