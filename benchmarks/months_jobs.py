"""Those who enqueue, work, die and redrive in a run of months."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg
from benchmarks.months_actors import Actor, World
from benchmarks.months_log import DIGITS, body

__all__ = ["Enqueuer", "HouseWorker", "Mortal", "Redriver", "Worker", "job_actors"]

KEYS = 20
OTHERS = ("ordered", "limited", "followers", "ticks", "bulk-jobs")

# What becomes of a job of the queue work says its number.
FAILS_ONCE, DIES_ONCE, NEVER_WORKS, TAKES_LONG, HAS_EFFECT = range(5)
KINDS = 30


class Enqueuer(Actor):
    """Enqueues single jobs: some later than now, less urgent, or under a unique key."""

    rate = 22
    produces = True

    def step(self) -> None:
        which = self.rng.random()
        number = next(self.ledger.numbers)
        if which < 0.15:
            key = f"key-{self.rng.randrange(KEYS)}"
            self._enqueue("ordered", number, key=key, size=100)
        elif which < 0.25:
            self._enqueue("limited", number, key=f"key-{self.rng.randrange(KEYS)}", size=100)
        else:
            unique = f"unique-{self.rng.randrange(50)}" if self.rng.random() < 0.1 else None
            self._enqueue(
                "work",
                number,
                size=300,
                unique=unique,
                delay="3 hours" if self.rng.random() < 0.1 else None,
                priority=self.rng.choice([0, 0, 0, 1]),
            )

    def _enqueue(
        self,
        queue: str,
        number: int,
        *,
        size: int,
        key: str | None = None,
        unique: str | None = None,
        delay: str | None = None,
        priority: int = 0,
    ) -> None:
        [(job_id, duplicate)] = self.ask(
            "enqueue" if queue == "work" else f"enqueue ({queue})",
            "select job_id, duplicate from pgq.enqueue(%s, key => %s, unique_key => %s,"
            " delay => %s::interval, priority => %s, body => %s)",
            [queue, key, unique, delay, priority, body(number, size)],
        )
        if not duplicate:
            with self.ledger.lock:
                self.ledger.enqueued[queue].add(job_id)


class Worker(Actor):
    """Takes a few jobs of the queue work and ends them one by one, each in its way."""

    rate = 9

    def step(self) -> None:
        jobs = self.ask(
            "claim",
            "select job_id, lease_token, attempt, body from pgq.claim_job('work', 2)",
            otherwise="claim, nothing there",
        )
        self.ledger.claimed("work", [job_id for job_id, *_ in jobs])
        for job_id, token, attempt, text in jobs:
            self.end(job_id, token, attempt, int(text[:DIGITS]))

    def end(self, job_id: int, token: Any, attempt: int, number: int) -> None:
        """Finish the job, fail it, or leave it alone."""
        kind = number % KINDS
        redriven = job_id in self.ledger.redriven
        if (kind == FAILS_ONCE and attempt == 1) or (kind == NEVER_WORKS and not redriven):
            self.ask("nack", "select pgq.nack(%s, %s, error => 'it is to fail')", [job_id, token])
            return
        if kind == DIES_ONCE and attempt == 1:
            self.ledger.done["workers that died"] += 1
            return
        if kind == TAKES_LONG:
            self.ask("extend_lease", "select pgq.extend_lease(%s, %s)", [job_id, token])
        if kind == HAS_EFFECT and not self._effect(job_id, token):
            return
        way, call = (
            ("ack", "select pgq.ack(%s, %s)")
            if number % 2
            else ("archive", "select pgq.archive_job(%s, %s)")
        )
        [(held,)] = self.ask(way, call, [job_id, token])
        if held:
            self.ledger.end("work", [job_id])
        else:
            self.ledger.done["leases lost"] += 1

    def _effect(self, job_id: int, token: Any) -> bool:
        try:
            self.ask("begin_effect", "select * from pgq.begin_effect(%s, %s, 'mail')",
                     [job_id, token])  # fmt: skip
        except psycopg.Error as error:
            if error.sqlstate != "MQ006":
                raise
            self.ledger.done["leases lost"] += 1
            return False
        self.ask("finish_effect", "select pgq.finish_effect(%s, %s, 'mail')", [job_id, token])
        return True


class Mortal(Actor):
    """Connects, takes a job and a name, and goes without a word."""

    rate = 0.5
    produces = True

    def step(self) -> None:
        with psycopg.connect(self.world.dsn, autocommit=True) as connection:
            name = f"mortal-{next(self.ledger.numbers)}"
            connection.execute("select pgq.heartbeat(%s)", [name])
            jobs = connection.execute("select job_id from pgq.claim_job('work')").fetchall()
        self.ledger.claimed("work", [job_id for (job_id,) in jobs])
        self.ledger.done["workers that died"] += len(jobs)


class HouseWorker(Actor):
    """Works on the other queues by turns, on many jobs at once."""

    rate = 20

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.turns = itertools.cycle(OTHERS)
        self.steps = 0

    def step(self) -> None:
        queue = next(self.turns)
        self.steps += 1
        if self.steps % 40 == 0:
            self.ask("heartbeat", "select pgq.heartbeat(%s)", [self.name])
        jobs = self.ask(
            f"claim ({queue})",
            "select job_id, lease_token, body, headers ->> 'scheduled_at',"
            " payload #>> '{}', key from pgq.claim_job(%s, 30)",
            [queue],
            otherwise="claim, nothing there",
        )
        if not jobs:
            return
        self.ledger.claimed(queue, [row[0] for row in jobs])
        ended = {
            row[0]
            for row in self.ask(
                "ack_batch",
                "select * from pgq.ack_batch(%s, %s)",
                [[row[0] for row in jobs], jobs[0][1]],
            )
        }
        self.ledger.done["leases lost"] += len(jobs) - len(ended)
        done = [row for row in jobs if row[0] in ended]
        if queue == "ticks":
            self.ledger.end(queue, ended)
            with self.ledger.lock:
                self.ledger.done["ticks"] += len(done)
                self.ledger.ticks.update((str(row[4]), str(row[3])) for row in done)
            return
        self.ledger.end(queue, ended, [int(row[2][:DIGITS]) for row in done])
        if queue == "ordered":
            for row in done:
                self.ledger.in_turn(str(row[5]), int(row[2][:DIGITS]))


class Redriver(Actor):
    """Looks at the dead letters, and redrives every second one."""

    rate = 1

    def step(self) -> None:
        for job_id, text in self.ask(
            "fetch_dead_letters",
            "select job_id, body from pgq.fetch_dead_letters('work', 1000)",
            otherwise="fetch_dead_letters, nothing there",
        ):
            if int(text[:DIGITS]) // KINDS % 2 and job_id not in self.ledger.redriven:
                self.ledger.redriven.add(job_id)
                self.ask("redrive", "select taken from pgq.redrive('work', %s)", [job_id])
                self.ledger.done["jobs redriven"] += 1
            else:
                self.ledger.hopeless.add(job_id)


def job_actors(world: World) -> list[Actor]:
    """All of them."""
    return [
        Enqueuer(world, "enqueuer"),
        *(Worker(world, f"worker {number}") for number in range(1, 4)),
        HouseWorker(world, "house worker"),
        Mortal(world, "mortals"),
        Redriver(world, "redriver"),
    ]
