"""A server that is killed with -9 under load: who repeats a call with its key has done it once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server
from support.house import install_script
from support.keys import KINDS, Target, new_target
from support.session import Session
from support.waiting import aside, wait_until

StartServer = Callable[..., Server]

SESSIONS = 4


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_there_once(start_server: StartServer, kind: str) -> None:
    """Each session goes on with the call that the crash has interrupted."""
    server = start_server()
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        target = new_target(connection, kind)

    answers: dict[str, Any] = {}
    duplicates: set[str] = set()
    numbers = [itertools.count() for _ in range(SESSIONS)]
    pending: list[int | None] = [None] * SESSIONS
    lock = threading.Lock()

    def write(session: Session, place: int) -> None:
        if pending[place] is None:
            pending[place] = next(numbers[place])
        number = pending[place]
        assert number is not None
        key = f"{place}/{number}"
        if number % 5 == 0:
            found = _batch(target, session, key)
        else:
            found = target.write(session, key, number)
        with lock:
            answers[key] = found[0]
            if found[1]:
                duplicates.add(key)
        pending[place] = None

    def until_the_crash(place: int) -> None:
        try:
            with Session.connect(server.dsn, autocommit=True) as session:
                while True:
                    write(session, place)
        except psycopg.OperationalError:
            return

    for _ in range(2):
        threads = [aside(lambda place=place: until_the_crash(place)) for place in range(SESSIONS)]
        before = len(answers)
        wait_until(lambda n=before: len(answers) > n + 200, 60)
        server.kill()
        for thread in threads:
            thread.result(60)
        server.restart()

    with Session.connect(server.dsn, autocommit=True) as session:
        for place in range(SESSIONS):
            if pending[place] is not None:
                write(session, place)
        for key, answer in answers.items():
            assert target.write(session, key, 1) == (answer, True)
        assert len(target.stored(session)) == len(answers) + len(
            [key for key in answers if int(key.partition("/")[2]) % 5 == 0]
        )


def _batch(target: Target, session: Session, key: str) -> tuple[Any, bool]:
    """A batch of two, of which the second one has a key of its own; the answer for the first."""
    rows = target.write_batch(session, [key, f"{key} and more"])
    first = rows[0]
    place = (first.job_id,) if target.kind == "queue" else (first.partition, first.first_offset)
    return place, first.duplicate
