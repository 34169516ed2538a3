"""``pgq jobs`` and ``pgq job``."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Annotated, Any

import psycopg
import typer

from pgq import Client
from pgq.cli._catalog import ask
from pgq.cli._complete import JobId, QueueName
from pgq.cli._errors import CommandError, warn
from pgq.cli._house import AsJson, Database, command, connected
from pgq.cli._output import as_json, show_object, show_rows, write_line
from pgq.cli._values import State

__all__ = ["add"]

LOOKED = 10_000
"""Jobs that `peek_jobs` returns at most."""

PATIENCE = 5000
"""Milliseconds for a look through the archive, which has no index of jobs."""

_OUTCOMES = ("cancelled", "expired", "replaced")
"""Those in the archive that are no way to finish."""

_UNFINISHED = ("job_id", "state", "attempt", "label", "key", "due_at", "leased_until", "last_error")
_DEAD = ("job_id", "attempt", "label", "key", "died_at", "last_error")
_FINISHED = ("job_id", "outcome", "attempt", "label", "key", "ended_at", "result")
_ATTEMPTS = ("attempt", "outcome", "began_at", "ended_at", "worker", "error")


def add(app: typer.Typer) -> None:
    """Add the commands."""

    @command(
        app,
        "jobs",
        examples=[
            "pgq jobs mail",
            "pgq jobs mail --state delayed --label newsletter",
            "pgq jobs mail --state dead --limit 1000 --json",
            "pgq jobs mail --state finished",
        ],
        table=True,
    )
    def jobs(
        queue: QueueName,
        state: Annotated[State | None, typer.Option(help="default: all unfinished")] = None,
        label: Annotated[str | None, typer.Option(help="only those with this label")] = None,
        most: Annotated[
            int, typer.Option("--limit", "-n", min=1, max=LOOKED, help="this many at most")
        ] = 100,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """List the unfinished jobs of a queue in the order of claims, its dead letters, or those
        that finished last.
        """
        ways = {State.dead: (_dead, _DEAD), State.finished: (_finished, _FINISHED)}
        read, columns = (
            (_unfinished, _UNFINISHED)
            if state is None
            else ways.get(state, (_unfinished, _UNFINISHED))
        )
        with connected(database, read_only=True) as client:
            rows = read(client, queue, state, label, most)
        show_rows(rows, json=json, columns=columns, nothing="no jobs")

    @command(app, "job", examples=["pgq job 4711", "pgq job 4711 --json"], table=True)
    def job(number: JobId, database: Database = "", json: AsJson = False) -> None:
        """Show a job: its state, its attempts that failed, and its result if it has ended.

        Of jobs that have finished or were cancelled, those in the archive and those of queues with
        keep_results are known.
        """
        with connected(database, read_only=True) as client:
            found: Any = client.get_job(number)
            shown = (
                _ended(client, number)
                if found is None
                else {field.name: getattr(found, field.name) for field in fields(found)}
            )
            history = client.jobs.job_history(number)
        if shown is None and not history:
            raise CommandError(
                f"no job {number} is known: it never existed, has ended and was not kept "
                "(archive, keep_results), or this role may not see it"
            )
        shown = {"job_id": number, "state": "gone"} if shown is None else shown
        if json:
            write_line(as_json({**shown, "history": history}))
            return
        show_object(shown)
        if history:
            write_line()
            # of one that was lost, nobody has said so
            named = [replace(one, worker=one.worker or "unknown") for one in history]
            show_rows(named, columns=_ATTEMPTS)


def _ended(client: Client, number: int) -> dict[str, Any] | None:
    found = client.get_result(number)
    archived = _archived(client, number)
    if found.state == "gone" and not archived:
        return None
    state, known = found.state, {"ended_at": found.ended_at, "result": found.result}
    if state == "gone":
        known = {}
        state = archived["outcome"] if archived["outcome"] in _OUTCOMES else "finished"
    return {"job_id": number, "state": state} | archived | known


def _archived(client: Client, number: int) -> dict[str, Any]:
    """What the archive has of a job, which is looked through for it; nothing where it is not."""
    connection = client.connection
    try:
        with connection.transaction():
            connection.execute(f"set local statement_timeout = {PATIENCE}".encode())
            [found] = ask(connection, "archived", [number]) or [{}]
    except psycopg.errors.QueryCanceled:
        warn(f"the archive is too large to look through it for job {number}")
        return {}
    except psycopg.errors.InsufficientPrivilege:
        return {}
    return found


def _unfinished(
    client: Client, queue: str, state: State | None, label: str | None, most: int
) -> list[Any]:
    if label is None:
        return list(client.jobs.peek_jobs(queue, state=state, max_jobs=most))
    looked = client.jobs.peek_jobs(queue, state=state, max_jobs=LOOKED)
    found = [one for one in looked if one.label == label][:most]
    if len(looked) == LOOKED and len(found) < most:
        warn(f"only the first {LOOKED:,} jobs were looked at")
    return found


def _finished(
    client: Client, queue: str, state: State | None, label: str | None, most: int
) -> list[Any]:
    looked = client.jobs.fetch_archived_jobs(queue, max_jobs=most if label is None else LOOKED)
    return [one for one in looked if label in (None, one.label)][:most]


def _dead(
    client: Client, queue: str, state: State | None, label: str | None, most: int
) -> list[Any]:
    found: list[Any] = []
    after: dict[str, Any] = {}
    while len(found) < most:
        size = min(1000, most - len(found)) if label is None else 1000
        page = client.jobs.fetch_dead_letters(queue, max_jobs=size, **after)
        found += [one for one in page if label in (None, one.label)]
        if len(page) < size:
            break
        after = {"after_died_at": page[-1].died_at, "after_job_id": page[-1].job_id}
    return found[:most]
