"""JSON that Python cannot decode harms its own partition, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from pgq import Client
from pgq.consumer import AsyncConsumer, Consumer
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Consumer] | type[AsyncConsumer]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


def lag(client: Client) -> int:
    return sum(part.lag for part in client.monitor.group_lag("events"))


def test_json_that_python_cannot_read(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: pytest.LogCaptureFixture
) -> None:
    """The consumer goes on, commits what was before it, and says in the database what is wrong."""
    seen: list[Any] = []

    def handle(payload: Any) -> None:
        seen.append(payload)

    consumer = kind("all", conninfo=dsn)
    consumer.handler("events")(as_handler(handle))
    client.publish_batch("events", [1, Jsonb("1" * 5001, dumps=str)], partition=0)
    with working(consumer):
        [part] = wait_until(
            lambda: [one for one in client.monitor.group_lag("events") if one.last_error]
        )
        client.publish("events", 2, partition=1)
        wait_until(lambda: seen == [1, 2])
    assert "cannot be read (payload, topic events, partition 0, offset 2)" in part.last_error
    assert "cannot be read" in caplog.text
    assert (part.partition, part.committed_offset, part.attempt) == (0, 1, 0)
    assert part.leased_until is not None, "it is not tried without a rest"
    assert lag(client) == 1


def test_headers_that_python_cannot_read(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    """Of no meaning to a handler that does not look at them; the use of them does not fit."""

    def handle(payload: int, message: Any) -> None:
        if payload == 2:
            message.headers["n"]

    client.admin.create_topic("dead", partitions=1)
    client.admin.alter_group("events", "all", max_attempts=2, dead_letter_topic="dead")
    consumer = kind("all", conninfo=dsn)
    consumer.handler("events")(as_handler(handle))
    headers = Jsonb(f'{{"n": {"1" * 5001}}}', dumps=str)
    client.publish_batch("events", [1, 2, 3], headers=[headers] * 3, partition=0)  # type: ignore[list-item]
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
    [letter] = client.bulk.fetch_range("dead", 0, 1, 1)
    assert letter.payload == 2
    stored = "select headers ->> 'pgq_error' from pgq.messages where headers ? 'pgq_error'"
    [(error,)] = client.connection.execute(stored).fetchall()
    assert "cannot be read (headers, topic events, partition 0, offset 2)" in error
