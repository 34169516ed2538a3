"""Thousands of jobs whose last lease ran out stand before a good one: a claim gets it at once.

They have had their attempts and become dead letters. A claim that comes upon them buries some and
passes by the rest; it does not work through them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.clock import Clock
from support.queue import stats
from support.session import Session

EXHAUSTED = 5000
# how many one claim may bury
BURIED = 1000
# what it may read for each exhausted job: its entry in an index, and more where it is buried
PER_JOB = 4
# calls of functions of pgq from within: one for each turn at least
TURNS = 30

_CALLS = """
    select coalesce(sum(pg_stat_get_xact_function_calls(oid)), 0)::bigint as calls
    from pg_proc
    where pronamespace = 'pgq'::regnamespace
"""


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    reader = Reader(dsn)
    # functions in PL/pgSQL alone: the clock is read once for each row
    reader.connection.execute("set track_functions = 'pl'")
    yield reader
    reader.close()


def _exhaust(connection: Session, reader: Reader, clock: Clock, **options: Any) -> None:
    """A queue whose jobs have all been claimed for the last time, by workers that are lost."""
    connection.execute("select pgq.create_queue('work', max_attempts => 1)")
    reader.call("enqueue_batch", queue="work", payloads=[Jsonb(0)] * EXHAUSTED, **options)
    assert len(reader.call("claim_job", queue="work", max_jobs=EXHAUSTED)) == EXHAUSTED
    clock.advance("1 minute")
    connection.execute("vacuum analyze pgq.job")


def _claim(reader: Reader, **arguments: Any) -> tuple[list[Any], int]:
    """The jobs of one claim, and how many functions it called from within."""
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    with reader.connection.transaction():
        before = reader.run(_CALLS, {})[0].calls
        jobs = reader.run(f"select * from pgq.claim_job({named})", arguments)
        work = reader.last
        after = reader.run(_CALLS, {})[0].calls
    reader.last = work
    return jobs, after - before


def _check(reader: Reader, connection: Session, turns: int) -> None:
    assert turns <= TURNS, f"{turns} calls from within"
    assert reader.last.entries <= PER_JOB * EXHAUSTED + 1000, f"{reader.last.entries} entries read"
    assert not reader.last.scanned
    assert stats(connection, "work").get("dead", 0) <= BURIED


def _good(reader: Reader, **options: Any) -> None:
    """Add five jobs that can be claimed."""
    payloads = [Jsonb(f"good {n}") for n in range(5)]
    reader.call("enqueue_batch", queue="work", payloads=payloads, **options)


def _first_good(jobs: list[Any], max_jobs: int) -> None:
    """A claim has some of the good jobs, in their order, and nothing else."""
    found = [job.payload for job in jobs]
    assert 1 <= len(found) <= min(max_jobs, 5)
    assert found == [f"good {n}" for n in range(len(found))]


@pytest.mark.parametrize("max_jobs", [1, 5, 100])
def test_good_ones_behind_them(
    reader: Reader, connection: psycopg.Connection[Any], clock: Clock, max_jobs: int
) -> None:
    _exhaust(connection, reader, clock)
    _good(reader)
    jobs, turns = _claim(reader, queue="work", max_jobs=max_jobs)
    _first_good(jobs, max_jobs)
    _check(reader, connection, turns)


@pytest.mark.parametrize("max_jobs", [1, 5])
def test_by_label(
    reader: Reader, connection: psycopg.Connection[Any], clock: Clock, max_jobs: int
) -> None:
    """The exhausted ones have the label that is asked for."""
    _exhaust(connection, reader, clock, labels=["blue"] * EXHAUSTED)
    _good(reader, labels=["blue"] * 5)
    jobs, turns = _claim(reader, queue="work", max_jobs=max_jobs, label="blue")
    _first_good(jobs, max_jobs)
    _check(reader, connection, turns)


@pytest.mark.parametrize("max_jobs", [1, 5])
def test_in_another_priority(
    reader: Reader, connection: psycopg.Connection[Any], clock: Clock, max_jobs: int
) -> None:
    _exhaust(connection, reader, clock)
    _good(reader, priority=7)
    jobs, turns = _claim(reader, queue="work", max_jobs=max_jobs)
    _first_good(jobs, max_jobs)
    _check(reader, connection, turns)


@pytest.mark.parametrize("max_jobs", [1, 100])
def test_nothing_behind_them(
    reader: Reader, connection: psycopg.Connection[Any], clock: Clock, max_jobs: int
) -> None:
    """No row, and no claim works through them all; in the end each is a dead letter."""
    _exhaust(connection, reader, clock)
    jobs, turns = _claim(reader, queue="work", max_jobs=max_jobs)
    assert jobs == []
    _check(reader, connection, turns)
    for _ in range(3):
        connection.cleanup()
    assert stats(connection, "work") == {"dead": EXHAUSTED}


def test_between_good_ones(
    reader: Reader, connection: psycopg.Connection[Any], clock: Clock
) -> None:
    """Claims take what is good on both sides of them, in the usual order."""
    connection.execute("select pgq.create_queue('work', max_attempts => 1)")
    reader.call("enqueue_batch", queue="work", payloads=[Jsonb("bad")] * EXHAUSTED)
    reader.call("claim_job", queue="work", max_jobs=EXHAUSTED, lease="1 minute")
    # due 30 seconds before the leases of the others run out
    clock.advance("30 seconds")
    reader.call("enqueue_batch", queue="work", payloads=[Jsonb("before")] * 3)
    clock.advance("5 minutes")
    reader.call("enqueue_batch", queue="work", payloads=[Jsonb("behind")] * 3)
    connection.execute("vacuum analyze pgq.job")
    found: list[str] = []
    for _ in range(6):
        jobs, turns = _claim(reader, queue="work")
        found += [job.payload for job in jobs]
        assert turns <= TURNS
        assert reader.last.entries <= PER_JOB * EXHAUSTED + 1000
    assert found == ["before"] * 3 + ["behind"] * 3
