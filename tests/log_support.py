"""What the tests of the log share and is no fixture."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from support import backend_pid, wait_until_blocked

__all__ = [
    "PATIENCE",
    "WAYS_TO_MOVE",
    "WAYS_TO_PUBLISH",
    "Log",
    "aside",
    "blocked",
    "committed_offsets",
    "contents",
    "group_settings",
    "new_name",
    "new_topic",
    "newest",
    "offsets",
    "refused",
    "unchanged",
    "ways_to_move",
    "ways_to_publish",
]

AnyConnection = psycopg.Connection[Any]
Result = TypeVar("Result")

PATIENCE = 30.0
"""Seconds after which a thread that should have ended counts as stuck."""

WAYS_TO_MOVE = [
    "claim_offsets",
    "claim_offsets of a partition",
    "consume",
    "poll",
    "commit_offset",
    "seek",
]
WAYS_TO_PUBLISH = ["publish", "publish by key", "publish_batch", "publish_batch by key"]

_names = itertools.count(1)

_TYPES = {
    "topic": "text",
    "consumer_group": "text",
    "partitions": "integer",
    "retention": "interval",
    "max_bytes": "bigint",
    "notify": "boolean",
    "no_limit": "text[]",
    "payload": "jsonb",
    "payloads": "jsonb[]",
    "body": "bytea",
    "bodies": "bytea[]",
    "key": "text",
    "keys": "text[]",
    "partition": "integer",
    "first_offset": "bigint",
    "last_offset": "bigint",
    "log_offset": "bigint",
    "published_at": "timestamptz",
    "max_messages": "integer",
    "lease": "interval",
    "lease_token": "uuid",
    "start": "text",
    "out_of_range": "text",
}
_SETS = {
    "claim_offsets",
    "cleanup",
    "consume",
    "fetch",
    "fetch_range",
    "list_groups",
    "list_offsets",
    "list_topics",
    "poll",
    "publish_batch",
    "seek",
}
_ROWS = {"alter_group", "alter_topic", "create_group", "create_topic", "publish"}


class Log:
    """The functions of the schema pgq on one connection, called with named arguments.

    A function that returns a set gives a list of named tuples, one that returns a composite a named
    tuple, any other its value.
    """

    def __init__(self, connection: AnyConnection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.commit = connection.commit
        self.rollback = connection.rollback

    def __getattr__(self, function: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            cursor = self.connection.cursor(row_factory=namedtuple_row)
            cursor.execute(self._query(function, arguments), _adapted(arguments))
            if function in _SETS:
                return cursor.fetchall()
            row = cursor.fetchone()
            assert row is not None
            return row if function in _ROWS else row[0]

        return call

    @staticmethod
    def _query(function: str, arguments: dict[str, Any]) -> sql.Composed:
        types = dict(_TYPES, headers="jsonb[]" if function == "publish_batch" else "jsonb")
        return sql.SQL("select * from pgq.{}({})").format(
            sql.Identifier(function),
            sql.SQL(", ").join(
                sql.SQL("{} => {}::{}").format(
                    sql.Identifier(name), sql.Placeholder(name), sql.SQL(types[name])
                )
                for name in arguments
            ),
        )

    @property
    def pid(self) -> int:
        """The server process of the connection."""
        return backend_pid(self.connection)


def _adapted(arguments: dict[str, Any]) -> dict[str, Any]:
    """Wrap what is JSON: payloads and headers are given as Python values, null as None."""

    def wrap(value: Any) -> Any:
        return value if value is None or isinstance(value, str | Jsonb) else Jsonb(value)

    wrapped = dict(arguments)
    for name in ("payload", "headers", "payloads"):
        value = wrapped.get(name)
        if isinstance(value, list) and name != "payload":
            wrapped[name] = [wrap(element) for element in value]
        elif name in wrapped:
            wrapped[name] = wrap(value)
    return wrapped


def new_name(stem: str = "topic") -> str:
    """A name that no other test of the run uses."""
    return f"{stem}-{next(_names)}"


def new_topic(
    log: Log, partitions: int = 1, *, messages: int = 0, groups: tuple[str, ...] = ("readers",)
) -> str:
    """A new topic with groups; each partition gets messages whose payloads are 1, 2, …"""
    topic = new_name()
    log.create_topic(topic=topic, partitions=partitions)
    for group in groups:
        log.create_group(topic=topic, consumer_group=group)
    if messages:
        for partition in range(partitions):
            log.publish_batch(
                topic=topic, payloads=list(range(1, messages + 1)), partition=partition
            )
    return topic


def offsets(rows: list[Any]) -> list[int]:
    """The offsets of messages, as they came."""
    return [row.log_offset for row in rows]


def newest(log: Log, topic: str, partition: int = 0) -> int:
    """The newest offset of a partition, as the view tells."""
    row = log.execute(
        "select last_offset from pgq.topic_stats where topic = %s and partition = %s",
        [topic, partition],
    ).fetchone()
    assert row is not None
    return int(row[0])


def committed_offsets(log: Log, topic: str, consumer_group: str) -> list[int]:
    """The committed offset of a group in each partition, as the view tells."""
    rows = log.execute(
        "select committed_offset from pgq.group_lag where topic = %s and consumer_group = %s"
        " order by partition",
        [topic, consumer_group],
    ).fetchall()
    return [row[0] for row in rows]


def group_settings(
    log: Log, topic: str, consumer_group: str = "readers"
) -> tuple[str, list[str]] | None:
    """What a group does out of range: as it is listed, and as each of its partitions has it."""
    rows = log.execute(
        "select g.out_of_range, array_agg(l.out_of_range order by l.partition)"
        " from pgq.list_groups(topic => %s) as g"
        " left join pgq.group_partition as l using (topic, consumer_group)"
        " where g.consumer_group = %s group by g.out_of_range",
        [topic, consumer_group],
    ).fetchall()
    return rows[0] if rows else None


# ---------------------------------------------------------------------------- refusals


def contents(connection: AnyConnection) -> dict[str, tuple[int, str]]:
    """The number of rows and a digest of every table of pgq."""
    tables = connection.execute(
        "select relname from pg_class"
        " where relnamespace = 'pgq'::regnamespace and relkind = 'r' order by 1"
    ).fetchall()
    parts = [
        sql.SQL(
            "select {}, count(*), coalesce(md5(string_agg(t::text, ',' order by t::text)), '')"
            " from pgq.{} as t"
        ).format(sql.Literal(name), sql.Identifier(name))
        for (name,) in tables
    ]
    rows = connection.execute(sql.SQL(" union all ").join(parts)).fetchall()
    return {name: (count, digest) for name, count, digest in rows}


@contextmanager
def unchanged(log: Log) -> Iterator[None]:
    """What is in the block must leave every table of pgq as it was."""
    before = contents(log.connection)
    yield
    assert contents(log.connection) == before


def refused(sqlstate: str, function: Callable[..., Any], **arguments: Any) -> psycopg.Error:
    """Call a function that must fail with this SQLSTATE, and return its error."""
    with pytest.raises(psycopg.Error) as caught:
        function(**arguments)
    assert caught.value.sqlstate == sqlstate, f"{arguments}: {caught.value}"
    return caught.value


# ---------------------------------------------------------------------------- concurrency


def aside(work: Callable[[], Result]) -> Future[Result]:
    """Run something in a thread of its own; the future has its result or its error."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def blocked(observer: Log, waiter: Log, work: Callable[[], Result]) -> Future[Result]:
    """Run something on the waiter's connection and return once it waits for a lock."""
    future = aside(work)
    wait_until_blocked(observer.connection, waiter.pid)
    assert not future.done()
    return future


# ------------------------------------------------------------- publishers and members of groups

# partitions of 8 that a key belongs to
_KEY_OF = {0: "b", 1: "a", 2: "c"}


def ways_to_publish(log: Log, topic: str, partition: int = 0) -> dict[str, Callable[[], Any]]:
    """The functions that write to one partition of 8; each writes one message."""
    return {
        "publish": lambda: log.publish(topic=topic, payload=7, partition=partition),
        "publish by key": lambda: log.publish(topic=topic, payload=7, key=_KEY_OF[partition]),
        "publish_batch": lambda: log.publish_batch(topic=topic, payloads=[7], partition=partition)[
            0
        ],
        "publish_batch by key": lambda: log.publish_batch(
            topic=topic, payloads=[7], keys=[_KEY_OF[partition]]
        )[0],
    }


def ways_to_move(log: Log, topic: str) -> dict[str, Callable[[], Any]]:
    """What moves a group's position or lease in partition 0, which has ten messages."""
    names = {"topic": topic, "consumer_group": "readers"}
    return {
        "claim_offsets": lambda: log.claim_offsets(max_messages=2, **names),
        "claim_offsets of a partition": lambda: log.claim_offsets(
            max_messages=2, partition=0, **names
        ),
        "consume": lambda: log.consume(max_messages=2, **names),
        "poll": lambda: log.poll(max_messages=2, **names),
        "commit_offset": lambda: log.commit_offset(partition=0, last_offset=9, **names),
        "seek": lambda: log.seek(start="latest", **names),
    }
