"""Processes that do the housekeeping, and what they answer to probes."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from pgq import Client
from support.clock import Clock
from support.command import Run, Start
from support.session import Session
from support.waiting import PATIENCE, wait_until
from support.working import unreachable

ROLE = "pgq_test_may_nothing"

APP = """
import time
from pgq.worker import Handlers

handlers = Handlers()
slow = Handlers()


@handlers.handler("mail")
def handle(payload):
    pass


@slow.handler("mail")
async def hold_up(payload):
    time.sleep(300)
"""


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """A database in which cleanup may be called."""
    return emptied_dsn


@pytest.fixture
def port() -> int:
    """A port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def status(port: int, path: str) -> int | None:
    """What is answered; None: there is nobody yet."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return None


def both(port: int) -> tuple[int | None, int | None]:
    return status(port, "/live"), status(port, "/ready")


def has_cleaned(client: Client, name: str) -> Callable[[], Any]:
    """Whether a process of this name has called cleanup, and waits."""
    return lambda: client.connection.execute(
        "select from pg_stat_activity where application_name = %s and state = 'idle'"
        " and query like '%%cleanup%%' and datname = current_database()",
        [name],
    ).fetchall()


@pytest.mark.slow
def test_alone(dsn: str, client: Client, process: Start, port: int) -> None:
    """It writes what is due, tells how it is while the database is away, and ends at a signal."""
    client.admin.create_queue("mail")
    client.schedules.create_schedule("s", queue="mail", payload=1, every=timedelta(seconds=1))
    running = process("housekeeping", "--health", str(port))
    wait_until(has_cleaned(client, "pgq housekeeping"), PATIENCE)
    wait_until(lambda: client.monitor.queue_stats("mail")[0].ready > 1, PATIENCE)
    assert both(port) == (200, 200)
    assert status(port, "/else") == 404
    with unreachable(client.connection, dsn, "pgq housekeeping"):
        wait_until(lambda: both(port) == (200, 503), PATIENCE)
    wait_until(lambda: both(port) == (200, 200), PATIENCE)
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, out) == (0, b"")
    assert b"housekeeping: connection failed, again in" in err


@pytest.mark.slow
@pytest.mark.parametrize("handlers", ["handlers", "slow"])
def test_beside_jobs(
    client: Client, process: Start, port: int, tmp_path: Path, handlers: str
) -> None:
    """A coroutine that holds up the loop makes the process not live."""
    (tmp_path / "app.py").write_text(APP)
    client.admin.create_queue("mail")
    running = process(
        "work", f"app:{handlers}", "--housekeeping", "--health", str(port), cwd=tmp_path
    )
    wait_until(has_cleaned(client, "pgq worker: housekeeping"), PATIENCE)
    wait_until(lambda: both(port) == (200, 200), PATIENCE)
    client.enqueue("mail", 1)
    if handlers == "slow":
        wait_until(lambda: status(port, "/live") == 503, PATIENCE)
        return
    wait_until(lambda: client.jobs.archived_jobs("mail"), PATIENCE)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=PATIENCE)
    assert running.returncode == 0


def test_once(client: Client, pgq: Run, emptied_clock: Clock) -> None:
    client.admin.create_queue("mail")
    client.schedules.create_schedule("s", queue="mail", payload=1, every=timedelta(days=1))
    emptied_clock.advance("1 day")
    assert pgq("housekeeping", "--once").status == 0
    assert client.monitor.queue_stats("mail")[0].ready == 1


@pytest.fixture
def nothing(connection: Session) -> Iterator[str]:
    """A role without rights."""
    connection.execute(f"create role {ROLE}")
    yield ROLE
    connection.execute(f"drop owned by {ROLE}")
    connection.execute(f"drop role {ROLE}")


def test_once_without_the_right(
    pgq: Run, connection: Session, nothing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grant that it names is all that it needs."""
    monkeypatch.setenv("PGOPTIONS", f"-c role={nothing}")
    done = pgq("housekeeping", "--once")
    assert done.status == 1
    assert done.err.startswith("pgq: permission denied for schema pgq; HINT: grant usage on ")
    assert len(done.err.splitlines()) == 1
    connection.execute(f"grant usage on schema pgq to {nothing}".encode())
    done = pgq("housekeeping", "--once")
    grant = "grant execute on function pgq.cleanup, pgq.run_schedules, pgq.next_run to"
    assert done.err.endswith(f"; HINT: {grant} {nothing};\n")
    connection.execute(done.err.partition("HINT: ")[2].encode())
    assert pgq("housekeeping", "--once").status == 0


@pytest.mark.slow
def test_without_the_right(
    client: Client,
    process: Start,
    connection: Session,
    emptied_clock: Clock,
    nothing: str,
    port: int,
) -> None:
    """It says so with the grant that it needs, is not ready, and goes on."""
    client.heartbeat(
        "gone", kind="worker", host="h", pid=1, sources=["mail"],
        started_at=datetime.now(timezone.utc), running=0,
    )  # fmt: skip
    emptied_clock.advance("2 days")
    options = {"PGOPTIONS": f"-c role={nothing}"}
    running = process("housekeeping", "--health", str(port), env=options)
    for part in (b"schedules", b"cleanup"):
        line = running.stderr.readline()
        assert b"ERROR housekeeping: %s failed, again in" % part in line
        grant = line.partition(b"; HINT: ")[2]
        assert b"pgq.cleanup, pgq.run_schedules, pgq.next_run to" in grant
    assert client.monitor.list_workers()
    assert both(port) == (200, 503)
    connection.execute(grant)
    wait_until(lambda: both(port) == (200, 200), PATIENCE)
    wait_until(lambda: client.monitor.list_workers() == [], PATIENCE)
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0


@pytest.mark.slow
def test_without_the_right_to_ticks(
    process: Start, connection: Session, emptied_clock: Clock, nothing: str, port: int
) -> None:
    """It is told though no tick is due."""
    connection.execute(f"grant usage on schema pgq to {nothing}")
    connection.execute(f"grant execute on function pgq.cleanup, pgq.next_run to {nothing}")
    options = {"PGOPTIONS": f"-c role={nothing}"}
    running = process("housekeeping", "--health", str(port), env=options)
    line = running.stderr.readline()
    assert b"permission denied for function run_schedules; HINT: grant execute on" in line
    assert both(port) == (200, 503)
    connection.execute(line.partition(b"; HINT: ")[2])
    wait_until(lambda: both(port) == (200, 200), PATIENCE)
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0


def test_a_port_that_is_taken(pgq: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = pgq("housekeeping", "--health", str(port))
    assert done.status == 1
    assert f"port {port} is taken" in done.err
    assert len(done.err.splitlines()) == 1
