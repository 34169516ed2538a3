"""What only a process of its own shows: signals, pipes, lost connections, encodings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pgq import Client
from support.command import PGQ, Start
from support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def orders(client: Client) -> Client:
    client.create_topic("orders", partitions=1)
    return client


def stored(client: Client) -> int:
    return client.list_offsets("orders")[0].last_offset


def test_an_interrupted_publish_says_what_is_stored(orders: Client, process: Start) -> None:
    running = process("publish", "orders", "--format", "values", stdin=subprocess.PIPE)
    running.stdin.write(b"1\n2\n")
    running.stdin.flush()
    wait_until(lambda: stored(orders) == 2, PATIENCE)
    running.stdin.write(b"3\n")
    running.stdin.flush()
    wait_until(lambda: stored(orders) == 3, PATIENCE)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    # the signal may come before the answer to the commit that others see already
    if out == b'stored 3 in topic "orders"\n':
        assert err == b"pgq: interrupted; lines up to 3 are stored, none behind it\n"
    else:
        assert out == b'stored 2 in topic "orders"\n'
        assert err == (
            b"pgq: interrupted; lines up to 2 are stored;"
            b" whether lines 3 to 3 are stored is not known\n"
        )
    assert stored(orders) == 3


def test_a_lost_connection_says_what_is_not_known(orders: Client, process: Start) -> None:
    running = process("publish", "orders", "--format", "values", stdin=subprocess.PIPE)
    running.stdin.write(b"1\n2\n")
    running.stdin.flush()
    wait_until(lambda: stored(orders) == 2, PATIENCE)
    ended = orders.connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'pgq' and datname = current_database()"
    ).fetchall()
    assert ended == [(True,)]
    out, err = running.communicate(b"3\n4\n", timeout=PATIENCE)
    assert running.returncode == 1
    assert out == b'stored 2 in topic "orders"\n'
    told = err.decode()
    assert told.endswith(
        "; lines up to 2 are stored; whether lines 3 to 4 are stored is not known\n"
    )
    assert len(told.splitlines()) == 1
    assert stored(orders) == 2


def test_an_output_that_has_few_letters(orders: Client, dsn: str) -> None:
    orders.publish("orders", "Grüße …", key="ключ")
    for command in (["topics", "list"], ["tail", "orders"], ["doctor"], ["--help"]):
        done = subprocess.run(
            [*PGQ, *command],
            env={**os.environ, "DATABASE_URL": dsn, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=False,
        )
        assert done.returncode in (0, 1)
        assert b"mistake" not in done.stderr
        assert command == ["--help"] or done.stdout.isascii()


def test_a_pipe_from_tail_to_publish(orders: Client, client: Client, dsn: str) -> None:
    client.create_topic("copies", partitions=1)
    orders.publish_batch("orders", [{"n": n} for n in range(1500)], keys=["k"] * 1500)
    done = subprocess.run(
        [
            "sh",
            "-c",
            '"$0" -m pgq tail orders -n 5000 --json | "$0" -m pgq publish copies --json',
            sys.executable,
        ],
        env={**os.environ, "DATABASE_URL": dsn},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"stored": 1500' in done.stdout
    first = client.fetch_range("orders", 0, 1, 1500)
    second = client.fetch_range("copies", 0, 1, 1500)
    assert [(m.payload, m.key) for m in first] == [(m.payload, m.key) for m in second]
