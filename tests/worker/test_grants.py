"""A worker whose role lacks a right does not begin: its handlers would run in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.__main__ import main
from pgq.cli._pgq_checks import _GROUPS
from pgq.worker import AsyncWorker, Worker
from pgq.worker._grants import EXECUTE, RESULTS
from support.waiting import PATIENCE, wait_until
from support.working import Started, working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]
ROLE = "pgq_test_limited"
OPTIONAL = {"ack", "extend_lease", "get_job", "next_due", "set_progress", "heartbeat"}


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("plain")
    client.admin.create_queue("kept", keep_results=True)
    return client


@pytest.fixture
def limited(client: Client) -> Iterator[Callable[..., None]]:
    """Give the role the right to call these functions, and no others."""
    try:
        client.connection.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")

    def grant(*functions: str) -> None:
        client.connection.execute(f"grant usage on schema pgq to {ROLE}")
        names = ", ".join(f"pgq.{name}" for name in functions)
        client.connection.execute(f"grant execute on function {names} to {ROLE}".encode())

    yield grant
    client.connection.execute(f"drop owned by {ROLE}")
    client.connection.execute(f"drop role {ROLE}")


def refused(dsn: str, kind: Kind, as_handler: As, queue: str) -> str:
    """What the worker says at its start."""
    worker = kind(dsn, connect={"options": f"-c role={ROLE}"})
    worker.handler(queue)(as_handler(lambda payload: payload))
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as error, working(worker):
        pass
    return str(error.value)


def test_what_is_missing_is_named(
    dsn: str, client: Client, kind: Kind, as_handler: As, limited: Any
) -> None:
    """All of it, before a job is claimed; the statement that it names is enough."""
    limited("list_queues", "claim_job", "ack", "nack", "extend_lease")
    job_id = client.enqueue("kept", 1).job_id
    said = refused(dsn, kind, as_handler, "kept")
    assert said.startswith(f"role {ROLE} lacks rights that a worker needs")
    client.connection.execute(said.partition("HINT: ")[2].encode())
    found = client.get_job(job_id)
    assert found is not None
    assert found.attempt == 0
    worker = kind(dsn, poll=0.05, connect={"options": f"-c role={ROLE}"})
    worker.handler("kept")(as_handler(lambda payload: payload))
    with working(worker):
        wait_until(lambda: [one.result for one in client.jobs.archived_jobs("kept")] == [1])


@pytest.mark.parametrize("lacking", sorted({*EXECUTE} - OPTIONAL - {*RESULTS}))
def test_each_is_needed(
    dsn: str, client: Client, kind: Kind, as_handler: As, limited: Any, lacking: str
) -> None:
    limited(*(name for name in EXECUTE if name != lacking))
    said = refused(dsn, kind, as_handler, "plain")
    assert said.endswith(f"HINT: grant execute on function pgq.{lacking} to {ROLE};")


def test_results_are_for_queues_that_keep_them(
    dsn: str, client: Client, kind: Kind, as_handler: As, limited: Any
) -> None:
    limited(*({*EXECUTE} - OPTIONAL - {*RESULTS}))
    worker = kind(dsn, poll=0.05, connect={"options": f"-c role={ROLE}"})
    worker.handler("plain")(as_handler(lambda payload: payload))
    client.enqueue("plain", 1)
    with working(worker):
        wait_until(lambda: len(client.jobs.archived_jobs("plain")) == 1, PATIENCE)
    assert "pgq.archive_job," in refused(dsn, kind, as_handler, "kept")


def test_only_missing_queues_need_the_right_to_create_them(
    dsn: str, client: Client, kind: Kind, as_handler: As, limited: Any
) -> None:
    limited(*EXECUTE)
    there, missing = (kind(dsn, connect={"options": f"-c role={ROLE}"}) for _ in range(2))
    for worker, queue in ((there, "plain"), (missing, "nowhere")):
        worker.create = worker.once = True
        worker.handler(queue)(as_handler(lambda payload: payload))
    client.enqueue("plain", 1)
    Started(there).join()
    assert len(client.jobs.archived_jobs("plain")) == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="create_queue"):
        Started(missing).join()


def test_the_command_says_it_in_one_line(
    dsn: str,
    limited: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    limited(*({*EXECUTE} - {"nack"}))
    (tmp_path / "limits.py").write_text(
        "from pgq.worker import Handlers\n\nhandlers = Handlers()\n"
        'handlers.handler("plain")(lambda payload: None)\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PGOPTIONS", f"-c role={ROLE}")
    assert main(["work", "limits:handlers", "--database", dsn]) == 1
    assert capsys.readouterr().err == (
        f"pgq: role {ROLE} lacks rights that a worker needs, so no job was claimed; "
        f"HINT: grant execute on function pgq.nack to {ROLE};\n"
    )


def test_doctor_is_content_with_the_grant(
    dsn: str, limited: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """And its own suggestion is this grant."""
    assert _GROUPS["work on jobs"] == EXECUTE
    limited("claim_job", "list_queues")
    main(["doctor", "--role", ROLE, "--database", dsn])
    said = capsys.readouterr().out
    assert "by half" in said
    assert "archive_job(bigint" in said
    assert "heartbeat(" in said
    limited(*EXECUTE)
    main(["doctor", "--role", ROLE, "--database", dsn])
    assert "by half" not in capsys.readouterr().out
