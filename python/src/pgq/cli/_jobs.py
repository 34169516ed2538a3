"""What is done with jobs that are there: ``pgq redrive``, ``purge``, ``cancel``, ``retry``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from pgq import Client
from pgq.cli._bulk import (
    All,
    Before,
    Bulk,
    DryRun,
    ErrorText,
    Key,
    Label,
    Leased,
    OfQueue,
    Since,
    filter_of,
    tell,
)
from pgq.cli._complete import QueueName
from pgq.cli._errors import UsageError, unknown, warn
from pgq.cli._house import AsJson, Database, Limit, Yes, command, confirm, connected
from pgq.cli._output import as_json, write_line

__all__ = ["add", "purge"]

OneJob = Annotated[int | None, typer.Option("--job", help="only this dead letter")]
Ids = Annotated[list[int] | None, typer.Argument(metavar="JOB…", help="ids of jobs")]

_FILTER = "--label, --error, --key, --since or --before"


def purge(
    queue: QueueName,
    everything: Annotated[
        bool, typer.Option("--all", help="all unfinished jobs and dead letters")
    ] = False,
    dead: Annotated[bool, typer.Option("--dead", help="all dead letters")] = False,
    job: OneJob = None,
    label: Label = None,
    error: ErrorText = None,
    key: Key = None,
    since: Since = None,
    before: Before = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    database: Database = "",
    json: AsJson = False,
) -> int:
    """Remove dead letters, or with --all every unfinished job; it asks first.

    Say --all, --dead, --job, or which dead letters: --label, --error, --key, --since, --before.
    Archived jobs stay.
    """
    which = filter_of(label, error, key, since, before, times="died")
    if sum((everything, dead, job is not None, bool(which))) != 1:
        raise UsageError(f"say one of --all, --dead, --job, and a filter: {_FILTER}")
    if (everything or job is not None) and (dry_run or limit is not None):
        raise UsageError("--dry-run and --limit are for --dead and filters")
    with connected(database) as client:
        if everything or job is not None:
            if not yes:
                confirm(f'Remove {_purged(client, queue, job)} of queue "{queue}"?', yes)
            removed = client.jobs.purge_queue(queue, job_id=job, all_jobs=everything or None).taken
            tell(removed, "removed", queue, json)
            return 0 if removed or job is None else _not_there(job, queue)
        if dead:
            which = {"dead_only": True}
        Bulk(
            client,
            queue,
            client.jobs.purge_queue,
            "Remove",
            "removed",
            which,
            "dead letter",
            limit,
        ).run(dry_run=dry_run, yes=yes, json=json)
    return 0


def _purged(client: Client, queue: str, job: int | None) -> str:
    stats = client.monitor.queue_stats(queue)
    if not stats:
        raise unknown("queue", queue)
    if job is not None:
        return f"dead letter {job}"
    [row] = stats
    jobs = row.ready + row.leased + row.delayed + row.waiting + row.expired
    return f"all {jobs:,} unfinished jobs and {row.dead:,} dead letters"


def _not_there(job: int, queue: str) -> int:
    warn(f'dead letter {job} is not in queue "{queue}"')
    return 1


def _each(
    numbers: list[int],
    call: Callable[[int], bool],
    key: str,
    texts: tuple[str, str],
    json: bool,
) -> int:
    """Do it with each of these jobs, and say at once what came of it: the next one may fail."""
    status = 0
    for number in dict.fromkeys(numbers):
        answer = call(number)
        status = status if answer else 1
        if json:
            write_line(as_json({"job_id": number, key: answer}))
        else:
            write_line(f"job {number} {texts[0] if answer else texts[1]}")
    return status


def _which_jobs(
    jobs: list[int] | None, queue: str | None, which: dict[str, Any], everything: bool
) -> dict[str, Any] | None:
    """The arguments for jobs of a queue; None: the jobs are named."""
    if queue is None:
        if not jobs or which or everything:
            raise UsageError(f"say JOB…, or --queue and a filter: {_FILTER}, or --all")
        return None
    if jobs or bool(which) == everything:
        raise UsageError(f"with --queue say a filter: {_FILTER}; or --all; and no JOB")
    return {"all_jobs": True} if everything else which


def add(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "purge",
        examples=[
            "pgq purge mail --dead",
            "pgq purge mail --before '7 days ago' --yes",
            "pgq purge mail --error 'no such customer' --dry-run",
            "pgq purge mail --all",
        ],
    )(purge)

    @command(
        app,
        "redrive",
        examples=[
            "pgq redrive mail --job 4711",
            "pgq redrive mail --all --per-second 50",
            "pgq redrive mail --error timeout --since '1 day ago' --limit 1000",
        ],
    )
    def redrive(
        queue: QueueName,
        job: OneJob = None,
        everything: All = False,
        label: Label = None,
        error: ErrorText = None,
        key: Key = None,
        since: Since = None,
        before: Before = None,
        limit: Limit = None,
        per_second: Annotated[
            float | None, typer.Option(help="not all at once: so many per second")
        ] = None,
        dry_run: DryRun = False,
        yes: Yes = False,
        database: Database = "",
        json: AsJson = False,
    ) -> int:
        """Put dead letters back into their queue; it asks first, but for --job.

        Say --job, --all, or which: --label, --error, --key, --since, --before. Exit status 1 where
        the one of --job is not there.
        """
        which = filter_of(label, error, key, since, before, times="died")
        if sum((job is not None, everything, bool(which))) != 1:
            raise UsageError(f"say one of --job, --all, and a filter: {_FILTER}")
        if job is not None and (dry_run or limit is not None or per_second is not None):
            raise UsageError("--dry-run, --limit and --per-second are not for --job")
        with connected(database) as client:
            if job is not None:
                taken = client.jobs.redrive(queue, job_id=job).taken
                tell(taken, "redriven", queue, json)
                return 0 if taken else _not_there(job, queue)
            Bulk(
                client,
                queue,
                client.jobs.redrive,
                "Redrive",
                "redriven",
                {"all_jobs": True} if everything else which,
                "dead letter",
                limit,
                per_second,
            ).run(dry_run=dry_run, yes=yes, json=json)
        return 0

    @command(
        app,
        "cancel",
        examples=[
            "pgq cancel 4711 4712",
            "pgq cancel --queue mail --label newsletter --dry-run",
            "pgq cancel --queue mail --all --leased",
        ],
    )
    def cancel(
        jobs: Ids = None,
        of_queue: OfQueue = None,
        everything: All = False,
        label: Label = None,
        error: ErrorText = None,
        key: Key = None,
        since: Since = None,
        before: Before = None,
        leased: Leased = False,
        limit: Limit = None,
        dry_run: DryRun = False,
        yes: Yes = False,
        database: Database = "",
        json: AsJson = False,
    ) -> int:
        """Cancel unfinished jobs: those named, or those of a queue that match a filter.

        Exit status 1 where a named one is finished, dead or not there. With --queue it asks first,
        and jobs that a worker has stay, but with --leased.
        """
        which = filter_of(label, error, key, since, before, times="due")
        chosen = _which_jobs(jobs, of_queue, which, everything)
        with connected(database) as client:
            if chosen is None:
                _only_for_queues(leased, limit, dry_run)
                texts = ("cancelled", "not cancelled: finished, dead or not there")
                return _each(jobs or [], client.cancel_job, "cancelled", texts, json)
            chosen |= {"leased": leased or None}
            Bulk(
                client,
                str(of_queue),
                client.jobs.cancel_jobs,
                "Cancel",
                "cancelled",
                chosen,
                max_jobs=limit,
            ).run(dry_run=dry_run, yes=yes, json=json)
        return 0

    @command(
        app,
        "retry",
        examples=[
            "pgq retry 4711 4712",
            "pgq retry --queue mail --error timeout",
            "pgq retry --queue mail --all --yes",
        ],
    )
    def retry(
        jobs: Ids = None,
        of_queue: OfQueue = None,
        everything: All = False,
        label: Label = None,
        error: ErrorText = None,
        key: Key = None,
        since: Since = None,
        before: Before = None,
        limit: Limit = None,
        dry_run: DryRun = False,
        yes: Yes = False,
        database: Database = "",
        json: AsJson = False,
    ) -> int:
        """Make jobs due now that wait for a retry or a delay: those named, or of a queue.

        Exit status 1 where a named one does not wait. With --queue it asks first. Dead letters do
        not wait: see redrive.
        """
        which = filter_of(label, error, key, since, before, times="due")
        chosen = _which_jobs(jobs, of_queue, which, everything)
        with connected(database) as client:
            if chosen is None:
                _only_for_queues(False, limit, dry_run)
                texts = ("due now", "not changed: it waits for no time, or is not there")
                return _each(jobs or [], client.retry_job, "due", texts, json)
            Bulk(
                client,
                str(of_queue),
                client.jobs.retry_jobs,
                "Retry",
                "retried",
                chosen,
                max_jobs=limit,
            ).run(dry_run=dry_run, yes=yes, json=json)
        return 0


def _only_for_queues(leased: bool, limit: int | None, dry_run: bool) -> None:
    if leased or limit is not None or dry_run:
        raise UsageError("--leased, --limit and --dry-run are for jobs of a --queue")
