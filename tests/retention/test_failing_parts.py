"""cleanup where a part of it fails: the others go on, and the report says what failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.queue import claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Session, refused, row

PARTS = {
    "jobs": "_clean_jobs",
    "effects": "_clean_effects",
    "subscriptions": "_clean_subscriptions",
    "workers": "_clean_workers",
    "writes": "_clean_writes",
    "dropped messages": "_clean_dropped",
    "truncation": "_truncate_segments",
    "positions": "_clean_positions",
    "windows": "_clean_windows",
    "offsets": "_assign_staged",
    "closing": "_close_segments",
    "sealing": "_seal_segments",
}

DONE = {
    "jobs": "jobs expired",
    "workers": "workers forgotten",
    "offsets": "offsets assigned",
    "sealing": "segment sealed",
}
"""What the work below is called."""


@contextmanager
def raising(connection: Session, event: str, code: str, body: str = "") -> Iterator[None]:
    """A trigger of a table raises this code."""
    table = event.split()[-1].removeprefix("pgq.")
    connection.execute(
        "create function public.pgq_test_raise() returns trigger language plpgsql as $$ begin"
        f" {body} raise exception 'secret' using errcode = '{code}'; end $$".encode()
    )
    connection.execute(
        f"create trigger pgq_test_raise before {event} for each statement"
        " execute function public.pgq_test_raise()".encode()
    )
    try:
        yield
    finally:
        connection.execute(f"drop trigger if exists pgq_test_raise on pgq.{table}".encode())
        connection.execute("drop function public.pgq_test_raise()")


def give_work(connection: Session, clock: Clock) -> str:
    """Something to do for several parts, by two days later."""
    queue = new_queue(connection, job_ttl="3 hours", retention="3 hours")
    enqueue_many(connection, queue, 2)
    connection.heartbeat(worker="w")
    connection.create_topic(topic="deferred", deferred=True)
    clock.advance("2 days")
    connection.publish(topic="deferred", payload=1)
    return queue


@pytest.fixture
def warnings(connection: Session) -> list[tuple[Any, ...]]:
    """Severity, SQLSTATE, message and detail of what the server said beside its answers."""
    found: list[tuple[Any, ...]] = []

    def note(said: psycopg.errors.Diagnostic) -> None:
        found.append(
            (said.severity_nonlocalized, said.sqlstate, said.message_primary, said.message_detail)
        )

    connection.add_notice_handler(note)
    return found


@pytest.mark.parametrize("part", PARTS)
def test_one_part_that_fails(
    connection: Session, clock: Clock, warnings: list[Any], part: str
) -> None:
    """A function is gone: the report says where, and the others have done theirs."""
    give_work(connection, clock)
    connection.execute(f"alter function pgq.{PARTS[part]} rename to pgq_test_gone".encode())
    try:
        done = [tuple(one) for one in connection.cleanup()]
    finally:
        connection.execute(f"alter function pgq.pgq_test_gone rename to {PARTS[part]}".encode())
    assert [one for one in done if one[0] == "failed"] == [("failed", f"{part}: 42883", 1)]
    actions = {action for action, _, _ in done}
    assert {what for where, what in DONE.items() if where != part} <= actions
    assert DONE.get(part) not in actions
    [(severity, code, message, detail)] = warnings
    assert (severity, code) == ("WARNING", "42883")
    assert part in message
    assert PARTS[part] in detail
    # and the next one does what this one could not
    while more := [tuple(one) for one in connection.cleanup()]:
        assert all(action not in ("failed", "busy") for action, _, _ in more)
        actions |= {action for action, _, _ in more}
    assert set(DONE.values()) <= actions


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("22P02", ("failed", "jobs: 22P02")),
        ("53100", ("failed", "jobs: 53100")),
        ("40P01", ("busy", "jobs")),
        ("55P03", ("busy", "jobs")),
    ],
)
def test_what_a_failing_part_did(
    connection: Session, clock: Clock, code: str, said: tuple[str, str]
) -> None:
    """It is undone, so it is not in the report. A full disk does not keep truncation from work."""
    queue = give_work(connection, clock)
    with raising(connection, "delete on pgq.dead_job", code):
        done = [tuple(one) for one in connection.cleanup()]
    assert (*said, 1) in done
    actions = {action for action, _, _ in done}
    assert "jobs expired" not in actions
    assert actions >= {"workers forgotten", "offsets assigned", "segment sealed"}
    assert stats(connection, queue) == {"expired": 2}


def test_a_cleanup_that_is_cancelled(connection: Session, clock: Clock) -> None:
    """It ends, and nothing is done."""
    queue = give_work(connection, clock)
    with raising(connection, "delete on pgq.dead_job", "22P02", "perform pg_sleep(60);"):
        connection.execute("set statement_timeout = '1s'")
        refused("57014", connection.cleanup)
        connection.execute("reset statement_timeout")
    assert stats(connection, queue) == {"expired": 2}
    assert row(connection, "select count(*) from pgq.worker") == (1,)


def test_what_a_warning_tells(connection: Session, warnings: list[Any], clock: Clock) -> None:
    """The message only to the owner: it may name what others must not know."""
    give_work(connection, clock)
    connection.execute("create role pgq_test_cleaner")
    try:
        connection.execute("grant usage on schema pgq to pgq_test_cleaner")
        connection.execute("grant execute on function pgq.cleanup() to pgq_test_cleaner")
        with raising(connection, "delete on pgq.dead_job", "22P02"):
            connection.cleanup()
            assert "secret" in warnings[-1][3]
            connection.execute("set role pgq_test_cleaner")
            [failed] = [one for one in connection.cleanup() if one[0] == "failed"]
            connection.execute("reset role")
    finally:
        connection.execute("reset role")
        connection.execute("drop owned by pgq_test_cleaner; drop role pgq_test_cleaner")
    assert failed[1] == "jobs: 22P02"
    assert len(warnings) == 2
    assert warnings[-1][1] == "22P02"
    assert "secret" not in str(warnings[-1])


def test_a_subscription_that_cannot_be_evaluated(connection: Session) -> None:
    """Other queues are cleaned, and so is all when the subscription has ended."""
    queue = new_queue(connection)
    connection.create_topic(topic="broken", deferred=True)
    connection.subscribe(subscription="s", topic="broken", queue=queue, routing_key="a")
    connection.execute("update pgq.subscription set routing_regex = '('")
    connection.publish(topic="broken", payload=1, headers={"routing_key": "a"})
    assert [tuple(one) for one in connection.cleanup()] == [
        ("failed", "offsets of broken: 2201B", 1)
    ]
    enqueue(connection, queue)
    assert claim_one(connection, queue)
    connection.unsubscribe(subscription="s")
    assert [tuple(one) for one in connection.cleanup()] == [("offsets assigned", "broken", 1)]


def test_what_the_warning_of_a_drop_tells(connection: Session, warnings: list[Any]) -> None:
    """An admin of the topic is told that something is wrong, and the owner what it is."""
    queue = new_queue(connection)
    connection.execute("create role pgq_test_dropper")
    try:
        connection.execute("grant usage on schema pgq to pgq_test_dropper")
        connection.execute("grant execute on function pgq.drop_topic to pgq_test_dropper")
        for role in (None, "pgq_test_dropper"):
            connection.create_topic(topic="broken", deferred=True)
            connection.subscribe(subscription="s", topic="broken", queue=queue, routing_key="a")
            connection.execute("update pgq.subscription set routing_regex = '('")
            connection.publish(topic="broken", payload=1, headers={"routing_key": "a"})
            if role is not None:
                connection.execute("set role pgq_test_dropper")
            connection.drop_topic(topic="broken")
            connection.execute("reset role")
    finally:
        connection.execute("reset role")
        connection.execute("drop owned by pgq_test_dropper; drop role pgq_test_dropper")
    [to_the_owner, to_the_role] = warnings
    assert "invalid regular expression" in to_the_owner[3]
    assert to_the_role[:3] == to_the_owner[:3]
    assert to_the_role[3] == "The owner of pgq is told more."
