"""What only a process of its own shows: signals, pipes, lost connections, encodings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from pgq import Client
from support.command import PGQ, Start
from support.session import Connect, Session
from support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def orders(client: Client) -> Client:
    client.admin.create_topic("orders", partitions=1)
    return client


def stored(client: Client) -> int:
    return client.bulk.list_offsets("orders")[0].last_offset


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
        assert err == b"pgq: interrupted; lines up to 3 are stored, none after it\n"
    else:
        assert out == b'stored 2 in topic "orders"\n'
        assert err == (
            b"pgq: interrupted; lines up to 2 are stored;"
            b" whether lines 3 to 3 are stored is not known\n"
        )
    assert stored(orders) == 3


def end_session(client: Client) -> None:
    """End the session of the command."""
    ended = client.connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'pgq' and datname = current_database()"
    ).fetchall()
    assert ended == [(True,)]


@pytest.fixture
def hold_commits(
    orders: Client, connection: Session, connect: Connect
) -> Iterator[Callable[[str], None]]:
    """Have commits wait that store messages; says what a commit does that is cancelled then."""

    def hold(when_cancelled: str) -> None:
        connection.execute(
            "create function public.hold() returns trigger language plpgsql as $$ begin"
            " perform pg_advisory_xact_lock(7); return null;"
            f" exception when query_canceled then {when_cancelled}; return null; end $$"
        )
        [(leaf,)] = connection.execute("select segment from pgq.partition where partition = 0")
        connection.execute(
            f"create constraint trigger hold after insert on pgq.message_{leaf}"
            " initially deferred for each row execute function public.hold()"
        )
        holder.execute("select pg_advisory_lock(7)")

    holder = connect()
    yield hold
    holder.close()
    connection.execute("drop function if exists public.hold cascade")


@pytest.mark.parametrize("way", ["interrupted", "interrupted and stored", "lost"])
def test_a_commit_of_all_or_none_that_is_cut_off(
    orders: Client, hold_commits: Callable[[str], None], process: Start, way: str
) -> None:
    """An interrupt cancels what goes on, and some of that ends well all the same."""
    hold_commits("null" if way == "interrupted and stored" else "raise")
    running = process(
        "publish", "orders", "--format", "values", "--all-or-none", stdin=subprocess.PIPE
    )
    running.stdin.write(b"1\n")
    running.stdin.close()
    running.stdin = None
    wait_until(
        lambda: (
            orders.connection.execute(
                "select from pg_stat_activity where query = 'COMMIT' and wait_event = 'advisory'"
                " and application_name = 'pgq' and datname = current_database()"
            ).fetchone()
            is not None
        ),
        PATIENCE,
    )
    if way == "lost":
        end_session(orders)
    else:
        running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == (1 if way == "lost" else 130)
    assert out == b'stored 0 in topic "orders"\n'
    assert err.endswith(b"; whether it was stored is not known\n")
    assert (way == "lost") == (b"interrupted" not in err)
    assert stored(orders) == (1 if way == "interrupted and stored" else 0)


@pytest.mark.parametrize("way", ["interrupted", "lost"])
def test_all_or_none_that_is_cut_off_before_its_commit(
    orders: Client, process: Start, way: str
) -> None:
    running = process(
        *("publish", "orders", "--format", "values", "--all-or-none", "--batch", "1"),
        stdin=subprocess.PIPE,
    )
    running.stdin.write(b"1\n")
    running.stdin.flush()
    wait_until(
        lambda: (
            orders.connection.execute(
                "select from pg_stat_activity where state = 'idle in transaction'"
                " and query ~* '^release' and application_name = 'pgq'"
                " and datname = current_database()"
            ).fetchone()
            is not None
        ),
        PATIENCE,
    )
    if way == "lost":
        end_session(orders)
    else:
        running.send_signal(signal.SIGINT)
    out, err = running.communicate(b"2\n", timeout=PATIENCE)
    assert running.returncode == (1 if way == "lost" else 130)
    assert out == b'stored 0 in topic "orders"\n'
    assert err.endswith(b"; nothing was stored\n")
    assert stored(orders) == 0


def test_a_lost_connection_says_what_is_not_known(orders: Client, process: Start) -> None:
    running = process("publish", "orders", "--format", "values", stdin=subprocess.PIPE)
    running.stdin.write(b"1\n2\n")
    running.stdin.flush()
    wait_until(lambda: stored(orders) == 2, PATIENCE)
    end_session(orders)
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
    client.admin.create_topic("copies", partitions=1)
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
    first = client.bulk.fetch_range("orders", 0, 1, 1500)
    second = client.bulk.fetch_range("copies", 0, 1, 1500)
    assert [(m.payload, m.key) for m in first] == [(m.payload, m.key) for m in second]
