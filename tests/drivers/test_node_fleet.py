"""Workers in Python and in TypeScript on one queue, killed with -9 at any moment and started again.

A handler of either kind takes a turn: it notes in the database that it has begun and whether it is
alone with its job, and at its end that it has ended. Some turns fail, and some are snoozed.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from support.command import PGQ
from support.drivers import environment
from support.node import NodeWorker
from support.waiting import wait_until

pytestmark = pytest.mark.slow

KILLS = 6
"""Of each kind of worker, each when its kind has done so many turns more."""
STEP = 10
AHEAD = 60
"""How many jobs wait or are leased until the last kill."""
KEYS = 30
LEASE = timedelta(seconds=5)

# The lock of a process that was killed is free as soon as the server has noticed.
TURNS = """
create table public.turn (
    number bigint generated always as identity,
    job_id bigint,
    key text,
    kind text,
    alone boolean,
    lost boolean,
    began_at timestamptz default clock_timestamp(),
    ended_at timestamptz
);

create function public.begin_turn(job bigint, job_key text, kind text)
returns table (turn bigint, turns integer)
language sql as $$
    insert into public.turn (job_id, key, kind, alone)
    values (job, job_key, kind, pg_try_advisory_lock(job));

    select lastval(), count(*)::integer from public.turn where job_id = job
$$;

create function public.end_turn(turn bigint, is_lost boolean) returns void
language sql as $$
    update public.turn set ended_at = clock_timestamp(), lost = is_lost where number = $1;
    select pg_advisory_unlock(job_id) from public.turn where number = $1 and alone
$$;
"""

APP = """
import os, random, time
import psycopg
from pgq.worker import Handlers, RunningJob, Snooze

handlers = Handlers()


@handlers.handler("mail")
def turn(payload: dict, job: RunningJob):
    n = payload["n"]
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        [(number, turns)] = connection.execute(
            "select * from public.begin_turn(%s, %s, 'python')", [job.job_id, job.key]
        ).fetchall()
        time.sleep(random.random() * 0.04)
        connection.execute("select public.end_turn(%s, %s)", [number, job.lost])
    if turns == 1 and n % 7 == 0:
        raise RuntimeError("the first turn fails")
    if turns == 1 and n % 11 == 0:
        raise Snooze(0.01)
    return None if n % 2 else n * n
"""


@contextmanager
def _python(dsn: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*PGQ, "work", "app:handlers", "--concurrency", "4"], cwd=folder, env=environment(dsn)
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _node(dsn: str, folder: Path) -> Iterator[subprocess.Popen[Any]]:
    with NodeWorker(folder, dsn, "mail", concurrency=4) as worker:
        yield worker.process


class Fleet:
    """Two workers of each kind."""

    def __init__(self, start: list[Callable[[], Any]], stack: ExitStack) -> None:
        self._stack = stack
        self._running = [(each, stack.enter_context(each())) for each in start]
        self._random = random.Random(20261128)

    def kill(self, kind: str) -> None:
        """Kill one of a kind, and start another one."""
        place = 2 * (kind == "node") + self._random.randrange(2)
        start, process = self._running[place]
        assert process.poll() is None, "a worker has ended by itself"
        process.kill()
        process.wait()
        self._running[place] = start, self._stack.enter_context(start())

    def stop(self, client: Client) -> None:
        """All end by themselves, as soon as they have begun."""
        pids = {process.pid for _, process in self._running}
        wait_until(
            lambda: pids <= {each.pid for each in client.monitor.list_workers()}, 60, "for workers"
        )
        for _, process in self._running:
            process.terminate()
        assert [process.wait(60) for _, process in self._running] == [0, 0, 0, 0]


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    connection.execute(TURNS.encode())
    return Client(connection)


@contextmanager
def _fleet(dsn: str, programs: Path, folder: Path) -> Iterator[Fleet]:
    (folder / "app.py").write_text(APP)
    with ExitStack() as stack:
        start = [lambda: _python(dsn, folder)] * 2 + [lambda: _node(dsn, programs)] * 2
        yield Fleet(start, stack)


@pytest.mark.parametrize("ordered", [False, True], ids=["in any order", "ordered by key"])
def test_a_mixed_fleet_under_kills(
    programs: Path, dsn: str, client: Client, tmp_path: Path, ordered: bool
) -> None:
    client.admin.create_queue(
        "mail",
        lease=LEASE,
        backoff=timedelta(milliseconds=10),
        notify=True,
        keep_results=True,
        ordered=ordered,
        no_limit=["max_attempts"],
    )
    ids: list[int] = []

    def count(what: str) -> int:
        [(number,)] = client.connection.execute(f"select count(*) from {what}".encode()).fetchall()
        return int(number)

    def more() -> None:
        """Some jobs wait at all times."""
        numbers = range(len(ids), len(ids) + AHEAD - count("pgq.job"))
        jobs = [{"do": "turn", "n": n} for n in numbers]
        added = client.enqueue_batch("mail", jobs, keys=[str(n % KEYS) for n in numbers])
        ids.extend(job.job_id for job in added)

    def done(kind: str) -> int:
        more()
        return count(f"public.turn where kind = '{kind}' and ended_at is not null")

    with _fleet(dsn, programs, tmp_path) as fleet:
        for kind in ["python", "node"] * KILLS:
            enough = done(kind) + STEP
            wait_until(lambda: done(kind) >= enough, 120, f"for turns of {kind}")  # noqa: B023
            fleet.kill(kind)
        wait_until(lambda: not count("pgq.job"), 180, "for all jobs to end")
        fleet.stop(client)

    # each job has ended once, as finished, with its result
    archived = client.connection.execute("select job_id from pgq.archived_jobs").fetchall()
    assert sorted(job_id for (job_id,) in archived) == ids
    for n, job_id in enumerate(ids):
        found = client.get_result(job_id)
        assert (found.state, found.result) == ("finished", None if n % 2 else n * n)

    # workers of both kinds were killed at work
    for kind in ("python", "node"):
        assert count(f"public.turn where kind = '{kind}' and ended_at is null") > 0

    # no two had a job at once, or a key
    assert _together(client, "job_id") == []
    if ordered:
        assert _together(client, "key") == []
        assert _overtaken(client) == []


def _together(client: Client, what: str) -> list[Any]:
    """Turns beside the one before them, unless that one knew at its end that its lease was lost."""
    return client.connection.execute(
        f"select * from (select t.*, lag(ended_at) over w as before, lag(lost) over w as was_lost"
        f" from public.turn as t window w as (partition by {what} order by number)) as t"
        " where (began_at < before or not alone) and was_lost is not true".encode()
    ).fetchall()


def _overtaken(client: Client) -> list[Any]:
    """Turns of a job behind the turn of a later one of its key."""
    return client.connection.execute(
        "select * from (select t.*, max(job_id) over (partition by key order by number) as latest"
        " from public.turn as t) as t where job_id < latest"
    ).fetchall()
