"""A right that is revoked while a worker runs: it claims nothing until it has it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.__main__ import main
from pgq.worker import AsyncWorker, Worker
from pgq.worker._grants import EXECUTE
from support.clock import Clock
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]
ROLE = "pgq_test_revoked"
JOBS = 6
SLOTS = 2
ALL = ", ".join(f"pgq.{name}" for name in EXECUTE)


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=3, backoff=0)
    client.admin.create_queue("kept", max_attempts=3, backoff=0, keep_results=True)
    return client


@pytest.fixture(autouse=True)
def role(client: Client) -> Iterator[None]:
    """It may do what workers need."""
    try:
        client.connection.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    client.connection.execute(f"grant usage on schema pgq to {ROLE}")
    client.connection.execute(f"grant execute on function {ALL} to {ROLE}".encode())
    yield
    client.connection.execute(f"drop owned by {ROLE}")
    client.connection.execute(f"drop role {ROLE}")


def looks(client: Client) -> Callable[[], int]:
    """How often a slot of the worker has asked for its rights since."""
    seen: set[Any] = set()
    asked = (
        "select query_start from pg_stat_activity where application_name = 'pgq worker'"
        " and datname = current_database() and query like '%has_schema_privilege%'"
    )

    def count() -> int:
        seen.update(client.connection.execute(asked).fetchall())
        return len(seen)

    return count


RESULTS = "execute on function pgq.archive_job, pgq.archive_job_batch"
REVOKED = {
    "the schema": ("mail", "usage on schema pgq", {}),
    "finishing": ("mail", "execute on function pgq.finish_and_claim, pgq.ack_batch", {}),
    "failing": ("mail", "execute on function pgq.nack", {}),
    "results": ("kept", RESULTS, {}),
    "results of batches": ("kept", RESULTS, {"batch": 2}),
}


@pytest.mark.parametrize(("queue", "right", "settings"), REVOKED.values(), ids=[*REVOKED])
def test_it_waits_for_the_grant(
    dsn: str,
    client: Client,
    clock: Clock,
    kind: Kind,
    as_handler: As,
    caplog: pytest.LogCaptureFixture,
    queue: str,
    right: str,
    settings: Any,
) -> None:
    """No job loses more than one attempt, though its lease runs out again and again."""
    caplog.set_level("INFO", "pgq.worker")
    ids = [client.enqueue(queue, number).job_id for number in range(JOBS)]
    revoked: list[Any] = []

    def handle(payload: Any, job: Any) -> Any:
        done = {one.job_id: one.payload for one in job} if settings else payload
        if revoked:
            return done
        revoked.append(payload)
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute(f"revoke {right} from {ROLE}".encode())
        if "nack" in right:
            raise ValueError("once")
        return done

    def attempts() -> list[int]:
        found = [client.get_job(job_id) for job_id in ids]
        return [one.attempt if one is not None else 0 for one in found]

    def said() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.levelname in ("ERROR", "WARNING")]

    worker = kind(
        dsn, concurrency=SLOTS, poll=0.05, heartbeat=0.05,
        connect={"options": f"-c role={ROLE}"},
    )  # fmt: skip
    worker.handler(queue, **settings)(as_handler(handle))
    with working(worker):
        wait_until(lambda: f"role {ROLE} lacks rights that a worker needs" in caplog.text)
        for _ in range(4):
            clock.advance("10 minutes")
            asked = looks(client)
            wait_until(lambda asked=asked: asked() > SLOTS)
        assert not worker.ready
        assert max(attempts()) <= 1
        [line] = [one for one in said() if "lacks rights" in one]
        client.connection.execute(line.partition("HINT: ")[2].encode())
        wait_until(lambda: len(client.jobs.archived_jobs(queue)) == JOBS)
        wait_until(lambda: worker.ready)
        before = client.monitor.list_workers()[0].last_seen_at
        clock.advance("1 second")
        wait_until(lambda: client.monitor.list_workers()[0].last_seen_at > before)
    assert client.jobs.dead_letters(queue) == []
    assert "has its rights again" in caplog.text
    assert [one for one in said() if one.startswith("could not")] == []


def test_a_stop_does_not_wait(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(payload: Any) -> None:
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute(f"revoke usage on schema pgq from {ROLE}")

    worker = kind(dsn, connect={"options": f"-c role={ROLE}"})
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", 1)
    with working(worker) as started:
        wait_until(lambda: "lacks rights" in caplog.text)
        started.stop()
        started.ended.result(5)  # of the ten seconds that it gives a server


def test_strict(
    dsn: str,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It ends with the grant in its last line."""
    client.enqueue("mail", 1)
    (tmp_path / "revoking.py").write_text(
        f"import psycopg\nfrom pgq.worker import Handlers\n\nhandlers = Handlers()\n\n"
        f'@handlers.handler("mail")\ndef handle(payload):\n'
        f"    with psycopg.connect({dsn!r}, autocommit=True, options='') as owner:\n"
        f'        owner.execute("revoke usage on schema pgq from {ROLE}")\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PGOPTIONS", f"-c role={ROLE}")
    assert main(["work", "revoking:handlers", "--strict", "--database", dsn]) == 1
    assert capsys.readouterr().err.endswith(
        f"pgq: role {ROLE} lacks rights that a worker needs, so no job is claimed; "
        f"HINT: grant usage on schema pgq to {ROLE};\n"
    )
