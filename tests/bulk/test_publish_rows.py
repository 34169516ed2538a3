"""The view publish_rows: a row is a call of publish."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from bulk_support import contents_of, new_topic
from log_support import new_name
from pgq import Client

AnyConnection = psycopg.Connection[Any]
INSERT = (
    "insert into pgq.publish_rows (topic, payload, key, headers, partition, body)"
    " values (%s, %s, %s, %s, %s, %s)"
)


def test_rows_become_messages(client: Client, connection: AnyConnection) -> None:
    """Of JSON and of bytes, to the partition that is named, or that of the key."""
    topic = new_topic(client, partitions=4)
    expected = client.publish(topic, 0, key="k")
    assert connection.execute(INSERT, [topic, '{"a": 1}', "k", None, None, None]).rowcount == 1
    connection.execute(INSERT, [topic, None, None, '{"h": 1}', 3, b"\x00"])
    assert contents_of(client, topic)[expected.partition][1] == {"a": 1}
    place = client.list_offsets(topic)[3]
    last = client.fetch_range(topic, 3, place.last_offset, place.last_offset)[0]
    assert (last.key, last.headers, last.body) == (None, {"h": 1}, b"\x00")


def test_many_rows_in_one_statement(client: Client, connection: AnyConnection) -> None:
    """They keep their order in the partition."""
    topic = new_topic(client)
    connection.execute(
        "insert into pgq.publish_rows (topic, payload)"
        " select %s, g.n::text from generate_series(1, 100) as g (n) order by g.n",
        [topic],
    )
    assert contents_of(client, topic) == {0: list(range(1, 101))}
    assert connection.execute("select * from pgq.publish_rows").fetchall() == []


def test_errors_are_those_of_publish(client: Client, connection: AnyConnection) -> None:
    """One bad row takes the whole statement back."""
    topic = new_topic(client)
    for sqlstate, row in (
        ("MQ001", [new_name(), "1", None, None, None, None]),
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
    assert contents_of(client, topic) == {}
