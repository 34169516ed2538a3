"""The view publish_rows: a row is a call of publish."""

from __future__ import annotations

import psycopg
import pytest

from support.bulk import contents_of
from support.log import new_topic
from support.session import Session, new_name

INSERT = (
    "insert into pgq.publish_rows (topic, payload, key, headers, partition, body)"
    " values (%s, %s, %s, %s, %s, %s)"
)


def test_rows_become_messages(connection: Session) -> None:
    """Of JSON and of bytes, to the partition that is named, or that of the key."""
    topic = new_topic(connection, partitions=4)
    expected = connection.publish(topic=topic, payload=0, key="k")
    assert connection.execute(INSERT, [topic, '{"a": 1}', "k", None, None, None]).rowcount == 1
    connection.execute(INSERT, [topic, None, None, '{"h": 1}', 3, b"\x00"])
    assert contents_of(connection, topic)[expected.partition][1] == {"a": 1}
    place = connection.list_offsets(topic=topic)[3]
    last = connection.fetch_range(
        topic=topic, partition=3, first_offset=place.last_offset, last_offset=place.last_offset
    )[0]
    assert (last.key, last.headers, last.body) == (None, {"h": 1}, b"\x00")


def test_a_row_that_comes_again(connection: Session) -> None:
    """By its idempotency key; the second one writes nothing."""
    topic = new_topic(connection)
    for payload in ("1", "2"):
        connection.execute(
            "insert into pgq.publish_rows (topic, payload, idempotency_key) values (%s, %s, 'a')",
            [topic, payload],
        )
    assert contents_of(connection, topic) == {0: [1]}


def test_many_rows_in_one_statement(connection: Session) -> None:
    """They keep their order in the partition."""
    topic = new_topic(connection)
    connection.execute(
        "insert into pgq.publish_rows (topic, payload)"
        " select %s, g.n::text from generate_series(1, 100) as g (n) order by g.n",
        [topic],
    )
    assert contents_of(connection, topic) == {0: list(range(1, 101))}
    assert connection.execute("select * from pgq.publish_rows").fetchall() == []


def test_errors_are_those_of_publish(connection: Session) -> None:
    """One bad row takes the whole statement back."""
    topic = new_topic(connection)
    for sqlstate, row in (
        ("MQ001", [new_name("topic"), "1", None, None, None, None]),
        ("22004", [None, "1", None, None, None, None]),
        ("22004", [topic, None, None, None, None, None]),
        ("22023", [topic, "1", None, None, None, b"1"]),
        ("22023", [topic, "1", None, "[]", None, None]),
        ("22P02", [topic, "{", None, None, None, None]),
        ("MQ007", [topic, "1", None, None, 1, None]),
    ):
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(
                f"{INSERT}, (%s, %s, %s, %s, %s, %s)", [topic, "1", None, None, None, None, *row]
            )
        assert caught.value.sqlstate == sqlstate, row
    assert contents_of(connection, topic) == {}
