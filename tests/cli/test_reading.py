"""consume, tail and peek: what is shown, and what is moved."""

from __future__ import annotations

import signal
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import IO, cast

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq import Client
from support.command import Run, Start
from support.filters import fill, meant
from support.session import Session
from support.waiting import PATIENCE, wait_until


@pytest.fixture
def orders(client: Client) -> Client:
    """A topic of two partitions with ten messages in turn, and a group."""
    client.admin.create_topic("orders", partitions=2, notify=True)
    client.admin.create_group("orders", "billing")
    for number in range(1, 11):
        client.publish("orders", number, partition=number % 2, headers={"n": number})
    return client


def lag(client: Client) -> int:
    return sum(row.lag for row in client.monitor.group_lag("orders"))


def test_consume(pgq: Run, orders: Client) -> None:
    first = pgq("consume", "orders", "billing", "--limit", "3", "--partition", "0", "--json")
    assert [row["payload"] for row in first.json_lines] == [2, 4, 6]
    assert first.json_lines[0]["headers"] == {"n": 2}
    assert lag(orders) == 7
    rest = pgq("consume", "orders", "billing", "--batch", "2", "--payloads")
    assert sorted(rest.lines, key=int) == ["1", "3", "5", "7", "8", "9", "10"]
    assert lag(orders) == 0
    assert pgq("consume", "orders", "billing").out == ""
    orders.publish("orders", 11, partition=1, key="k\x1b[31m")
    [line] = pgq("consume", "orders", "billing", "--partition", "1").lines
    assert line.startswith("1:6  ")
    assert line.endswith("  k\\x1b[31m  11")


@pytest.mark.slow
def test_what_nobody_reads_is_not_consumed(orders: Client, process: Start) -> None:
    """More than a pipe holds: the reader takes one line, and closes its end."""
    orders.publish_batch("orders", ["x" * 1000] * 500, partition=0)
    running = process("consume", "orders", "billing", "--partition", "0", "--batch", "50")
    out = cast("IO[bytes]", running.stdout)
    assert out.readline().startswith(b"0:1 ")
    out.close()
    assert running.wait(PATIENCE) == 141
    assert cast("IO[bytes]", running.stderr).read() == b""
    left = orders.monitor.group_lag("orders", "billing")[0].lag
    # of what was printed some is consumed, and nothing else
    assert 505 - 200 < left <= 505


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_what_cannot_be_written_is_not_consumed(orders: Client, process: Start) -> None:
    with Path("/dev/full").open("wb") as full:
        running = process("consume", "orders", "billing", stdout=full)
        _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert b"No space left on device" in err
    assert len(err.splitlines()) == 1
    assert lag(orders) == 10


@pytest.mark.slow
def test_a_closed_output(orders: Client, dsn: str, process: Start) -> None:
    command = f'"$0" -m pgq consume orders billing --database "{dsn}" >&-'
    import sys

    done = subprocess.run(
        ["sh", "-c", command, sys.executable], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the standard output is closed: nothing was consumed" in done.stderr
    assert lag(orders) == 10


@pytest.mark.slow
def test_following(orders: Client, process: Start, connection: Session) -> None:
    tailing = process("tail", "orders", "-n", "1", "-f", "--payloads", "--partition", "0")
    following = process("consume", "orders", "billing", "--follow", "--payloads")
    try:
        seen = [int(following.stdout.readline()) for _ in range(10)]
        assert sorted(seen) == list(range(1, 11))
        assert tailing.stdout.readline() == b"10\n"
        orders.publish("orders", 12, partition=0)
        assert tailing.stdout.readline() == b"12\n"
        assert following.stdout.readline() == b"12\n"
        wait_until(lambda: lag(orders) == 0, PATIENCE)
    finally:
        for running in (tailing, following):
            running.send_signal(signal.SIGINT)
            assert running.wait(PATIENCE) == 130
            assert running.stderr.read() == b""


def test_tail(pgq: Run, orders: Client) -> None:
    assert [row["payload"] for row in pgq("tail", "orders", "--json").json_lines] == [*range(1, 11)]
    assert pgq("tail", "orders", "-n", "3", "--payloads").lines == ["8", "9", "10"]
    assert pgq("tail", "orders", "-n", "0").out == ""
    only = pgq("tail", "orders", "-n", "2", "--partition", "1", "--payloads")
    assert only.lines == ["7", "9"]
    assert pgq("tail", "orders", "--partition", "2").status == 1
    moment = orders.bulk.fetch_range("orders", 0, 4, 4)[0].published_at
    assert sorted(
        pgq("tail", "orders", "--since", moment.isoformat(), "--payloads").lines, key=int
    ) == ["8", "9", "10"]
    assert pgq("tail", "orders", "--since", "1 day ago", "--payloads").out.count("\n") == 10
    assert pgq("tail", "orders", "--since", "now").out == ""
    assert lag(orders) == 10


def test_tail_looks_back_as_far_as_needed_for_a_key(pgq: Run, orders: Client) -> None:
    orders.publish("orders", "a", key="k", partition=0)
    orders.publish_batch("orders", ["x"] * 1200, partition=0)
    orders.publish("orders", "b", key="k", partition=1)
    assert pgq("tail", "orders", "--key", "k", "--payloads").lines == ['"a"', '"b"']
    assert pgq("tail", "orders", "--key", "k", "-n", "1", "--payloads").lines == ['"b"']
    assert pgq("tail", "orders", "--key", "K").out == ""
    since = pgq("tail", "orders", "--since", "1h ago", "--key", "k", "--payloads")
    assert since.lines == ['"a"', '"b"']
    assert pgq("tail", "orders", "-n", "5000", "--payloads").out.count("\n") == 1212


def test_tail_of_a_deferred_topic(pgq: Run, client: Client) -> None:
    client.admin.create_topic("late", deferred=True, partitions=1)
    client.publish("late", "x")
    assert pgq("tail", "late", "--payloads").lines == ['"x"']


def test_a_body_is_bytes(pgq: Run, client: Client) -> None:
    client.admin.create_topic("orders", partitions=1)
    client.publish("orders", body=b"\x00\x1b[2J")
    client.publish("orders", body=b"\xff")
    shown = pgq("tail", "orders").lines
    assert [line.split()[-1] for line in shown] == [r"\x00\x1b[2J", r"\xff"]
    assert [row["body"] for row in pgq("tail", "orders", "--json").json_lines] == [
        r"\x001b5b324a",
        r"\xff",
    ]


def test_peek(pgq: Run, client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1, backoff_jitter=0)
    client.enqueue_batch("mail", ["dead", "leased", "ready"])
    [dead] = client.claim_job("mail")
    client.nack(dead.job_id, dead.lease_token, error="no such\naddress")
    client.claim_job("mail")
    client.enqueue("mail", "later", delay=timedelta(hours=1))
    states = {row["payload"]: row["state"] for row in pgq("peek", "mail", "--json").json_lines}
    assert states == {"leased": "leased", "ready": "ready", "later": "delayed"}
    for state in ("ready", "leased"):
        [row] = pgq("peek", "mail", "--state", state, "--json").json_lines
        assert (row["payload"], row["state"]) == (state, state)
    assert '"ready"' in pgq("peek", "mail", "--state", "ready").out
    letters = pgq("peek", "mail", "--state", "dead").out
    assert r"no such\naddress" in letters
    assert pgq("peek", "mail", "--state", "rotten").status == 2
    assert pgq("peek", "mail", "-n", "1").out.count("\n") == 3
    # nothing was claimed
    [stats] = client.monitor.queue_stats("mail")
    assert (stats.ready, stats.leased, stats.delayed, stats.dead) == (1, 1, 1, 1)


def test_json_that_python_cannot_read(
    pgq: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown exactly, whatever the encoding of the terminal's client is."""
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    text = f'{{"n": ["ä", {"1" * 5001}]}}'
    exact = Jsonb(text, dumps=str)
    client.admin.create_topic("t", partitions=1)
    client.admin.create_group("t", "g")
    client.publish("t", exact, headers=exact)  # type: ignore[arg-type]
    client.admin.create_queue("mail")
    client.enqueue("mail", exact)
    assert pgq("tail", "t", "--payloads").lines == [text]
    assert pgq("peek", "mail", "--json").out.count(text) == 1
    assert pgq("peek", "mail").out.count("1" * 5001) == 1
    shown = pgq("consume", "t", "g", "--json").out
    assert shown.count(f'"payload": {text}') == shown.count(f'"headers": {text}') == 1
    assert client.monitor.group_lag("t")[0].lag == 0


def test_peek_at_a_group(pgq: Run, orders: Client) -> None:
    rows = pgq("peek", "--topic", "orders", "--group", "billing", "-n", "2", "--json").json_lines
    assert [row["payload"] for row in rows] == [2, 4]
    assert lag(orders) == 10
    for arguments in (["mail", "--topic", "orders", "--group", "g"], [], ["--topic", "orders"]):
        assert "say a QUEUE, or --topic and --group" in pgq("peek", *arguments).err


@pytest.mark.slow
def test_a_purge_of_more_than_one_call_looks_at(pgq: Run, connection: Session) -> None:
    queue, other = fill(connection, "purge_queue", 22_000)
    gone = pgq("purge", queue, "--before", "2999-01-01", "--yes", "--json")
    assert gone.json["removed"] == 11_000
    assert len(meant(connection, "purge_queue", other)) == 11_000


@pytest.mark.slow
def test_a_server_that_goes_away_is_one_line(orders: Client, process: Start) -> None:
    running = process("consume", "orders", "billing", "--follow")
    for _ in range(10):
        running.stdout.readline()
    watcher = orders.connection
    wait_until(lambda: _end(watcher), PATIENCE)
    assert running.wait(PATIENCE) == 1
    told = running.stderr.read().decode()
    assert told.startswith("pgq: ")
    assert len(told.splitlines()) == 1


def _end(connection: psycopg.Connection[object]) -> bool:
    return bool(
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'pgq' and datname = current_database() and state = 'idle'"
        ).fetchall()
    )
