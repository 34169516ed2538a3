"""Sizes of messages that are written in bulk: what is refused, and what a reader is told."""

from __future__ import annotations

from typing import Any

import pytest

from support.bulk import MODES, begin, stage, stage_long
from support.log import new_topic
from support.queue import new_queue
from support.session import Session, refused

LIMIT = 20_000


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize("kind", ["topic", "queue"])
@MODES
def test_content_up_to_the_limit(connection: Session, atomic: bool, kind: str, json: bool) -> None:
    """The call that brings more is refused, and the write goes on."""
    target = {kind: new_topic(connection) if kind == "topic" else new_queue(connection)}
    alter = connection.alter_topic if kind == "topic" else connection.alter_queue
    alter(**target, max_message_bytes=LIMIT)
    write_id = begin(connection, **target, atomic=atomic)
    # as jsonb a text has 12 bytes more, instead of its quotes
    content = b"x" * (LIMIT - (12 if json else 2))
    large, content = b'"x%b"' % content, b'"%b"' % content
    error = refused("22023", lambda: stage(connection, write_id, [b"1", large], json=json))
    assert f'{kind} "{target[kind]}"' in str(error)
    assert error.diag.message_detail == (
        f"Number 2 of 2 has {LIMIT + 1} bytes; max_message_bytes is {LIMIT}; nothing was stored."
    )
    assert stage(connection, write_id, [b"1", content], json=json)
    assert connection.commit_write(write_id=write_id).messages == 2


@pytest.mark.parametrize(
    "more",
    [
        {"keys": ["k" * 262145, None]},
        {"keys": ["k", "k" * 200_000], "headers": ["{}", '{"h": "' + "x" * 62_145 + '"}']},
    ],
    ids=["key", "together"],
)
@MODES
def test_key_and_headers(connection: Session, atomic: bool, more: dict[str, Any]) -> None:
    write_id = begin(connection, topic=new_topic(connection), atomic=atomic)
    error = refused("22023", lambda: stage(connection, write_id, [b"1", b"2"], **more))
    assert "bytes of key and headers; the limit is 262144" in str(error.diag.message_detail)


@MODES
def test_a_payload_that_is_too_long_as_text(connection: Session, atomic: bool) -> None:
    write_id = begin(connection, topic=new_topic(connection), atomic=atomic)
    number = b"[" + b", ".join([b"1e100000"] * 9999) + b"]"
    error = refused("22023", lambda: stage(connection, write_id, [b"1", number], json=True))
    assert "as text; the limit is 536870912" in str(error.diag.message_detail)


@pytest.mark.parametrize("subscribed", [False, True])
@pytest.mark.parametrize("long", [False, True])
@MODES
def test_its_readers_get_no_more_than_they_ask_for(
    connection: Session, atomic: bool, long: bool, subscribed: bool
) -> None:
    """Whether the messages of a write stay where they were staged, or are copied."""
    topic, queue = new_topic(connection), new_queue(connection)
    if subscribed:
        connection.subscribe(subscription=f"of-{topic}", topic=topic, queue=queue)
    contents = [b"1"] * 700 + [bytes(200_000)] * 3 + [b"2"] * 700
    write_id = begin(connection, topic=topic, atomic=atomic)
    if long:
        stage_long(connection, write_id, contents, chunks=2)
    else:
        stage(connection, write_id, contents)
    connection.commit_write(write_id=write_id)
    ways: list[Any] = [
        lambda: connection.consume(
            topic=topic, consumer_group="readers", max_messages=2000, max_bytes=300_000
        )
    ]
    if subscribed:
        ways.append(lambda: connection.claim_job(queue=queue, max_jobs=2000, max_bytes=300_000))
    for read in ways:
        sizes = []
        while rows := read():
            assert sum(len(message.body) for message in rows) <= 300_000
            assert rows[-1].cut_short == (len(sizes) + len(rows) < len(contents))
            sizes += [len(message.body) for message in rows]
        assert sizes == [len(content) for content in contents]


def test_a_limit_that_is_lowered_before_the_commit(connection: Session) -> None:
    """What was staged is committed all the same."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, [bytes(LIMIT)] * 4)
    stage(connection, write_id, [bytes(LIMIT)], task=1)
    connection.alter_topic(topic=topic, max_message_bytes=1024)
    assert connection.commit_write(write_id=write_id).messages == 5


@MODES
def test_a_payload_that_is_larger_than_its_text(connection: Session, atomic: bool) -> None:
    """The limit is of what is stored: a short number takes six times its text."""
    topic = new_topic(connection)
    connection.alter_topic(topic=topic, max_message_bytes=100000)
    write_id = begin(connection, topic=topic, atomic=atomic)
    numbers = b"[" + b",".join([b"1"] * 20000) + b"]"
    error = refused("22023", lambda: stage(connection, write_id, [b"1", numbers], json=True))
    assert "max_message_bytes is 100000" in str(error.diag.message_detail)


@MODES
def test_numbers_that_are_longer_as_text(connection: Session, atomic: bool) -> None:
    """Nine bytes that are written are 131,074 for a reader."""
    write_id = begin(connection, topic=new_topic(connection), atomic=atomic)
    numbers = b"[" + b",".join([b"1e131071"] * 4500) + b"]"
    error = refused("22023", lambda: stage(connection, write_id, [b"1", numbers], json=True))
    assert "as text; the limit is 536870912" in str(error.diag.message_detail)


@MODES
def test_a_chunk_again_after_the_limit_was_lowered(connection: Session, atomic: bool) -> None:
    """What was written counts, whatever may be written now."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    assert stage(connection, write_id, [bytes(LIMIT)])
    connection.alter_topic(topic=topic, max_message_bytes=1024)
    for attempt in ("again", "first"):
        assert not stage(connection, write_id, [bytes(LIMIT)], attempt=attempt)
    refused("22023", lambda: stage(connection, write_id, [bytes(LIMIT)], task=1))
    assert connection.commit_write(write_id=write_id).messages == 1


@MODES
def test_one_byte_more_than_the_limit(connection: Session, atomic: bool) -> None:
    """As publish counts it: of each number of one digit twelve bytes, and eight more."""
    topic = new_topic(connection)
    connection.alter_topic(topic=topic, max_message_bytes=1028)
    write_id = begin(connection, topic=topic, atomic=atomic)
    numbers = b"[" + b",".join([b"1"] * 86) + b"]"
    refused("22023", lambda: stage(connection, write_id, [numbers], json=True))
    numbers = b"[" + b",".join([b"1"] * 85) + b"]"
    assert stage(connection, write_id, [numbers], json=True)
    connection.alter_topic(topic=topic, max_message_bytes=1026)
    refused("22023", lambda: stage(connection, write_id, [numbers], json=True, task=1))


@MODES
@pytest.mark.parametrize("json", [False, True])
def test_headers_that_are_long_as_text(connection: Session, atomic: bool, json: bool) -> None:
    """As publish refuses them, whatever they stand beside."""
    write_id = begin(connection, topic=new_topic(connection), atomic=atomic)
    headers = '{"a": [' + ", ".join(["1e131071"] * 620) + "]}"
    chunk = {"json": json, "headers": ["{}", headers]}
    error = refused("22023", lambda: stage(connection, write_id, [b"1", b"2"], **chunk))
    assert "bytes of key and headers" in str(error.diag.message_detail)
