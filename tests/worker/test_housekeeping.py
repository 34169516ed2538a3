"""Workers that call cleanup beside their jobs; what they do for schedules has tests of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq._runtime._async import _housekeeping as in_tasks
from pgq._runtime._sync import _housekeeping as in_threads
from pgq.worker import AsyncWorker, Worker
from pgq.worker._grants import EXECUTE
from support.clock import Clock
from support.waiting import PATIENCE, wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]

ROLE = "pgq_test_no_housekeeping"


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """A database in which cleanup may be called."""
    return emptied_dsn


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", notify=True)
    return client


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute is short."""
    for module in (in_tasks, in_threads):
        monkeypatch.setattr(module, "EVERY", 0.05)


def leave_behind(client: Client, clock: Clock) -> Callable[[], bool]:
    """Have something that cleanup removes; the answer says whether it is gone."""
    client.heartbeat(
        "gone", kind="worker", host="h", pid=1, sources=["mail"],
        started_at=datetime.now(timezone.utc), running=0,
    )  # fmt: skip
    clock.advance("2 days")
    return lambda: not client.connection.execute("select from pgq.worker where worker = 'gone'"
    ).fetchall()  # fmt: skip


@pytest.mark.usefixtures("hurried")
def test_cleanup(
    dsn: str, client: Client, kind: Kind, as_handler: As, emptied_clock: Clock, caplog: Any
) -> None:
    """Again and again, by two at once, which do each other no harm."""

    def new_worker() -> Worker | AsyncWorker:
        worker = kind(dsn, heartbeat=None, housekeeping=True)
        worker.handler("mail")(as_handler(lambda payload: None))
        return worker

    with working(new_worker()), working(new_worker()):
        for _ in range(3):
            wait_until(leave_behind(client, emptied_clock), PATIENCE)
    assert "housekeeping" not in caplog.text


def test_without_it(
    dsn: str, client: Client, kind: Kind, as_handler: As, emptied_clock: Clock
) -> None:
    is_gone = leave_behind(client, emptied_clock)
    worker = kind(dsn, heartbeat=None)
    worker.handler("mail")(as_handler(lambda payload: None))
    with working(worker):
        client.enqueue("mail", 1)
        wait_until(lambda: client.jobs.archived_jobs("mail"), PATIENCE)
        assert not is_gone()
    assert client.admin.cleanup()
    assert is_gone()


@pytest.fixture
def lacking(client: Client) -> Iterator[str]:
    """A role that may do jobs and run schedules, and not clean up."""
    try:
        client.connection.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    client.connection.execute(f"grant usage on schema pgq to {ROLE}")
    for function in (*EXECUTE, "run_schedules"):
        client.connection.execute(f"grant execute on function pgq.{function} to {ROLE}")
    yield ROLE
    client.connection.execute(f"drop owned by {ROLE}")
    client.connection.execute(f"drop role {ROLE}")


@pytest.mark.usefixtures("hurried")
def test_a_role_that_may_not(
    dsn: str, client: Client, kind: Kind, as_handler: As, lacking: str, caplog: Any
) -> None:
    """It says so once; jobs and schedules go on, though it may not ask for the next tick either."""
    client.schedules.create_schedule("s", queue="mail", payload="tick", every=timedelta(seconds=1))
    options = {"options": f"-c role={lacking}"}
    worker = kind(dsn, poll=0.05, heartbeat=None, housekeeping=True, connect=options)
    worker.handler("mail")(as_handler(lambda payload: None))
    with working(worker):
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) > 2, PATIENCE)
        client.enqueue("mail", "job")
        wait_until(
            lambda: "job" in [job.payload for job in client.jobs.archived_jobs("mail")], PATIENCE
        )
    said = [one for one in caplog.messages if one.startswith("housekeeping: ")]
    assert len(said) == 1
    assert said[0].startswith("housekeeping: cleanup failed, again in ")
    text, _, grant = said[0].partition("; HINT: ")
    assert text.endswith("permission denied for function cleanup")
    assert grant == f"grant execute on function pgq.cleanup, pgq.next_run to {lacking};"


def test_a_tick_at_its_time(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """The worker sleeps until one is due, and asks nothing before."""
    ahead = datetime.now(timezone.utc) + timedelta(seconds=4)
    client.schedules.create_schedule(
        "s", queue="mail", payload="tick", every=timedelta(hours=1), starts_at=ahead
    )
    began: list[datetime] = []
    worker = kind(dsn, poll=600, heartbeat=None, housekeeping=True)
    worker.handler("mail")(as_handler(lambda payload: began.append(datetime.now(timezone.utc))))
    asked = (
        "select query_start from pg_stat_activity where datname = current_database()"
        " and application_name = 'pgq worker: housekeeping' and query like '%cleanup%'"
        " and state = 'idle'"
    )
    with working(worker):
        before = wait_until(lambda: client.connection.execute(asked).fetchall(), PATIENCE)
        time.sleep(1.0)
        assert client.connection.execute(asked).fetchall() == before
        wait_until(lambda: began, PATIENCE)
    assert -0.5 < (began[0] - ahead).total_seconds() < 2.0
