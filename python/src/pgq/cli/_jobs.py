"""What is done with jobs that are there: ``pgq redrive``, ``purge``, ``cancel``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from pgq.cli._complete import JobId, QueueName
from pgq.cli._house import AsJson, CommandError, Database, Yes, command, confirm, connected
from pgq.cli._output import as_json, show_object, write_line
from pgq.cli._values import a_moment

__all__ = ["add", "purge"]

OneJob = Annotated[int | None, typer.Option("--job", help="only this dead letter")]
DiedBefore = Annotated[datetime | None, a_moment("dead letters that died before")]


def purge(
    queue: QueueName,
    everything: Annotated[
        bool, typer.Option("--all", help="all unfinished jobs and dead letters")
    ] = False,
    dead: Annotated[bool, typer.Option("--dead", help="all dead letters")] = False,
    died_before: DiedBefore = None,
    job: OneJob = None,
    yes: Yes = False,
    database: Database = "",
    json: AsJson = False,
) -> None:
    """Remove jobs; say --all, --dead, --died-before or --job, it asks first. Archived ones stay."""
    given = [everything, dead, died_before is not None, job is not None]
    if sum(given) != 1:
        raise CommandError("say one of --all, --dead, --died-before and --job")
    with connected(database) as client:
        if not yes:
            stats = client.queue_stats(queue)
            if not stats:
                raise CommandError(f'unknown queue "{queue}"')
            [row] = stats
            jobs = row.ready + row.leased + row.delayed + row.waiting + row.expired
            if everything:
                what = f"all {jobs:,} unfinished jobs and {row.dead:,} dead letters"
            elif dead:
                what = f"all {row.dead:,} dead letters"
            elif job is not None:
                what = f"dead letter {job}"
            else:
                what = f"those of {row.dead:,} dead letters that died before {died_before}"
            confirm(f'Remove {what} of queue "{queue}"?', yes)
        removed = 0
        after_id = None
        # by age one call looks at a part of the dead letters
        while True:
            result = client.purge_queue(
                queue,
                dead_only=dead or None,
                job_id=job,
                all_jobs=everything or None,
                died_before=died_before,
                after_id=after_id,
            )
            removed += result.taken
            after_id = result.after_id
            if after_id is None:
                break
    _count(removed, "removed", queue, json)


def _count(count: int, done: str, queue: str, json: bool) -> None:
    if json:
        write_line(as_json({"queue": queue, done: count}))
    else:
        write_line(f'{done} {count:,} {"job" if count == 1 else "jobs"} of queue "{queue}"')


def add(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "purge",
        examples=[
            "pgq purge mail --dead",
            "pgq purge mail --died-before '7 days ago' --yes",
            "pgq purge mail --all",
        ],
    )(purge)

    @command(
        app,
        "redrive",
        examples=[
            "pgq redrive mail --job 4711",
            "pgq redrive mail --all --per-second 50",
            "pgq redrive mail --all --max 1000",
        ],
    )
    def redrive(
        queue: QueueName,
        job: OneJob = None,
        everything: Annotated[bool, typer.Option("--all", help="all dead letters")] = False,
        most: Annotated[
            int | None, typer.Option("--max", min=1, help="so many, those that died first")
        ] = None,
        per_second: Annotated[
            float | None, typer.Option(help="not all at once: so many per second")
        ] = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Put dead letters back into their queue; say --job or --all."""
        if (job is not None) == everything:
            raise CommandError("say one of --job and --all")
        with connected(database) as client:
            count = client.redrive(
                queue,
                job_id=job,
                all_jobs=everything or None,
                max_jobs=most,
                per_second=per_second,
            ).taken
        _count(count, "redriven", queue, json)

    @command(app, "cancel", examples=["pgq cancel 4711", "pgq cancel 4711 4712 4713"])
    def cancel(
        jobs: Annotated[list[int], typer.Argument(metavar="JOB…", help="ids of jobs")],
        database: Database = "",
        json: AsJson = False,
    ) -> int:
        """Cancel unfinished jobs; exit status 1 where one is finished, dead or not there."""
        with connected(database) as client:
            answers = {number: client.cancel_job(number) for number in jobs}
        for number, cancelled in answers.items():
            if json:
                write_line(as_json({"job_id": number, "cancelled": cancelled}))
            else:
                told = "cancelled" if cancelled else "not cancelled: finished, dead or not there"
                write_line(f"job {number} {told}")
        return 0 if all(answers.values()) else 1

    @command(app, "job", examples=["pgq job 4711"])
    def job(number: JobId, database: Database = "", json: AsJson = False) -> None:
        """Show an unfinished job or a dead letter."""
        with connected(database, read_only=True) as client:
            found = client.get_job(number)
        if found is None:
            raise CommandError(
                f"job {number} is finished, or was never there; HINT: the view "
                "pgq.archived_jobs has those that were archived"
            )
        show_object(found, json=json)
