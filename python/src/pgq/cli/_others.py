"""``pgq subscriptions``, ``pgq schedules`` and ``pgq cleanup``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from pgq.cli._complete import QueueName, ScheduleName, SubscriptionName, TopicName
from pgq.cli._errors import CommandError, UsageError
from pgq.cli._house import AsJson, Database, Limit, Yes, clean, command, confirm, connected, family
from pgq.cli._output import instant, show_object, show_rows, write_line
from pgq.cli._values import a_moment, a_span, headers_of, json_of

__all__ = ["add"]
Every = Annotated[timedelta | None, a_span("so often, instead of --cron")]
StartsAt = Annotated[datetime | None, a_moment("no tick before; default: now")]


def add(app: typer.Typer) -> None:
    """Add the commands."""
    _subscriptions(app)
    _schedules(app)

    @command(app, "cleanup", examples=["pgq cleanup", "pgq cleanup --json"], table=True)
    def cleanup(database: Database = "", json: AsJson = False) -> int:
        """Clean up, as pgq housekeeping or cron does every minute, until nothing is left to do.

        Exit status 1 where a part of it failed.
        """
        with connected(database) as client:
            done = clean(client)
        show_rows(done, json=json, nothing="nothing to do")
        return 1 if any(one.action == "failed" for one in done) else 0


def _subscriptions(app: typer.Typer) -> None:
    subscriptions = family("subscriptions", "Queues that get jobs of what topics get.", app)

    @command(subscriptions, "list", examples=["pgq subscriptions list"], table=True)
    def list_subscriptions(database: Database = "", json: AsJson = False) -> None:
        """Show the subscriptions."""
        with connected(database, read_only=True) as client:
            show_rows(client.admin.list_subscriptions(), json=json, nothing="no subscriptions")

    @command(
        subscriptions,
        "create",
        examples=[
            "pgq subscriptions create parcels-to-mail parcels mail",
            'pgq subscriptions create lost parcels mail --filter \'{"status": ["lost"]}\'',
            "pgq subscriptions create eu parcels mail --routing-key 'parcels.eu.#'",
        ],
    )
    def subscribe(
        subscription: SubscriptionName,
        topic: TopicName,
        queue: QueueName,
        where: Annotated[
            str | None,
            typer.Option("--filter", metavar="JSON", help="for headers the values they may have"),
        ] = None,
        routing_key: Annotated[
            str | None, typer.Option(metavar="PATTERN", help="for the header routing_key")
        ] = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Let a queue have a job for each message of a topic, or for some of them."""
        with connected(database) as client:
            made = client.admin.subscribe(
                subscription,
                topic,
                queue,
                filter=None if where is None else _json(where, "--filter"),
                routing_key=routing_key,
            )
        show_object(made, json=json)

    @command(subscriptions, "drop", examples=["pgq subscriptions drop eu"])
    def unsubscribe(
        subscription: SubscriptionName, yes: Yes = False, database: Database = ""
    ) -> None:
        """End a subscription; asks first. Jobs that it has made stay."""
        with connected(database) as client:
            confirm(f'End subscription "{subscription}"?', yes)
            client.admin.unsubscribe(subscription)
        write_line(f'ended subscription "{subscription}"')


def _json(text: str, what: str) -> Any:
    try:
        return json_of(text)
    except ValueError as error:
        raise UsageError(f"{what} is not JSON: {error}") from None


def _schedules(app: typer.Typer) -> None:
    schedules = family("schedules", "Schedules: jobs and messages at certain times.", app)
    shown = ("schedule", "topic", "queue", "cron", "every", "time_zone", "paused", "next_at")

    @command(
        schedules, "list", examples=["pgq schedules list", "pgq schedules list --json"], table=True
    )
    def list_schedules(database: Database = "", json: AsJson = False) -> None:
        """Show the schedules, and when each comes next."""
        with connected(database, read_only=True) as client:
            show_rows(
                client.schedules.list_schedules(),
                json=json,
                columns=(*shown, "last_at", "last_error"),
                nothing="no schedules",
            )

    @command(schedules, "show", examples=["pgq schedules show nightly"])
    def show_schedule(
        schedule: ScheduleName, database: Database = "", json: AsJson = False
    ) -> None:
        """Show all of a schedule."""
        with connected(database, read_only=True) as client:
            found = client.schedules.list_schedules(schedule)
        if not found:
            raise CommandError(f'unknown schedule "{schedule}"')
        show_object(found[0], json=json)

    @command(
        schedules,
        "create",
        examples=[
            "pgq schedules create nightly --queue reports --cron '0 3 * * *' --payload '{}'",
            "pgq schedules create tick --topic ticks --every 10s --payload 1",
        ],
    )
    def create_schedule(
        schedule: ScheduleName,
        payload: Annotated[str, typer.Option(metavar="JSON", help="of each tick")],
        queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="gets the jobs")] = None,
        topic: Annotated[
            str | None, typer.Option(metavar="TOPIC", help="gets the messages")
        ] = None,
        cron: Annotated[
            str | None, typer.Option(metavar="'M H D M W'", help="five fields, or @daily …")
        ] = None,
        every: Every = None,
        time_zone: Annotated[str | None, typer.Option(help="of --cron; default: UTC")] = None,
        key: Annotated[str | None, typer.Option(help="the key of what it writes")] = None,
        header: Annotated[
            list[str] | None, typer.Option(metavar="NAME=VALUE", help="repeatable")
        ] = None,
        missed: Annotated[
            str | None, typer.Option(metavar="WHAT", help="of missed ticks write: skip, one, all")
        ] = None,
        starts_at: StartsAt = None,
        partition: Annotated[int | None, typer.Option(min=0, help="of --topic")] = None,
        priority: Annotated[int | None, typer.Option(min=0, max=9, help="of its jobs")] = None,
        label: Annotated[str | None, typer.Option(help="of its jobs")] = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Create a schedule; one that is there has to have the settings that are given."""
        with connected(database) as client:
            made = client.schedules.create_schedule(
                schedule,
                topic=topic,
                queue=queue,
                payload=_json(payload, "--payload"),
                key=key,
                headers=headers_of(header),
                cron=cron,
                every=every,
                time_zone=time_zone,
                missed=missed,
                starts_at=starts_at,
                partition=partition,
                priority=priority,
                label=label,
            )
        show_object(made, json=json)

    @command(schedules, "drop", examples=["pgq schedules drop nightly"])
    def drop_schedule(schedule: ScheduleName, yes: Yes = False, database: Database = "") -> None:
        """Drop a schedule; asks first. What it has written stays."""
        with connected(database) as client:
            confirm(f'Drop schedule "{schedule}"?', yes)
            client.schedules.drop_schedule(schedule)
        write_line(f'dropped schedule "{schedule}"')

    @command(schedules, "pause", examples=["pgq schedules pause nightly"])
    def pause_schedule(schedule: ScheduleName, database: Database = "") -> None:
        """Let no tick of a schedule be written until it is resumed."""
        with connected(database) as client:
            client.schedules.pause_schedule(schedule)
        write_line(f'schedule "{schedule}" is paused')

    @command(schedules, "resume", examples=["pgq schedules resume nightly"])
    def resume_schedule(schedule: ScheduleName, database: Database = "") -> None:
        """End a pause."""
        with connected(database) as client:
            resumed = client.schedules.resume_schedule(schedule)
        write_line(f'schedule "{schedule}" goes on at {instant(resumed.next_at)}')

    @command(
        schedules, "run", examples=["pgq schedules run", "pgq schedules run --limit 10"], table=True
    )
    def run_schedules(
        limit: Limit = None,
        database: Database = "",
        json: AsJson = False,
    ) -> int:
        """Write what is due of all schedules; exit status 1 where something could not be."""
        with connected(database) as client:
            rows = client.schedules.run_schedules(limit)
        show_rows(rows, json=json, nothing="nothing was due")
        return 1 if any(row.error is not None for row in rows) else 0

    @command(
        schedules, "next", examples=["pgq schedules next '*/5 9-17 * * 1-5' --limit 3"], table=True
    )
    def next_ticks(
        cron: str,
        time_zone: Annotated[str | None, typer.Option(help="default: UTC")] = None,
        limit: Limit = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Show the next times of a cron expression, to try it out."""
        with connected(database, read_only=True) as client:
            times = client.schedules.next_ticks(cron, time_zone=time_zone, max_ticks=limit)
        show_rows([{"tick_at": one} for one in times], json=json, columns=("tick_at",))
