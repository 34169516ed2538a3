"""Completion of names from the database; where it does not answer at once, none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import psycopg
import typer

from pgq import Client

__all__ = [
    "GroupName",
    "JobId",
    "QueueName",
    "ScheduleName",
    "SubscriptionName",
    "TopicName",
    "queue_names",
    "topic_names",
]


def _names(
    ask: Callable[[Client, dict[str, Any]], Iterable[str]],
) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        given = ctx.params or {}
        place = given.get("database") or os.environ.get("DATABASE_URL", "")
        try:
            with psycopg.connect(place, connect_timeout=2, autocommit=True) as connection:
                # somebody waits at a prompt
                connection.execute("set statement_timeout = '2s'")
                names = sorted(set(ask(Client(connection), given)))
        except (psycopg.Error, OSError):
            return []
        return [name for name in names if name.startswith(incomplete)]

    return complete


topic_names = _names(lambda client, given: (one.topic for one in client.admin.list_topics()))
queue_names = _names(lambda client, given: (one.queue for one in client.admin.list_queues()))
_groups = _names(
    lambda client, given: (
        one.consumer_group for one in client.admin.list_groups(given.get("topic"))
    )
)
_schedules = _names(
    lambda client, given: (one.schedule for one in client.schedules.list_schedules())
)
_subscriptions = _names(
    lambda client, given: (one.subscription for one in client.admin.list_subscriptions())
)

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=topic_names)]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=queue_names)]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=_groups)]
ScheduleName = Annotated[str, typer.Argument(metavar="SCHEDULE", autocompletion=_schedules)]
SubscriptionName = Annotated[
    str, typer.Argument(metavar="SUBSCRIPTION", autocompletion=_subscriptions)
]
JobId = Annotated[int, typer.Argument(metavar="JOB", help="the id of the job")]
