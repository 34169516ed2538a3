"""What ``pgq status`` shows."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta, timezone

import psycopg
from rich.console import Console
from rich.table import Table

from pgq import Client, GroupLag

__all__ = ["show"]


def show(database: str, *, console: Console | None = None) -> None:
    """Print the topics, the groups' lag and the queues of a database."""
    console = console or Console()
    with psycopg.connect(database) as connection:
        connection.read_only = True
        client = Client(connection)
        console.print(f"[bold]pgq {client.version()}[/] in database {connection.info.dbname}")
        for table in (_topics(client), _groups(client), _queues(client)):
            if table.row_count:
                console.print(table)
            else:
                console.print(f"no {table.title}", style="dim")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_style="bold", title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def _topics(client: Client) -> Table:
    table = _table("topics", "topic", "partitions", "retention", "messages", "in the last minute")
    messages: dict[str, int] = defaultdict(int)
    recent: dict[str, int] = defaultdict(int)
    for row in client.monitor.topic_stats():
        messages[row.topic] += row.messages
        recent[row.topic] += row.published_last_minute
    for topic in client.admin.list_topics():
        table.add_row(
            topic.topic,
            str(topic.partitions),
            "for ever" if topic.retention is None else _span(topic.retention),
            f"{messages[topic.topic]:,}",
            f"{recent[topic.topic]:,}",
        )
    return table


def _groups(client: Client) -> Table:
    table = _table("groups", "topic / group", "lag", "oldest unread", "partitions leased")
    groups: dict[tuple[str, str], list[GroupLag]] = defaultdict(list)
    for row in client.monitor.group_lag():
        groups[row.topic, row.consumer_group].append(row)
    now = datetime.now(timezone.utc)
    for (topic, group), rows in sorted(groups.items()):
        unread = [row.oldest_published_at for row in rows if row.oldest_published_at is not None]
        leased = sum(1 for row in rows if row.leased_until is not None and row.leased_until > now)
        table.add_row(
            f"{topic} / {group}",
            f"{sum(row.lag for row in rows):,}",
            f"{_span(now - min(unread))} ago" if unread else "",
            f"{leased} of {len(rows)}",
        )
    return table


def _queues(client: Client) -> Table:
    table = _table(
        "queues",
        "queue",
        "ready",
        "leased",
        "delayed",
        "waiting",
        "expired",
        "dead",
        "oldest ready",
        "",
    )
    now = datetime.now(timezone.utc)
    for row in client.monitor.queue_stats():
        counts = (row.ready, row.leased, row.delayed, row.waiting, row.expired, row.dead)
        table.add_row(
            row.queue,
            *(f"{count:,}" for count in counts),
            f"{_span(now - row.oldest_ready_at)} ago" if row.oldest_ready_at else "",
            "paused" if row.paused else "",
        )
    return table


def _span(span: timedelta) -> str:
    """A length of time in its two largest units."""
    seconds = max(0, int(span.total_seconds()))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
