"""Clients of the log that are killed with -9 at each step of each way to consume."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.clock import Clock
from support.log import committed_offsets, new_topic, newest, offsets
from support.session import Session
from support.waiting import wait_until

CLIENT = Path(__file__).with_name("log_client.py")
READERS = {"consumer_group": "readers"}


def also_deferred(one: str, *steps: str) -> list[tuple[str, bool]]:
    """The steps at a usual topic, and one of them at a deferred one."""
    return [*((step, False) for step in steps), (one, True)]


@pytest.fixture
def work(log: Session) -> Callable[[], list[int]]:
    """A table that clients write to; gives the offsets that they have worked on, in order."""
    log.execute("drop table if exists public.work")
    log.execute(
        "create table public.work (number bigserial, partition integer, log_offset bigint,"
        " payload text)"
    )

    def done() -> list[int]:
        rows = log.execute("select log_offset from public.work order by number").fetchall()
        return [row[0] for row in rows]

    return done


def run(dsn: str, topic: str, way: str) -> None:
    """Let a client do all its steps."""
    subprocess.run([sys.executable, CLIENT, dsn, topic, way], check=True, capture_output=True)


def kill_at(log: Session, dsn: str, topic: str, way: str, step: str) -> None:
    """Let a client reach a step, kill it with -9, and wait until the server has noticed."""
    name = "killed"
    before = backends(log, name)
    assert before == 0
    process = subprocess.Popen(
        [sys.executable, CLIENT, f"{dsn} application_name={name}", topic, way, step],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.rstrip("\n") == step:
                break
        else:
            pytest.fail(f"the client ended before the step {step}")
        assert backends(log, name) == 1
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: backends(log, name) == 0, what="for the server to miss the client")


def backends(log: Session, name: str) -> int:
    """How many clients of that name the server knows."""
    row = log.execute(
        "select count(*) from pg_stat_activity where application_name = %s", [name]
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("step", "deferred"), also_deferred("worked", "claimed", "fetched", "worked", "committed")
)
def test_in_the_transaction_of_the_work(
    shared_dsn: str, log: Session, work: Callable[[], list[int]], step: str, deferred: bool
) -> None:
    """Before the commit all comes back at once, after it nothing does: each effect exactly once."""
    topic = new_topic(log, messages=5, deferred=deferred)
    kill_at(log, shared_dsn, topic, "in transaction", step)
    if step == "committed":
        assert work() == [1, 2, 3]
        assert committed_offsets(log, topic, "readers") == [3]
    else:
        assert work() == []
        assert committed_offsets(log, topic, "readers") == [0]
        run(shared_dsn, topic, "in transaction")
    run(shared_dsn, topic, "in transaction")
    assert work() == [1, 2, 3, 4, 5]
    assert log.consume(topic=topic, **READERS) == []


@pytest.mark.parametrize(
    ("step", "deferred"),
    also_deferred("worked", "polled", "worked", "committed a part", "committed"),
)
def test_leased(
    shared_dsn: str,
    log: Session,
    shared_clock: Clock,
    work: Callable[[], list[int]],
    step: str,
    deferred: bool,
) -> None:
    """When the lease ends, another member gets what was not committed, and nothing else.

    Nothing is lost; only what was worked on and not committed is done again.
    """
    topic = new_topic(log, messages=5, deferred=deferred)
    kill_at(log, shared_dsn, topic, "leased", step)
    expected = {
        "polled": ([], [1, 2, 3]),
        "worked": ([1, 2, 3], [1, 2, 3]),
        "committed a part": ([1, 2, 3], [2, 3, 4]),
        "committed": ([1, 2, 3], [4, 5]),
    }
    done, again = expected[step]
    assert work() == done
    if step != "committed":
        # the lease of a dead member holds until it ends
        assert log.poll(topic=topic, **READERS) == []
        shared_clock.advance("31 seconds")
    run(shared_dsn, topic, "leased")
    assert work() == done + again
    while committed_offsets(log, topic, "readers") != [5]:
        run(shared_dsn, topic, "leased")
    assert sorted(set(work())) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("step", ["fetched", "worked", "committed"])
def test_manual(shared_dsn: str, log: Session, work: Callable[[], list[int]], step: str) -> None:
    """At least once: what was not committed is fetched again, at once and in order."""
    topic = new_topic(log, messages=5)
    kill_at(log, shared_dsn, topic, "manual", step)
    done = [] if step == "fetched" else [1, 2, 3]
    again = [4, 5] if step == "committed" else [1, 2, 3]
    assert work() == done
    run(shared_dsn, topic, "manual")
    assert work() == done + again
    if step != "committed":
        run(shared_dsn, topic, "manual")
    assert sorted(set(work())) == [1, 2, 3, 4, 5]
    assert log.fetch(topic=topic, **READERS) == []


@pytest.mark.parametrize("step", ["fetched", "worked", "committed"])
def test_external(shared_dsn: str, log: Session, work: Callable[[], list[int]], step: str) -> None:
    """The reader's own offset decides: kept with the work, each effect is there exactly once."""
    topic = new_topic(log, messages=5)
    kill_at(log, shared_dsn, topic, "external", step)
    assert work() == ([1, 2, 3] if step == "committed" else [])
    run(shared_dsn, topic, "external")
    if step != "committed":
        run(shared_dsn, topic, "external")
    assert work() == [1, 2, 3, 4, 5]
    assert committed_offsets(log, topic, "readers") == [0]


@pytest.mark.parametrize(
    ("step", "deferred"),
    also_deferred("published a batch", "published", "published a batch", "committed"),
)
def test_publishing(shared_dsn: str, log: Session, step: str, deferred: bool) -> None:
    """All of the transaction or nothing; no gap is left and the partition is free at once."""
    topic = new_topic(log, messages=1, deferred=deferred)
    kill_at(log, shared_dsn, topic, "publishing", step)
    log.execute("set lock_timeout = '2s'")
    log.assign_offsets(topic=topic)
    assert newest(log, topic) == (4 if step == "committed" else 1)
    run(shared_dsn, topic, "publishing")
    log.assign_offsets(topic=topic)
    rows: list[Any] = log.fetch(topic=topic, **READERS)
    assert offsets(rows) == list(range(1, len(rows) + 1))
    expected = [100, 101, 102]
    assert [row.payload for row in rows] == [1, *expected, *(expected if len(rows) > 4 else [])]
    assert len(rows) == (7 if step == "committed" else 4)
