"""A worker whose role lacks a right does not begin: its handlers would run in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client, UnknownQueue
from pgq.__main__ import main
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
        if not functions:
            return
        names = ", ".join(f"pgq.{name}" for name in functions)
        client.connection.execute(f"grant execute on function {names} to {ROLE}".encode())

    yield grant
    client.connection.execute(f"drop owned by {ROLE}")
    client.connection.execute(f"drop role {ROLE}")


def refused(
    dsn: str, kind: Kind, as_handler: As, queue: str, create: bool = False, **more: Any
) -> str:
    """What the worker says at its start."""
    worker = kind(dsn, connect={"options": f"-c role={ROLE}"}, **more)
    worker.create = create
    worker.handler(queue)(as_handler(lambda payload: payload))
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as error, working(worker):
        pass
    return str(error.value)


@pytest.mark.usefixtures("limited")
def test_what_is_missing_is_named(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """All of it, before a job is claimed; the statements are enough, and give no more."""
    job_id = client.enqueue("kept", 1).job_id
    said = refused(dsn, kind, as_handler, "kept")
    assert said.startswith(f"role {ROLE} lacks rights that a worker needs")
    client.connection.execute(said.partition("HINT: ")[2].encode())
    given = client.connection.execute(
        "select proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        " and not has_function_privilege('public', oid, 'execute')"
        " and has_function_privilege(%s, oid, 'execute')",
        [ROLE],
    )
    assert {name for (name,) in given} == {*EXECUTE} - OPTIONAL
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


def test_what_others_need_is_not_named(dsn: str, kind: Kind, as_handler: As, limited: Any) -> None:
    """What would help stands apart; what this worker does not call is not there."""
    limited("list_queues")
    said = refused(dsn, kind, as_handler, "plain")
    grant, _, more = said.partition("; -- optional: ")
    assert more == "pgq.get_job, pgq.next_due, pgq.set_progress, pgq.heartbeat"
    for name in (*RESULTS, "ack", "extend_lease", "heartbeat", "cleanup", "create_queue"):
        assert f"pgq.{name}," not in f"{grant},".replace(" to ", ", ")
    said = refused(dsn, kind, as_handler, "new", True, housekeeping=True)
    assert "pgq.create_queue, pgq.cleanup, pgq.run_schedules, pgq.next_run to" in said
    limited(*({*EXECUTE} - {*RESULTS}))
    said = refused(dsn, kind, as_handler, "new", True)
    assert said.endswith(f"HINT: grant execute on function pgq.create_queue to {ROLE};")


def test_a_queue_that_it_may_not_see(
    dsn: str, client: Client, kind: Kind, as_handler: As, limited: Any
) -> None:
    """Is as one that is not there; what is said is true of both, and what it names helps."""
    limited(*EXECUTE)
    client.admin.create_queue("closed", restricted=True)
    for queue in ("closed", "nowhere"):
        worker = kind(dsn, poll=0.05, connect={"options": f"-c role={ROLE}"})
        worker.handler(queue)(as_handler(lambda payload: payload))
        with pytest.raises(UnknownQueue) as error, working(worker):
            pass
        assert str(error.value) == (
            f'queue "{queue}" does not exist, or role {ROLE} has no access to it; '
            f"HINT: pgq queues create {queue}, or pgq work --create; "
            f"if it exists: pgq access grant {ROLE} consume --queue {queue}"
        )
    assert main([*str(error.value).replace("nowhere", "closed").split(": pgq ")[-1].split(),
                 "--database", dsn]) == 0  # fmt: skip
    client.enqueue("closed", 1)
    worker = kind(dsn, poll=0.05, connect={"options": f"-c role={ROLE}"})
    worker.handler("closed")(as_handler(lambda payload: payload))
    with working(worker):
        wait_until(lambda: len(client.jobs.archived_jobs("closed")) == 1, PATIENCE)


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
        f"pgq: role {ROLE} lacks rights that a worker needs, so no job is claimed; "
        f"HINT: grant execute on function pgq.nack to {ROLE};\n"
    )


def test_doctor_is_content_with_the_grant(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: As,
    limited: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a worker, with what is optional; its own suggestion is this grant."""
    limited("claim_job", "list_queues")
    main(["doctor", "--role", ROLE, "--database", dsn])
    said = capsys.readouterr().out
    assert "work on jobs by half" in said
    assert "heartbeat(" in said
    assert "archive_job" not in said
    said = refused(dsn, kind, as_handler, "plain")
    grant, optional = said.partition("HINT: ")[2].split(" -- optional: ")
    client.connection.execute(grant.encode())
    limited(*(name.removeprefix("pgq.") for name in optional.split(", ")))
    main(["doctor", "--role", ROLE, "--database", dsn])
    assert "by half" not in capsys.readouterr().out
