"""``pgq groups``, ``pgq lag`` and ``pgq seek``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from pgq.cli._complete import GroupName, TopicName, topic_names
from pgq.cli._errors import CommandError
from pgq.cli._house import AsJson, Database, Yes, command, confirm, connected, family
from pgq.cli._output import show_object, show_rows, write_line
from pgq.cli._values import a_moment

__all__ = ["add"]

OutOfRange = Annotated[
    str | None,
    typer.Option(metavar="WHAT", help="when retention was faster than the group: error or skip"),
]
MaxAttempts = Annotated[
    int | None, typer.Option(min=1, help="failures before a message is a dead letter")
]
DeadLetterTopic = Annotated[
    str | None, typer.Option(metavar="TOPIC", help="where dead letters go; with --max-attempts")
]
At = Annotated[datetime | None, a_moment("the first message published then or later is next")]
AnyTopic = Annotated[
    str | None, typer.Argument(metavar="TOPIC", autocompletion=topic_names, show_default=False)
]
Partition = Annotated[int | None, typer.Option(min=0, help="only this partition")]

_LAG = (
    "topic",
    "consumer_group",
    "partition",
    "committed_offset",
    "last_offset",
    "lag",
    "oldest_published_at",
    "leased_until",
    "attempt",
    "last_error",
)
_SEEKS = [
    "pgq seek orders billing --start earliest",
    "pgq seek orders billing --at '2 hours ago'",
    "pgq seek orders billing --partition 3 --offset 1200",
]


def _lag(
    topic: AnyTopic = None,
    group: Annotated[str | None, typer.Argument(metavar="GROUP", show_default=False)] = None,
    database: Database = "",
    json: AsJson = False,
) -> None:
    """Show how far groups are behind, in each partition."""
    with connected(database, read_only=True) as client:
        if topic is not None:
            names = [one.consumer_group for one in client.admin.list_groups(topic)]
            if group is not None and group not in names:
                raise CommandError(f'unknown consumer group "{group}" of topic "{topic}"')
        rows = client.monitor.group_lag(topic, group)
    show_rows(rows, json=json, columns=_LAG, nothing="no groups")


def _seek(
    topic: TopicName,
    group: GroupName,
    start: Annotated[str | None, typer.Option(metavar="WHERE", help="earliest or latest")] = None,
    at: At = None,
    offset: Annotated[
        int | None, typer.Option(help="the offset to read next, of one partition")
    ] = None,
    partition: Partition = None,
    database: Database = "",
    json: AsJson = False,
) -> None:
    """Move a group back to read again, or ahead to skip; say one of --start, --at, --offset."""
    with connected(database) as client:
        rows = client.admin.seek(
            topic, group, partition=partition, log_offset=offset, published_at=at, start=start
        )
    show_rows(rows, json=json)


def add(app: typer.Typer) -> None:
    """Add the commands."""
    groups = family("groups", "Consumer groups: readers of a topic, with their positions.", app)
    for place in (app, groups):
        word = "pgq lag" if place is app else "pgq groups lag"
        command(
            place,
            "lag",
            examples=[word, f"{word} orders", f"{word} orders billing --json"],
            table=True,
        )(_lag)
        command(
            place,
            "seek",
            examples=[one.replace("pgq", word.removesuffix(" lag"), 1) for one in _SEEKS],
            table=True,
        )(_seek)

    @command(groups, "list", examples=["pgq groups list", "pgq groups list orders"], table=True)
    def list_groups(topic: AnyTopic = None, database: Database = "", json: AsJson = False) -> None:
        """Show the groups of a topic, or of all."""
        with connected(database, read_only=True) as client:
            show_rows(client.admin.list_groups(topic), json=json, nothing="no groups")

    @command(groups, "show", examples=["pgq groups show orders billing"], table=True)
    def show_group(
        topic: TopicName, group: GroupName, database: Database = "", json: AsJson = False
    ) -> None:
        """Show one group: its settings, and where it stands in each partition."""
        with connected(database, read_only=True) as client:
            found = [one for one in client.admin.list_groups(topic) if one.consumer_group == group]
            if not found:
                raise CommandError(f'unknown consumer group "{group}" of topic "{topic}"')
            lags = client.monitor.group_lag(topic, group)
        if json:
            settings = {name: getattr(found[0], name) for name in found[0].__slots__}
            show_object({**settings, "lag": lags}, json=True)
            return
        show_object(found[0])
        write_line()
        show_rows(lags, columns=_LAG[2:])

    @command(
        groups,
        "create",
        examples=[
            "pgq groups create orders billing",
            "pgq groups create orders mails --start latest",
            "pgq groups create orders risky --max-attempts 5 --dead-letter-topic orders-dead",
        ],
    )
    def create_group(
        topic: TopicName,
        group: GroupName,
        start: Annotated[
            str | None, typer.Option(metavar="WHERE", help="earliest (default) or latest")
        ] = None,
        out_of_range: OutOfRange = None,
        max_attempts: MaxAttempts = None,
        dead_letter_topic: DeadLetterTopic = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Create a group; one that is there has to have the settings that are given."""
        with connected(database) as client:
            made = client.admin.create_group(
                topic,
                group,
                start=start,
                out_of_range=out_of_range,
                max_attempts=max_attempts,
                dead_letter_topic=dead_letter_topic,
            )
        show_object(made, json=json)

    @command(groups, "alter", examples=["pgq groups alter orders billing --out-of-range skip"])
    def alter_group(
        topic: TopicName,
        group: GroupName,
        out_of_range: OutOfRange = None,
        max_attempts: MaxAttempts = None,
        dead_letter_topic: DeadLetterTopic = None,
        no_limit: Annotated[
            list[str] | None, typer.Option(metavar="NAME", help="max_attempts: no such limit")
        ] = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Change the settings that are given."""
        with connected(database) as client:
            changed = client.admin.alter_group(
                topic,
                group,
                out_of_range=out_of_range,
                max_attempts=max_attempts,
                dead_letter_topic=dead_letter_topic,
                no_limit=no_limit,
            )
        show_object(changed, json=json)

    @command(groups, "drop", examples=["pgq groups drop orders billing"])
    def drop_group(
        topic: TopicName, group: GroupName, yes: Yes = False, database: Database = ""
    ) -> None:
        """Drop a group with its positions; asks first. The messages stay."""
        with connected(database) as client:
            if not yes:
                lag = sum(one.lag for one in client.monitor.group_lag(topic, group))
                confirm(f'Drop group "{group}" of topic "{topic}", {lag:,} messages behind?', yes)
            client.admin.drop_group(topic, group)
        write_line(f'dropped group "{group}" of topic "{topic}"')
