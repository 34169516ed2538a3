"""The view messages: the messages of all topics."""

from __future__ import annotations

from typing import Any

import psycopg

from support.log import new_topic
from support.session import Connect, Session, new_name


def rows(log: Session, topic: str) -> list[tuple[Any, ...]]:
    """What the view shows of a topic, without times and ids."""
    return log.execute(
        "select topic, partition, log_offset, key, headers, payload, body from pgq.messages"
        " where topic = %s order by partition, log_offset",
        [topic],
    ).fetchall()


def test_it_shows_what_fetch_range_gives(log: Session) -> None:
    """All columns of all partitions."""
    topic = new_topic(log, partitions=2)
    log.publish(topic=topic, payload={"a": 1}, key="k", headers={"h": 1}, partition=1)
    log.publish(topic=topic, body=b"\x00", partition=1)
    log.publish(topic=topic, payload=3, partition=0)
    assert rows(log, topic) == [
        (topic, 0, 1, None, None, 3, None),
        (topic, 1, 1, "k", {"h": 1}, {"a": 1}, None),
        (topic, 1, 2, None, None, None, b"\x00"),
    ]
    (fetched,) = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=1)
    shown = log.execute(
        "select published_at from pgq.messages where topic = %s and partition = 0", [topic]
    ).fetchone()
    assert shown == (fetched.published_at,)


def test_jobs_are_not_messages(log: Session) -> None:
    """They stand in the same store, but belong to no topic."""
    queue = new_name("jobs")
    log.execute("select pgq.create_queue(queue => %s)", [queue])
    before = log.execute("select count(*) from pgq.messages").fetchone()
    log.execute("select pgq.enqueue(queue => %s, payload => '1')", [queue])
    assert log.execute("select count(*) from pgq.messages").fetchone() == before


def test_it_cannot_be_written(log: Session) -> None:
    """It only shows."""
    for statement in (
        "delete from pgq.messages",
        "update pgq.messages set key = null",
        "insert into pgq.messages (topic) values ('t')",
    ):
        try:
            log.execute(statement)
        except psycopg.errors.ObjectNotInPrerequisiteState:
            continue
        raise AssertionError(statement)


def test_ranges_are_read_in_their_order(connection: Session, connect: Connect) -> None:
    """Though they may lie in another one: each ends where the next begins, in a segment of both."""
    connection.create_topic(topic="back", partitions=1, retention="1 day")
    for retention in ("2 days", "1 day", "1 day"):
        connection.publish_batch(topic="back", payloads=[1, 2])
        connection.alter_topic(topic="back", retention=retention)
        connection.cleanup()
    connection.execute("update pgq.segment_range set shift = shift where first_offset = 1")
    reader = connect()
    for scan in ("indexscan", "indexonlyscan", "bitmapscan"):
        reader.execute(f"set local enable_{scan} = off".encode())
    found = reader.execute("select log_offset from pgq.messages order by log_offset").fetchall()
    assert found == [(offset,) for offset in range(1, 7)]
