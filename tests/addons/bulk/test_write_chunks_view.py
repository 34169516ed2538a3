"""The view write_chunks: write_chunk for those who can only insert."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from support.bulk import NOBODY, begin, contents_of
from support.log import new_topic
from support.queue import new_queue
from support.session import Session


def insert(connection: Session, view: str, **row: Any) -> int:
    """Insert a row as a JDBC driver does, and return how many rows the server says it was."""
    names = list(row)
    statement = sql.SQL("insert into pgq.{} ({}) values ({})").format(
        sql.Identifier(view),
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.SQL(", ").join(sql.Placeholder() * len(names)),
    )
    return connection.execute(statement, list(row.values())).rowcount


def chunk(**changed: Any) -> dict[str, Any]:
    """A row with nothing but what is needed."""
    good = {"task": 0, "task_attempt": "a", "chunk": 0, "lengths": [1, 1]}
    contents = {} if "packed_payloads" in changed else {"packed_bodies": b"12"}
    return {**good, **contents, **changed}


def test_a_row_is_a_chunk(connection: Session) -> None:
    """Text where the function has uuid, jsonb and interval; null for what is not set."""
    topic, queue = new_topic(connection), new_queue(connection)
    write_id = begin(connection, topic=topic)
    row = chunk(write_id=str(write_id), last_chunk=True, priority=None, keys=["a", "b"])
    assert insert(connection, "write_chunks", **row, headers=['{"a": 1}', None]) == 1
    connection.commit_write(write_id=write_id)
    found = connection.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=2)
    assert [(m.key, m.headers, m.body) for m in found] == [("a", {"a": 1}, b"1"), ("b", None, b"2")]

    write_id = begin(connection, queue=queue)
    row = chunk(write_id=str(write_id), packed_payloads=b"12", labels=["x", None], priority=3)
    assert insert(connection, "write_chunks", **row, delay="0 seconds", last_chunk=True) == 1
    row = chunk(write_id=str(write_id), task=1, last_chunk=True, delay="1 hour")
    assert insert(connection, "write_chunks", **row) == 1
    connection.commit_write(write_id=write_id)
    found = connection.claim_job(queue=queue, max_jobs=10)
    assert [(j.label, j.priority, j.payload) for j in found] == [("x", 3, 1), (None, 3, 2)]


@pytest.mark.parametrize(
    ("view", "function", "columns"),
    [
        (
            "write_chunks",
            "write_chunk",
            "write_id task task_attempt chunk lengths packed_payloads keys headers partition"
            " delay priority labels last_chunk starts packed_bodies",
        ),
        ("publish_rows", "publish", "topic payload key headers partition idempotency_key body"),
        (
            "enqueue_rows",
            "enqueue",
            "queue payload key headers delay run_at priority label idempotency_key unique_key"
            " max_attempts body",
        ),
    ],
)
def test_columns_are_arguments(connection: Session, view: str, function: str, columns: str) -> None:
    """All of them, with their names, in their order."""
    found = connection.execute(
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0"
        " order by attnum",
        [f"pgq.{view}"],
    ).fetchall()
    assert [name for (name,) in found] == columns.split()
    arguments = connection.execute(
        "select unnest(proargnames[:pronargs]) from pg_proc where oid = %s::regproc",
        [f"pgq.{function}"],
    ).fetchall()
    assert {name for (name,) in arguments} == set(columns.split())


def test_a_chunk_that_is_left_out_is_no_row(connection: Session) -> None:
    """What write_chunk returns is the number of rows."""
    for atomic in (True, False):
        topic = new_topic(connection)
        write_id = str(begin(connection, topic=topic, atomic=atomic))
        row = chunk(write_id=write_id, last_chunk=True)
        assert insert(connection, "write_chunks", **row) == 1
        assert insert(connection, "write_chunks", **{**row, "task_attempt": "b"}) == 0
    assert contents_of(connection, topic) == {0: [b"1", b"2"]}


def test_many_rows_in_one_statement(connection: Session) -> None:
    """As drivers do that rewrite batches."""
    topic = new_topic(connection, partitions=2)
    write_id = begin(connection, topic=topic)
    done = connection.execute(
        """
        insert into pgq.write_chunks
            (write_id, task, task_attempt, chunk, lengths, last_chunk, packed_bodies)
        select %s, task, 'a', chunk, array[1, 1], chunk = 2, convert_to(task || '' || chunk, 'UTF8')
        from generate_series(0, 3) as task, generate_series(0, 2) as chunk
        order by task, chunk
        """,
        [str(write_id)],
    )
    assert done.rowcount == 12
    assert connection.commit_write(write_id=write_id).messages == 24
    assert b"".join(contents_of(connection, topic)[1]) == b"101112303132"


def test_errors_are_those_of_the_function(connection: Session) -> None:
    """Nothing is swallowed."""
    write_id = str(begin(connection, topic=new_topic(connection)))
    for sqlstate, row in (
        ("MQ008", chunk(write_id=str(NOBODY))),
        ("22004", chunk(write_id=None)),
        ("22004", chunk(write_id=write_id, task=None)),
        ("22023", chunk(write_id=write_id, lengths=[1])),
        ("22P02", chunk(write_id="no uuid")),
        ("22P02", chunk(write_id=write_id, headers=["{", None])),
        ("22007", chunk(write_id=write_id, delay="soon")),
    ):
        with pytest.raises(psycopg.Error) as caught:
            insert(connection, "write_chunks", **row)
        assert caught.value.sqlstate == sqlstate, row


def test_it_shows_nothing(connection: Session) -> None:
    """And cannot be changed."""
    insert(
        connection,
        "write_chunks",
        **chunk(write_id=str(begin(connection, topic=new_topic(connection)))),
    )
    assert connection.execute("select * from pgq.write_chunks").fetchall() == []
    for statement in ("delete from pgq.write_chunks", "update pgq.write_chunks set task = 1"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            connection.execute(statement)
