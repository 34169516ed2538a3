"""How a method call becomes a statement: the signatures, and nothing of either client's I/O."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar, Union

from psycopg.types.json import Json, Jsonb

T = TypeVar("T")


class NotGiven(Enum):
    """The type of `NOT_GIVEN`."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN = NotGiven.NOT_GIVEN
"""Default of every argument that has a default in SQL: it is left out of the call.

None is something else: it is passed, as null.
"""

Option = Union[T, NotGiven]  # noqa: UP007 (a generic alias cannot be written with |)

SIGNATURES: Mapping[str, Mapping[str, str]] = {
    "create_topic": {
        "topic": "text",
        "partitions": "integer",
        "retention": "interval",
        "max_bytes": "bigint",
        "notify": "boolean",
    },
    "alter_topic": {
        "topic": "text",
        "partitions": "integer",
        "retention": "interval",
        "max_bytes": "bigint",
        "notify": "boolean",
        "no_limit": "text[]",
    },
    "drop_topic": {"topic": "text"},
    "list_topics": {},
    "publish": {
        "topic": "text",
        "payload": "jsonb",
        "key": "text",
        "headers": "jsonb",
        "partition": "integer",
        "body": "bytea",
    },
    "publish_batch": {
        "topic": "text",
        "payloads": "jsonb[]",
        "bodies": "bytea[]",
        "keys": "text[]",
        "headers": "jsonb[]",
        "partition": "integer",
    },
    "create_group": {
        "topic": "text",
        "consumer_group": "text",
        "start": "text",
        "out_of_range": "text",
    },
    "drop_group": {"topic": "text", "consumer_group": "text"},
    "list_groups": {"topic": "text"},
    "claim_offsets": {
        "topic": "text",
        "consumer_group": "text",
        "max_messages": "integer",
        "partition": "integer",
    },
    "fetch_range": {
        "topic": "text",
        "partition": "integer",
        "first_offset": "bigint",
        "last_offset": "bigint",
    },
    "list_offsets": {"topic": "text", "published_at": "timestamptz"},
    "check_range": {
        "topic": "text",
        "partition": "integer",
        "first_offset": "bigint",
        "last_offset": "bigint",
    },
    "consume": {
        "topic": "text",
        "consumer_group": "text",
        "max_messages": "integer",
        "partition": "integer",
    },
    "fetch": {
        "topic": "text",
        "consumer_group": "text",
        "max_messages": "integer",
        "partition": "integer",
    },
    "poll": {
        "topic": "text",
        "consumer_group": "text",
        "max_messages": "integer",
        "lease": "interval",
        "partition": "integer",
    },
    "extend_poll": {
        "topic": "text",
        "consumer_group": "text",
        "partition": "integer",
        "lease_token": "uuid",
        "lease": "interval",
    },
    "release": {
        "topic": "text",
        "consumer_group": "text",
        "partition": "integer",
        "lease_token": "uuid",
    },
    "commit_offset": {
        "topic": "text",
        "consumer_group": "text",
        "partition": "integer",
        "last_offset": "bigint",
        "lease_token": "uuid",
    },
    "seek": {
        "topic": "text",
        "consumer_group": "text",
        "partition": "integer",
        "log_offset": "bigint",
        "published_at": "timestamptz",
        "start": "text",
    },
    "create_queue": {
        "queue": "text",
        "lease": "interval",
        "max_attempts": "integer",
        "delay": "interval",
        "retention": "interval",
        "backoff": "interval",
        "backoff_max": "interval",
        "backoff_jitter": "double precision",
        "archive": "boolean",
        "notify": "boolean",
    },
    "alter_queue": {
        "queue": "text",
        "lease": "interval",
        "max_attempts": "integer",
        "delay": "interval",
        "retention": "interval",
        "backoff": "interval",
        "backoff_max": "interval",
        "backoff_jitter": "double precision",
        "archive": "boolean",
        "notify": "boolean",
        "no_limit": "text[]",
    },
    "drop_queue": {"queue": "text"},
    "list_queues": {},
    "pause_queue": {"queue": "text"},
    "resume_queue": {"queue": "text"},
    "purge_queue": {"queue": "text", "dead_only": "boolean"},
    "enqueue": {
        "queue": "text",
        "payload": "jsonb",
        "body": "bytea",
        "delay": "interval",
        "priority": "integer",
        "label": "text",
        "headers": "jsonb",
        "key": "text",
        "run_at": "timestamptz",
    },
    "enqueue_batch": {
        "queue": "text",
        "payloads": "jsonb[]",
        "bodies": "bytea[]",
        "delay": "interval",
        "priority": "integer",
        "labels": "text[]",
        "headers": "jsonb[]",
        "keys": "text[]",
        "run_at": "timestamptz",
    },
    "claim_job": {"queue": "text", "max_jobs": "integer", "lease": "interval", "label": "text"},
    "ack": {"job_id": "bigint", "lease_token": "uuid"},
    "finish_and_claim": {
        "queue": "text",
        "job_ids": "bigint[]",
        "lease_token": "uuid",
        "max_jobs": "integer",
        "lease": "interval",
        "label": "text",
    },
    "ack_batch": {"job_ids": "bigint[]", "lease_token": "uuid"},
    "nack": {"job_id": "bigint", "lease_token": "uuid", "delay": "interval", "error": "text"},
    "nack_batch": {
        "job_ids": "bigint[]",
        "lease_token": "uuid",
        "delay": "interval",
        "error": "text",
    },
    "archive_job": {
        "job_id": "bigint",
        "lease_token": "uuid",
        "outcome": "text",
        "result": "jsonb",
    },
    "archive_job_batch": {
        "job_ids": "bigint[]",
        "lease_token": "uuid",
        "outcome": "text",
        "result": "jsonb",
    },
    "extend_lease": {"job_id": "bigint", "lease_token": "uuid", "lease": "interval"},
    "extend_lease_batch": {"job_ids": "bigint[]", "lease_token": "uuid", "lease": "interval"},
    "redrive": {"queue": "text", "job_id": "bigint"},
    "begin_write": {
        "topic": "text",
        "queue": "text",
        "producer": "text",
        "seq": "bigint",
        "atomic": "boolean",
        "timeout": "interval",
    },
    "write_chunk": {
        "write_id": "uuid",
        "task": "integer",
        "task_attempt": "text",
        "chunk": "integer",
        "lengths": "integer[]",
        "packed_payloads": "bytea",
        "keys": "text[]",
        "headers": "jsonb[]",
        "partition": "integer",
        "priority": "integer",
        "delay": "interval",
        "labels": "text[]",
        "last_chunk": "boolean",
        "starts": "integer[]",
        "packed_bodies": "bytea",
    },
    "commit_write": {"write_id": "uuid", "expected_messages": "bigint"},
    "abort_write": {"write_id": "uuid"},
    "cleanup": {},
    "version": {},
}
"""The API: for each function its arguments, in order, with their types."""


def _jsonb(value: Any) -> Jsonb | None:
    if value is None or isinstance(value, Jsonb):
        return value
    if isinstance(value, Json):
        return Jsonb(value.obj, value.dumps)
    return Jsonb(value)


def _jsonb_array(values: Any) -> list[Jsonb | None] | None:
    return None if values is None else [_jsonb(value) for value in values]


def _array(values: Any) -> list[Any] | None:
    return None if values is None else list(values)


_ADAPT = {
    "jsonb": _jsonb,
    "jsonb[]": _jsonb_array,
    "text[]": _array,
    "bytea[]": _array,
    "integer[]": _array,
    "bigint[]": _array,
}


def call(
    function: str, arguments: Mapping[str, Any], returns: type[Any] | str | None
) -> tuple[bytes, list[Any]]:
    """Build the call of a function, with the arguments that were given.

    `returns` is a dataclass for rows of its fields, the name of the only column wanted, or None
    for a function that returns one value.
    """
    types = SIGNATURES[function]
    given = tuple(name for name, value in arguments.items() if value is not NOT_GIVEN)
    values = []
    for name in given:
        adapt = _ADAPT.get(types[name])
        values.append(adapt(arguments[name]) if adapt else arguments[name])
    known = (function, given, returns)
    if known not in _statements:
        _statements[known] = _call_statement(*known)
    return _statements[known], values


def view(
    name: str, returns: type[Any], conditions: Mapping[str, str | None]
) -> tuple[bytes, list[Any]]:
    """Build the reading of a view; conditions that are None are left out."""
    given = {column: value for column, value in conditions.items() if value is not None}
    return _view_statement(name, tuple(given), returns), list(given.values())


# The text of a statement is made once, so that psycopg recognises it and prepares it. Columns are
# named: a later version of a function may return more of them.
_statements: dict[tuple[str, tuple[str, ...], type[Any] | str | None], bytes] = {}


def _call_statement(
    function: str, given: tuple[str, ...], returns: type[Any] | str | None
) -> bytes:
    types = SIGNATURES[function]
    arguments = ", ".join(f"{name} => {_placeholder(types[name])}" for name in given)
    if returns is None:
        return f"select pgq.{function}({arguments})".encode()
    columns = f'"{returns}"' if isinstance(returns, str) else _columns(returns)
    return f"select {columns} from pgq.{function}({arguments})".encode()


def _view_statement(name: str, given: tuple[str, ...], returns: type[Any]) -> bytes:
    conditions = " and ".join(f'"{column}" = %s::text' for column in given)
    where = f" where {conditions}" if given else ""
    return f"select {_columns(returns)} from pgq.{name}{where} order by 1, 2, 3".encode()


def _placeholder(kind: str) -> str:
    # Arrays travel in binary: their text form takes several times as long to write and to read.
    return f"{'%b' if kind.endswith('[]') else '%s'}::{kind}"


def _columns(returns: type[Any]) -> str:
    return ", ".join(f'"{field.name}"' for field in fields(returns))


def pause(attempt: int, backoff: timedelta) -> float:
    """Seconds to wait after the failed attempt of that number: doubling, at random from half of it.

    The longest wait is 64 times the first.
    """
    longest = backoff.total_seconds() * 2.0 ** min(attempt - 1, 6)
    return longest * random.uniform(0.5, 1.0)
