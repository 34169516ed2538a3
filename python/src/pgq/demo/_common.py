"""What the demos share: where they play, and how they show what came out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from rich.console import Console
from rich.markup import escape

from pgq import Client
from pgq._conninfo import parsed
from pgq.embedded import EmbeddedServerError, Server
from pgq.migrate import MigrationError, migrate

__all__ = [
    "Belongings",
    "Check",
    "DemoError",
    "conclude",
    "installed",
    "mark",
    "one",
    "reserved",
    "target",
]


class DemoError(Exception):
    """The demo cannot run, or had to give up; the message says why."""


@dataclass(frozen=True)
class Check:
    """One statement that holds or does not."""

    holds: bool
    text: str


@dataclass(frozen=True)
class Belongings:
    """What a demo makes in the database, by its name, and has to take away again."""

    demo: str
    schema: str
    topics: Sequence[str] = ()
    queues: Sequence[str] = ()
    schedules: Sequence[str] = ()


# -- the stage -------------------------------------------------------------------------------------


@contextmanager
def target(database: str | None) -> Iterator[str]:
    """Yield the connection string: the given one, else DATABASE_URL, else a temporary server's."""
    url = database or os.environ.get("DATABASE_URL")
    if url:
        parsed(url)
        yield url
        return
    try:
        server = Server(password=True).start()
    except EmbeddedServerError as error:
        raise DemoError(str(error)) from None
    with server:
        yield server.dsn


@contextmanager
def installed(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Install pgq where it is not, and take it away again unless it has found users."""
    client = Client(connection)
    if _is_installed(client):
        yield
        return
    try:
        migrate(connection)
    except MigrationError as error:
        raise DemoError(str(error)) from None
    try:
        yield
    finally:
        if not connection.closed:
            with connection.transaction():
                if not client.admin.list_topics() and not client.admin.list_queues():
                    connection.execute("drop schema pgq cascade")


def _is_installed(client: Client) -> bool:
    try:
        client.version()
        client.admin.list_topics()
    except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction):
        return False
    return True


@contextmanager
def reserved(client: Client, belongings: Belongings) -> Iterator[None]:
    """Have the demo's names to oneself, and remove in the end what was made under them.

    The schema tells what a demo that was killed has left from what somebody else has made. It has
    to be made in one transaction with the rest.
    """
    connection = client.connection
    if not one(connection, "select pg_try_advisory_lock(hashtext(%s))", belongings.demo):
        raise DemoError("another demo is running in this database")
    if one(connection, "select to_regnamespace(%s) is not null", belongings.schema):
        _clear(client, belongings)
    for topic in client.admin.list_topics():
        if topic.topic in belongings.topics:
            raise DemoError(f'there is a topic "{topic.topic}" that the demo did not make')
    for queue in client.admin.list_queues():
        if queue.queue in belongings.queues:
            raise DemoError(f'there is a queue "{queue.queue}" that the demo did not make')
    for schedule in client.schedules.list_schedules():
        if schedule.schedule in belongings.schedules:
            raise DemoError(f'there is a schedule "{schedule.schedule}" that the demo did not make')
    try:
        yield
    finally:
        if not connection.closed:
            _settle(connection)
            _clear(client, belongings)


def _settle(connection: psycopg.Connection[Any]) -> None:
    """End a query that a signal has torn off within psycopg, and its transaction."""
    if connection.info.transaction_status == TransactionStatus.ACTIVE:
        connection.cancel_safe()
        while connection.pgconn.get_result():
            pass
    connection.rollback()


def _clear(client: Client, belongings: Belongings) -> None:
    with client.connection.transaction():
        for schedule in client.schedules.list_schedules():
            if schedule.schedule in belongings.schedules:
                client.schedules.drop_schedule(schedule.schedule)
        for topic in client.admin.list_topics():
            if topic.topic in belongings.topics:
                client.admin.drop_topic(topic.topic)
        for queue in client.admin.list_queues():
            if queue.queue in belongings.queues:
                client.admin.drop_queue(queue.queue)
        schema = sql.Identifier(belongings.schema)
        client.connection.execute(sql.SQL("drop schema if exists {} cascade").format(schema))


def one(connection: psycopg.Connection[Any], statement: str, *values: Any) -> Any:
    """The first column of the first row."""
    row = connection.execute(statement.encode(), values).fetchone()
    return row[0] if row else None


# -- the summary -----------------------------------------------------------------------------------


def conclude(console: Console, checks: Sequence[Check]) -> int:
    """Show the checks and what they come to; returns the exit status."""
    console.print()
    for check in checks:
        console.print(f"{mark(console, check.holds)} {escape(check.text)}", highlight=False)
    if all(check.holds for check in checks):
        console.print("\n[bold green]Nothing lost, nothing counted twice.[/]")
        return 0
    console.print("\n[bold red]The figures do not agree.[/]")
    return 1


def mark(console: Console, good: bool) -> str:
    """A sign for right or wrong that the terminal can show."""
    if console.encoding.lower().startswith("utf"):
        return "[green]✓[/]" if good else "[red]✗[/]"
    return "[green]ok[/]" if good else "[red]WRONG[/]"
