"""A crowd of programs that are killed with -9 over and over, or whose server crashes under them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg

from pgq.embedded import Server
from support.waiting import wait_until

__all__ = ["KILLS", "Crowd", "crowd"]

KILLS = ["client", "backend", "server"]
"""What is killed with -9: a program, its server process (the others crash, too), all of them."""

# A program defines work(connection), which is called for ever, and commits what shall stay. What
# the server does for one that is dead ends within some milliseconds, in the middle of a call.
FRAME = """
import random, sys, time
import psycopg

dsn, seed = sys.argv[1:]
rng = random.Random(seed)
options = "-c client_connection_check_interval=2ms -c application_name=pgq_test_crowd"
{program}
while True:
    try:
        with psycopg.connect(dsn, options=options) as connection:
            while True:
                work(connection)
    except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction):
        time.sleep(0.05)
"""


class Crowd:
    """Programs at work; ``kill`` kills what the test asks for, and all of them go on."""

    def __init__(self, dsn: str, programs: list[str], server: Server | None) -> None:
        self._dsn = dsn
        self._server = server
        self._seeds = count(1)
        self._rng = random.Random(20261122)
        self._running = [(program, self._start(program)) for program in programs]

    def _start(self, program: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                FRAME.format(program=program),
                self._dsn,
                str(next(self._seeds)),
            ]
        )

    def kill(self, what: str) -> None:
        """Kill something at random; whoever was killed comes back."""
        for _, process in self._running:
            assert process.poll() is None, "a program has ended by itself"
        if what == "server":
            assert self._server is not None
            self._server.kill()
            self._server.restart()
        elif what == "backend":
            os.kill(wait_until(lambda: self._asked(self._some_backend)), signal.SIGKILL)
        else:
            place = self._rng.randrange(len(self._running))
            program, process = self._running[place]
            process.kill()
            process.wait()
            self._running[place] = program, self._start(program)

    def _asked(self, question: Callable[[psycopg.Connection[Any]], int]) -> int:
        """The answer, as soon as the server is there: it may be about to notice a kill."""

        def answer() -> tuple[int] | None:
            try:
                with psycopg.connect(self._dsn) as connection:
                    return (question(connection),)
            except psycopg.OperationalError:
                return None

        found = wait_until(answer, 60, "for the recovery")
        assert found is not None
        return found[0]

    def _some_backend(self, connection: psycopg.Connection[Any]) -> int:
        """One that is at work, or 0."""
        found = connection.execute(
            "select pid from pg_stat_activity"
            " where application_name = 'pgq_test_crowd' and state = 'active'"
        ).fetchall()
        return int(self._rng.choice(found)[0]) if found else 0

    def stop(self) -> None:
        """Kill all programs, and wait until none of them is at work any more in the server."""
        for _, process in self._running:
            process.kill()
            process.wait()

        def left(connection: psycopg.Connection[Any]) -> int:
            [(number,)] = connection.execute(
                "select count(*) from pg_stat_activity where application_name = 'pgq_test_crowd'"
            ).fetchall()
            return int(number)

        wait_until(lambda: self._asked(left) == 0, 60, "for the programs' sessions to end")

    def over_kills(
        self, what: str, kills: int, done: Callable[[psycopg.Connection[Any]], int], step: int
    ) -> None:
        """Kill so many times, each time when ``done`` has grown by a step."""
        for _ in range(kills):
            enough = self._asked(done) + step
            wait_until(lambda: self._asked(done) >= enough, 300, "for work to be done")  # noqa: B023
            self.kill(what)


@contextmanager
def crowd(dsn: str, programs: list[str], server: Server | None = None) -> Iterator[Crowd]:
    """Start the programs; those that run at the end are killed."""
    running = Crowd(dsn, programs, server)
    try:
        yield running
    finally:
        running.stop()
