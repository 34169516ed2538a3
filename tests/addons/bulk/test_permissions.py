"""What a role needs to write and read in bulk: a few functions and two views, and no table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.bulk import begin, contents_of, numbers
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, refused

ROLE = "pgq_test_bulk"
FUNCTIONS = ("begin_write", "commit_write", "abort_write", "list_offsets", "check_range")


@pytest.fixture
def guest(connection: Session, connect: Connect) -> Iterator[Session]:
    """A client as a role that may only use the schema."""
    try:
        connection.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    session = connect(autocommit=True)
    try:
        connection.execute(f"grant usage on schema pgq to {ROLE}")
        session.execute(f"set role {ROLE}")
        yield session
    finally:
        session.close()
        connection.execute(f"drop owned by {ROLE}")
        connection.execute(f"drop role {ROLE}")


def grant(owner: Session, functions: tuple[str, ...], views: dict[str, str]) -> None:
    """Give the role these functions, and these rights on views."""
    for function in functions:
        owner.execute(f"grant execute on function pgq.{function} to {ROLE}")
    for view, rights in views.items():
        owner.execute(f"grant {rights} on pgq.{view} to {ROLE}")


def insert(connection: Session, write_id: object, **more: Any) -> None:
    """One chunk of two messages, the way a connection does that only knows tables."""
    row = {"write_id": str(write_id), "task": 0, "task_attempt": "a", "chunk": 0}
    row.update({"packed_bodies": b"12", "lengths": [1, 1], "last_chunk": True}, **more)
    places = ", ".join(["%s"] * len(row))
    statement = f"insert into pgq.write_chunks ({', '.join(row)}) values ({places})"
    connection.execute(statement.encode(), list(row.values()))


def test_nothing_without_a_grant(guest: Session, connection: Session) -> None:
    """Every function, view and table is closed: 42501."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    refused("42501", guest.begin_write, topic=topic)
    refused("42501", guest.commit_write, write_id=write_id)
    refused("42501", guest.abort_write, write_id=write_id)
    refused("42501", guest.list_offsets, topic=topic)
    refused("42501", guest.check_range, topic=topic, partition=0, first_offset=1, last_offset=0)
    refused("42501", lambda: insert(guest, write_id))
    for view in ("messages", "write_chunks", "publish_rows", "enqueue_rows"):
        refused("42501", lambda: guest.execute(f"select from pgq.{view}"))  # noqa: B023
    for view in ("publish_rows", "enqueue_rows"):
        refused(
            "42501",
            lambda: guest.execute(f"insert into pgq.{view} values ('x')"),  # noqa: B023
        )


def test_all_of_it_with_few_grants(guest: Session, connection: Session) -> None:
    """Begin, insert, commit, abort; plan and read; and still no table, and no other function."""
    grant(connection, FUNCTIONS, {"write_chunks": "select, insert", "messages": "select"})
    topic, queue = new_topic(connection), new_queue(connection)
    for target in ({"topic": topic}, {"queue": queue}):
        for atomic in (True, False):
            write_id = begin(guest, **target, atomic=atomic)
            insert(guest, write_id)
            assert guest.commit_write(write_id=write_id, expected_messages=2).messages == 2
            assert guest.abort_write(write_id=begin(guest, **target, atomic=atomic))
    assert contents_of(connection, topic) == {0: numbers(1, 2) * 2}
    assert guest.execute("select * from pgq.write_chunks").fetchall() == []

    (place,) = guest.list_offsets(topic=topic)
    bounds = [place.first_offset, place.last_offset]
    found = guest.execute(
        "select body from pgq.messages where partition_id = pgq.check_range(%s, 0, %s, %s)"
        " and log_offset between %s and %s order by log_offset",
        [topic, *bounds, *bounds],
    ).fetchall()
    assert [row[0] for row in found] == numbers(1, 2) * 2

    tables = connection.execute(
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind in ('r', 'p')"
    ).fetchall()
    assert len(tables) > 20
    for (table,) in tables:
        refused("42501", lambda: guest.execute(f"select from pgq.{table}"))  # noqa: B023
    refused("42501", lambda: guest.publish(topic=topic, payload=1))
    refused(
        "42501",
        lambda: guest.write_chunk(
            write_id=begin(guest, topic=topic),
            task=0,
            task_attempt="a",
            chunk=0,
            lengths=[],
            packed_payloads=b"",
        ),
    )


def test_rows_with_the_right_to_insert_alone(guest: Session, connection: Session) -> None:
    """publish_rows and enqueue_rows need no function, and show nothing."""
    grant(connection, (), {"publish_rows": "insert", "enqueue_rows": "insert"})
    topic, queue = new_topic(connection), new_queue(connection)
    guest.execute("insert into pgq.publish_rows (topic, payload) values (%s, '1')", [topic])
    guest.execute("insert into pgq.enqueue_rows (queue, payload) values (%s, '2')", [queue])
    assert contents_of(connection, topic) == {0: [1]}
    assert [job.payload for job in connection.claim_job(queue=queue)] == [2]
    refused("42501", lambda: guest.execute("select from pgq.publish_rows"))


def test_objects_of_the_caller_do_not_come_in_between(guest: Session, connection: Session) -> None:
    """Tables and functions in the caller's temporary schema are never used by ours."""
    grant(connection, FUNCTIONS, {"write_chunks": "insert"})
    topic = new_topic(connection)
    for statement in (
        "create function pg_temp.length(bytea) returns integer language sql as 'select 1 / 0'",
        "create function pg_temp.cardinality(anyarray) returns int language sql as 'select 1 / 0'",
        "create temporary table staged_task (write_id uuid)",
        "create temporary table bulk_write (write_id uuid)",
        "set search_path = pg_temp, pgq",
    ):
        guest.execute(statement)
    write_id = begin(guest, topic=topic)
    insert(guest, write_id)
    assert guest.commit_write(write_id=write_id).messages == 2
