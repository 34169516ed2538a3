"""``pgq queues``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer

from pgq.cli._complete import QueueName
from pgq.cli._errors import unknown
from pgq.cli._house import AsJson, Database, Yes, command, confirm, connected, family, is_there
from pgq.cli._jobs import purge
from pgq.cli._output import show_object, show_rows, write_line
from pgq.cli._values import a_span, a_wait

__all__ = ["add"]


def _number(text: str, **limits: Any) -> Any:
    return typer.Option(help=text, show_default=False, **limits)


def _switch(name: str, text: str) -> Any:
    return typer.Option(f"--{name}/--no-{name}", help=text, show_default=False)


MaxAttempts = Annotated[int | None, _number("attempts before a job is dead; default: 5", min=1)]
Jitter = Annotated[float | None, _number("the share of a wait that is added at random", min=0)]
Archive = Annotated[bool | None, _switch("archive", "note finished jobs; default")]
Notify = Annotated[bool | None, _switch("notify", "wake those who wait at each enqueue")]
Ordered = Annotated[bool | None, _switch("ordered", "the jobs of a key one after the other")]
UniqueUntil = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="finished (default), claimed or removed: see create_queue"),
]
AfterDeadLetter = Annotated[
    str | None, typer.Option(metavar="WHAT", help="continue (default) or stop the key: if ordered")
]
MaxLeased = Annotated[int | None, _number("so many jobs at workers at most", min=1)]
RateLimit = Annotated[int | None, _number("so many claims per --rate-interval", min=1)]
RateBurst = Annotated[int | None, _number("so many claims at once after a pause", min=1)]
MaxUnfinished = Annotated[int | None, _number("enqueue fails when there are so many", min=1)]
MaxMessage = Annotated[
    int | None, _number("largest content of a job, in bytes; default: 1 MiB", min=1024)
]
KeepResults = Annotated[
    bool | None, _switch("keep-results", "job and get_result know jobs that have ended")
]
OnDuplicate = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="keep (default), replace or postpone the waiting job of a unique key: with "
        "--unique-until claimed",
    ),
]
DebounceMax = Annotated[
    timedelta | None, a_span("a postponed job is due after so long; default: no limit")
]
PerKey = Annotated[int | None, _number("so many jobs of one key at workers at most", min=1)]
Lease = Annotated[
    timedelta | None, a_wait("a claimed job belongs to its worker so long; default: 30s")
]
Delay = Annotated[timedelta | None, a_wait("a new job waits so long; default: not at all")]
Ttl = Annotated[
    timedelta | None, a_span("an unfinished job expires after so long; default: 14 days")
]
Retention = Annotated[
    timedelta | None, a_span("finished jobs and dead letters are kept so long; default: 14 days")
]
Backoff = Annotated[
    timedelta | None, a_wait("the wait after the first failure, then doubled; default: 1s")
]
BackoffMax = Annotated[timedelta | None, a_wait("the longest wait between attempts; default: 1h")]
Window = Annotated[timedelta | None, a_span("idempotency keys count so long; default: 1 day")]
RateInterval = Annotated[timedelta | None, a_span("see --rate-limit; default: 1s")]
NoLimit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="max_attempts, job_ttl, retention, max_leased, max_leased_per_key, rate_limit, "
        "max_unfinished or debounce_max: no such limit; repeatable",
    ),
]

_STATS = (
    "queue",
    "ready",
    "leased",
    "delayed",
    "waiting",
    "expired",
    "dead",
    "oldest_ready_at",
    "held_by",
    "is_full",
)


def add(app: typer.Typer) -> None:
    """Add the commands."""
    queues = family("queues", "Queues of jobs.", app)

    @command(queues, "list", examples=["pgq queues list", "pgq queues list --json"], table=True)
    def list_queues(database: Database = "", json: AsJson = False) -> None:
        """Show the queues and how many jobs each has, by state; with --json, their settings."""
        with connected(database, read_only=True) as client:
            if json:
                show_rows(client.admin.list_queues(), json=True)
            else:
                show_rows(client.monitor.queue_stats(), columns=_STATS, nothing="no queues")

    @command(queues, "stats", examples=["pgq queues stats mail --json"], table=True)
    def stats(
        queue: Annotated[str | None, typer.Argument(metavar="QUEUE")] = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Show how many jobs queues have, by state."""
        with connected(database, read_only=True) as client:
            rows = client.monitor.queue_stats(queue)
        if queue is not None and not rows:
            raise unknown("queue", queue)
        show_rows(rows, json=json, columns=_STATS, nothing="no queues")

    @command(queues, "show", examples=["pgq queues show mail"], table=True)
    def show_queue(queue: QueueName, database: Database = "", json: AsJson = False) -> None:
        """Show one queue: its settings, and how many jobs it has, by state."""
        with connected(database, read_only=True) as client:
            found = [one for one in client.admin.list_queues() if one.queue == queue]
            if not found:
                raise unknown("queue", queue)
            stats = client.monitor.queue_stats(queue)
        if json:
            settings = {name: getattr(found[0], name) for name in found[0].__slots__}
            show_object({**settings, "stats": stats[0] if stats else None}, json=True)
            return
        show_object(found[0])
        write_line()
        show_rows(stats, columns=_STATS[1:])

    @command(
        queues,
        "create",
        examples=[
            "pgq queues create mail",
            "pgq queues create mail --lease 2m --max-attempts 10 --backoff 5s --backoff-max 1h",
            "pgq queues create orders --ordered --after-dead-letter stop",
            "pgq queues create sums --keep-results",
            "pgq queues create searches --unique-until claimed --on-duplicate postpone --delay 5s "
            "--debounce-max 1m",
            "pgq queues create calls --rate-limit 100 --rate-interval 1m --max-leased 8",
        ],
    )
    def create_queue(
        queue: QueueName,
        lease: Lease = None,
        max_attempts: MaxAttempts = None,
        delay: Delay = None,
        job_ttl: Ttl = None,
        retention: Retention = None,
        backoff: Backoff = None,
        backoff_max: BackoffMax = None,
        backoff_jitter: Jitter = None,
        archive: Archive = None,
        notify: Notify = None,
        idempotency_window: Window = None,
        unique_until: UniqueUntil = None,
        ordered: Ordered = None,
        after_dead_letter: AfterDeadLetter = None,
        max_leased: MaxLeased = None,
        rate_limit: RateLimit = None,
        rate_interval: RateInterval = None,
        rate_burst: RateBurst = None,
        max_unfinished: MaxUnfinished = None,
        max_leased_per_key: PerKey = None,
        max_message_bytes: MaxMessage = None,
        keep_results: KeepResults = None,
        on_duplicate: OnDuplicate = None,
        debounce_max: DebounceMax = None,
        no_limit: NoLimit = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Create a queue; one that is there has to have the settings that are given."""
        settings = {n: v for n, v in locals().items() if n not in ("queue", "database", "json")}
        with connected(database) as client:
            known = not json and is_there(client.admin.list_queues, queue=queue)
            made = client.admin.create_queue(queue, **settings)
        if known:
            write_line(f'queue "{queue}" exists already')
        show_object(made, json=json)

    @command(
        queues,
        "alter",
        examples=[
            "pgq queues alter mail --max-leased 20",
            "pgq queues alter mail --no-limit rate_limit",
        ],
    )
    def alter_queue(
        queue: QueueName,
        lease: Lease = None,
        max_attempts: MaxAttempts = None,
        delay: Delay = None,
        job_ttl: Ttl = None,
        retention: Retention = None,
        backoff: Backoff = None,
        backoff_max: BackoffMax = None,
        backoff_jitter: Jitter = None,
        archive: Archive = None,
        notify: Notify = None,
        idempotency_window: Window = None,
        unique_until: UniqueUntil = None,
        after_dead_letter: AfterDeadLetter = None,
        max_leased: MaxLeased = None,
        rate_limit: RateLimit = None,
        rate_interval: RateInterval = None,
        rate_burst: RateBurst = None,
        max_unfinished: MaxUnfinished = None,
        max_leased_per_key: PerKey = None,
        max_message_bytes: MaxMessage = None,
        keep_results: KeepResults = None,
        debounce_max: DebounceMax = None,
        no_limit: NoLimit = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Change the settings that are given."""
        settings = {n: v for n, v in locals().items() if n not in ("queue", "database", "json")}
        with connected(database) as client:
            changed = client.admin.alter_queue(queue, **settings)
        show_object(changed, json=json)

    @command(queues, "drop", examples=["pgq queues drop mail"])
    def drop_queue(queue: QueueName, yes: Yes = False, database: Database = "") -> None:
        """Drop a queue with all its jobs; asks first."""
        with connected(database) as client:
            if not yes:
                rows = client.monitor.queue_stats(queue)
                if not rows:
                    raise unknown("queue", queue)
                [row] = rows
                jobs = row.ready + row.leased + row.delayed + row.waiting + row.expired
                confirm(
                    f'Drop queue "{queue}" with {jobs:,} unfinished jobs and {row.dead:,} dead '
                    "letters?",
                    yes,
                )
            client.admin.drop_queue(queue)
        write_line(f'dropped queue "{queue}"')

    @command(queues, "pause", examples=["pgq queues pause mail"])
    def pause_queue(queue: QueueName, database: Database = "", json: AsJson = False) -> None:
        """Let no job of a queue be claimed; leases that run go on."""
        with connected(database) as client:
            paused = client.admin.pause_queue(queue)
        if json:
            show_object(paused, json=True)
        else:
            write_line(f'queue "{queue}" is paused')

    @command(queues, "resume", examples=["pgq queues resume mail"])
    def resume_queue(queue: QueueName, database: Database = "", json: AsJson = False) -> None:
        """End a pause."""
        with connected(database) as client:
            resumed = client.admin.resume_queue(queue)
        if json:
            show_object(resumed, json=True)
        else:
            write_line(f'queue "{queue}" goes on')

    command(
        queues,
        "purge",
        examples=["pgq queues purge mail --dead", "pgq queues purge mail --all --yes"],
    )(purge)
