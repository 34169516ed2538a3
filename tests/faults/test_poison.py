"""Members of a group that are killed with -9, over and over, by one message of a batch."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from support.clock import Clock
from support.poison import dead_letters, new_pair
from support.session import Connect, Session, row
from support.waiting import wait_until

# Works until it comes to the message that kills it, or to the end of what there is.
MEMBER = """
import os, signal, sys
import psycopg

dsn, topic, mode, poison = sys.argv[1:]
connection = psycopg.connect(dsn, autocommit=mode == "autocommit")
connection.execute("set application_name = 'pgq_test_victim'")
while True:
    rows = connection.execute(
        "select partition, log_offset, payload, lease_token from pgq.poll(%s, 'readers', 10)",
        [topic],
    ).fetchall()
    if not rows:
        break
    for partition, log_offset, payload, token in rows:
        if str(payload) == poison:
            os.kill(os.getpid(), signal.SIGKILL)
        connection.execute("insert into public.processed (number) values (%s)", [payload])
    connection.execute(
        "select pgq.commit_offset(%s, 'readers', %s, %s, %s)", [topic, partition, log_offset, token]
    )
connection.commit()
"""


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    connection = shared_connect(autocommit=True)
    connection.execute("drop table if exists public.processed")
    connection.execute("create table public.processed (number integer)")
    return connection


def run(dsn: str, topic: str, mode: str, poison: int) -> bool:
    """Whether a member came to the end."""
    ended = subprocess.run(
        [sys.executable, "-c", MEMBER, dsn, topic, mode, str(poison)], check=False, timeout=120
    )
    assert ended.returncode in (0, -9)
    return ended.returncode == 0


def gone(connection: Session) -> bool:
    """Whether the server has noticed that the victims are dead."""
    return row(
        connection,
        "select count(*) from pg_stat_activity where application_name = 'pgq_test_victim'",
    ) == (0,)


def test_a_message_that_kills(shared_dsn: str, connection: Session, shared_clock: Clock) -> None:
    """It kills two by two; then it is in the dead-letter topic, and all others are processed."""
    topic, dead = new_pair(connection, messages=25, max_attempts=2)
    killed = 0
    while not run(shared_dsn, topic, "autocommit", 14):
        killed += 1
        wait_until(lambda: gone(connection))
        shared_clock.advance("31 seconds")
    assert killed == 4
    [letter] = dead_letters(connection, dead)
    assert (letter.payload, letter.headers["pgq_offset"]) == (14, 14)
    assert letter.headers["pgq_error"] == "the lease of the last attempt ran out"
    found = connection.execute("select number from public.processed").fetchall()
    done = Counter(number for (number,) in found)
    assert set(done) == {n for n in range(1, 26) if n != 14}
    # at least once: what stood before it in the batch came again
    assert {number for number, times in done.items() if times > 1} == {11, 12, 13}


def test_killed_in_the_transaction_that_gives_it_up(
    shared_dsn: str, connection: Session, shared_clock: Clock
) -> None:
    """Then it has not happened, and the next claim does it."""
    topic, dead = new_pair(connection, messages=2, max_attempts=1)
    connection.poll(topic=topic, consumer_group="readers", max_messages=1)
    shared_clock.advance("31 seconds")
    # it polls the second message in a transaction, and dies of it
    assert run(shared_dsn, topic, "transaction", 2) is False
    wait_until(lambda: gone(connection))
    assert dead_letters(connection, dead) == []
    assert run(shared_dsn, topic, "autocommit", 0) is True
    assert [letter.payload for letter in dead_letters(connection, dead)] == [1]
    assert row(connection, "select array_agg(number) from public.processed") == ([2],)
