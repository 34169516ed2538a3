"""``pgq topics``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from pgq import UnknownTopic
from pgq.cli._complete import TopicName
from pgq.cli._errors import unknown
from pgq.cli._house import AsJson, Database, Yes, command, confirm, connected, family, is_there
from pgq.cli._output import show_object, show_rows, write_line
from pgq.cli._values import a_span

__all__ = ["add"]

Partitions = Annotated[int | None, typer.Option(min=1, help="how many partitions; default: 8")]
MaxMessage = Annotated[
    int | None,
    typer.Option(min=1024, help="largest content of a message, in bytes; default: 1 MiB"),
]
MaxBytes = Annotated[int | None, typer.Option(min=1, help="the oldest go when there are more")]
Notify = Annotated[
    bool | None, typer.Option("--notify/--no-notify", help="wake those who wait at each publish")
]
Retention = Annotated[
    timedelta | None, a_span("messages are kept so long at least; default: 7 days")
]
Window = Annotated[timedelta | None, a_span("idempotency keys count so long; default: 1 day")]
NoLimit = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="retention or max_bytes: no such limit; repeatable"),
]


def add(app: typer.Typer) -> None:
    """Add the commands."""
    topics = family("topics", "Topics: logs of messages, in partitions.", app)

    @command(
        topics,
        "list",
        examples=["pgq topics list", "pgq topics list --json | jq .[].topic"],
        table=True,
    )
    def list_topics(database: Database = "", json: AsJson = False) -> None:
        """Show the topics and their settings."""
        with connected(database, read_only=True) as client:
            show_rows(
                client.admin.list_topics(),
                json=json,
                columns=("topic", "partitions", "retention", "max_bytes", "notify", "deferred"),
                nothing="no topics",
            )

    @command(topics, "show", examples=["pgq topics show orders"], table=True)
    def show_topic(topic: TopicName, database: Database = "", json: AsJson = False) -> None:
        """Show one topic: its settings, and what each partition holds."""
        with connected(database, read_only=True) as client:
            found = [one for one in client.admin.list_topics() if one.topic == topic]
            if not found:
                raise unknown("topic", topic)
            stats = client.monitor.topic_stats(topic)
        if json:
            settings = {name: getattr(found[0], name) for name in found[0].__slots__}
            show_object({**settings, "stats": stats}, json=True)
            return
        show_object(found[0])
        write_line()
        show_rows(
            stats,
            columns=(
                "partition",
                "first_offset",
                "last_offset",
                "messages",
                "published_last_minute",
            ),
        )

    @command(
        topics,
        "create",
        examples=[
            "pgq topics create orders",
            "pgq topics create clicks --partitions 16 --retention '3 days' --notify",
            "pgq topics create audit --no-limit retention",
        ],
    )
    def create_topic(
        topic: TopicName,
        partitions: Partitions = None,
        retention: Retention = None,
        max_bytes: MaxBytes = None,
        notify: Notify = None,
        idempotency_window: Window = None,
        max_message_bytes: MaxMessage = None,
        no_limit: NoLimit = None,
        deferred: Annotated[
            bool | None,
            typer.Option(
                "--deferred/--no-deferred", help="a publish locks nothing; see create_topic"
            ),
        ] = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Create a topic; one that is there has to have the settings that are given."""
        with connected(database) as client:
            known = not json and is_there(client.admin.list_topics, topic=topic)
            made = client.admin.create_topic(
                topic,
                partitions=partitions,
                retention=retention,
                max_bytes=max_bytes,
                notify=notify,
                idempotency_window=idempotency_window,
                max_message_bytes=max_message_bytes,
                no_limit=no_limit,
                deferred=deferred,
            )
        if known:
            write_line(f'topic "{topic}" exists already')
        show_object(made, json=json)

    @command(
        topics,
        "alter",
        examples=["pgq topics alter orders --retention 30d", "pgq topics alter orders --notify"],
    )
    def alter_topic(
        topic: TopicName,
        partitions: Partitions = None,
        retention: Retention = None,
        max_bytes: MaxBytes = None,
        notify: Notify = None,
        idempotency_window: Window = None,
        max_message_bytes: MaxMessage = None,
        no_limit: NoLimit = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Change the settings that are given; the number of partitions can only grow."""
        with connected(database) as client:
            changed = client.admin.alter_topic(
                topic,
                partitions=partitions,
                retention=retention,
                max_bytes=max_bytes,
                notify=notify,
                idempotency_window=idempotency_window,
                max_message_bytes=max_message_bytes,
                no_limit=no_limit,
            )
        show_object(changed, json=json)

    @command(topics, "drop", examples=["pgq topics drop orders", "pgq topics drop orders --yes"])
    def drop_topic(topic: TopicName, yes: Yes = False, database: Database = "") -> None:
        """Drop a topic with its messages and its groups; asks first."""
        with connected(database) as client:
            if not yes:
                try:
                    groups = len(client.admin.list_groups(topic))
                except UnknownTopic:
                    raise unknown("topic", topic) from None
                messages = sum(one.messages for one in client.monitor.topic_stats(topic))
                confirm(
                    f'Drop topic "{topic}" with {messages:,} messages and {groups:,} groups?', yes
                )
            client.admin.drop_topic(topic)
        write_line(f'dropped topic "{topic}"')
