"""Workers of a limited queue that are killed with -9 at work, and others that take their place."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime

from support.queue import claim, enqueue_many, new_queue
from support.session import Session, row
from support.waiting import wait_until

JOBS = 90
SLOTS = 3
OF_A_KEY = 2
RATE, BURST = 15, 3
KILLS = 6

WORKER = """
import random, sys, time
from pgq.worker import Worker

dsn, queue, seed = sys.argv[1:]
rng = random.Random(seed)
worker = Worker(dsn, concurrency=2, poll=0.05)

@worker.handler(queue, lease=1)
def work(payload: int) -> None:
    time.sleep(rng.uniform(0.1, 0.2))

worker.run()
"""

# Claims of such a queue are one after the other, so each can be judged as it is made. A job that is
# leased has its key in ordered_key where keys are limited.
LEDGER = f"""
create table public.handed (job_id bigint, lease_token uuid, at timestamptz,
    primary key (job_id, lease_token));
create table public.too_many (leased bigint);
create table public.too_many_of_a_key (leased bigint);
create function public.judge() returns trigger language plpgsql as $$
begin
    insert into public.handed
    values (new.job_id, new.lease_token, new.visible_at - interval '1 second')
    on conflict do nothing;
    insert into public.too_many
    select count(*) from pgq.job as j
    where j.lease_token is not null and j.visible_at > pgq._clock()
    having count(*) > {SLOTS};
    insert into public.too_many_of_a_key
    select count(*) from pgq.job as j
    where j.lease_token is not null and j.visible_at > pgq._clock() and j.ordered_key is not null
    group by j.ordered_key
    having count(*) > {OF_A_KEY};
    return null;
end
$$;
create trigger judge after insert on pgq.job for each row when (new.lease_token is not null)
execute function public.judge();
"""


@contextmanager
def worker(dsn: str, queue: str, seed: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", WORKER, dsn, queue, str(seed)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kill_at_work(connection: Session, dsn: str, queue: str, busy: int) -> None:
    """Three workers of which one is killed, and another one started, until all jobs are done."""
    rng = random.Random(20261122)

    def left() -> int:
        return int(row(connection, "select count(*) from pgq.job")[0])

    def at_work() -> bool:
        [leased] = row(connection, "select count(*) from pgq.job where lease_token is not null")
        return int(leased) >= busy

    with ExitStack() as stack:
        seeds = iter(range(100))

        def start() -> subprocess.Popen[bytes]:
            return stack.enter_context(worker(dsn, queue, next(seeds)))

        workers = [start() for _ in range(3)]
        for kill in range(1, KILLS + 1):
            few = JOBS - kill * JOBS // (KILLS + 2)
            wait_until(lambda few=few: left() <= few and at_work(), 120, "for jobs to be done")
            victim = workers.pop(rng.randrange(len(workers)))
            victim.kill()
            victim.wait()
            workers.append(start())
        wait_until(lambda: left() == 0, 120, "for the last jobs")


def times_of_claims(connection: Session) -> list[datetime]:
    times = connection.execute("select at from public.handed order by at").fetchall()
    assert len(times) > JOBS, "no kill has met a job"
    return [at for (at,) in times]


def test_limits_hold_over_kills(dsn: str, connection: Session) -> None:
    """Never more leases at a time, nor more jobs in a time; all jobs end, and no slot is lost."""
    connection.execute(LEDGER)
    queue = new_queue(
        connection,
        max_leased=SLOTS,
        rate_limit=RATE,
        rate_burst=BURST,
        no_limit=["max_attempts"],
    )
    enqueue_many(connection, queue, JOBS)
    kill_at_work(connection, dsn, queue, SLOTS)
    assert row(connection, "select array_agg(leased) from public.too_many") == (None,)
    handed = times_of_claims(connection)
    for first, begun in enumerate(handed):
        for number, at in enumerate(handed[first:], 1):
            assert number <= BURST + RATE * (at - begun).total_seconds() + 1
    connection.alter_queue(queue=queue, no_limit=["rate_limit"])
    enqueue_many(connection, queue, 2 * SLOTS)
    assert len(claim(connection, queue, 2 * SLOTS)) == SLOTS


def test_limits_of_keys_hold_over_kills(dsn: str, connection: Session) -> None:
    """Two keys: never more leases of one, all jobs end, and each key has its places."""
    connection.execute(LEDGER)
    queue = new_queue(connection, max_leased_per_key=OF_A_KEY, no_limit=["max_attempts"])
    enqueue_many(connection, queue, JOBS, keys=[f"k{n % 2}" for n in range(JOBS)])
    kill_at_work(connection, dsn, queue, OF_A_KEY)
    assert row(connection, "select array_agg(leased) from public.too_many_of_a_key") == (None,)
    times_of_claims(connection)
    enqueue_many(connection, queue, 8, keys=[f"k{n % 2}" for n in range(8)])
    assert len(claim(connection, queue, 8)) == 2 * OF_A_KEY
