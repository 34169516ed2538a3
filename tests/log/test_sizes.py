"""Sizes of messages: what a topic takes, and how much of it one call returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.log import new_topic, offsets
from support.session import Session, new_name, refused, row, unchanged

MEGABYTE = 1 << 20
ATTRIBUTES = 256 << 10
"""Key and headers together."""
LONG_NUMBERS = '{"h": [' + ", ".join(["1e100000"] * 800) + "]}"
"""Of some 10 kB as jsonb, and 80 MB as text."""

# Ways to publish one message; those of a batch put a small one before it.
PUBLISH: dict[str, Callable[..., Any]] = {
    "publish": lambda log, topic, **given: log.publish(topic=topic, **given),
    "with an idempotency key": lambda log, topic, **given: log.publish(
        topic=topic, idempotency_key=new_name("key"), **given
    ),
    "batch": lambda log, topic, **given: batch(log, topic, **given),
    "batch in a partition": lambda log, topic, **given: batch(log, topic, partition=0, **given),
    "batch with idempotency keys": lambda log, topic, **given: batch(
        log, topic, idempotency_keys=[new_name("key"), new_name("key")], **given
    ),
}


def batch(log: Session, topic: str, **given: Any) -> Any:
    """publish_batch of two messages; the second one has what is given."""
    arguments = {}
    for name, value in given.items():
        if name in ("body", "payload", "key", "headers"):
            many = {"body": "bodies", "payload": "payloads", "key": "keys"}.get(name, name)
            small = {
                "body": b"",
                "payload": 0,
                "key": "k",
                "headers": "{}" if isinstance(value, str) else {},
            }[name]
            arguments[many] = [small, value]
        else:
            arguments[name] = value
    return log.publish_batch(topic=topic, **arguments)


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("way", PUBLISH)
def test_content_up_to_the_limit(log: Session, way: str, deferred: bool) -> None:
    """One byte more is refused, with both sizes and the number in the batch."""
    topic = new_topic(log, deferred=deferred)
    publish = PUBLISH[way]
    publish(log, topic, body=bytes(MEGABYTE))
    for key in (None, "k"):
        with unchanged(log):
            error = refused("22023", publish, log, topic, body=bytes(MEGABYTE + 1), key=key)
        assert f'topic "{topic}"' in str(error)
        number = "Number 2 of 2" if way.startswith("batch") else "Number 1 of 1"
        assert error.diag.message_detail == (
            f"{number} has {MEGABYTE + 1} bytes; max_message_bytes is {MEGABYTE}; nothing was"
            " stored."
        )


@pytest.mark.parametrize("setting", ["plain", "notify", "deferred"])
@pytest.mark.parametrize("way", PUBLISH)
def test_a_low_limit(log: Session, way: str, setting: str) -> None:
    """Below what is not looked at elsewhere; raised and lowered again, it counts at once."""
    topic = new_name("topic")
    switches = {} if setting == "plain" else {setting: True}
    log.create_topic(topic=topic, partitions=1, max_message_bytes=1024, **switches)
    publish = PUBLISH[way]
    for limit in (1024, 3000, 2000):
        log.alter_topic(topic=topic, max_message_bytes=limit)
        publish(log, topic, body=bytes(limit))
        with unchanged(log):
            refused("22023", publish, log, topic, body=bytes(limit + 1))


@pytest.mark.parametrize("way", PUBLISH)
def test_key_and_headers(log: Session, way: str) -> None:
    """Together at most 256 KiB, whatever the topic allows for its content."""
    topic = new_topic(log)
    log.alter_topic(topic=topic, max_message_bytes=1 << 28)
    text = "".join(map(chr, range(0x4E00, 0x9000))) * 4  # not compressible, three bytes each
    half = text[: ATTRIBUTES // 6 - 100]
    PUBLISH[way](log, topic, payload=1, key=half, headers={"h": half})
    for attributes in (
        {"key": "k" * (ATTRIBUTES + 1)},
        {"key": half, "headers": {"h": half, "i": half}},
        {"key": "k", "headers": LONG_NUMBERS},  # short as jsonb, long as text
    ):
        with unchanged(log):
            error = refused("22023", PUBLISH[way], log, topic, payload=1, **attributes)
        assert "bytes of key and headers; the limit is 262144" in str(error.diag.message_detail)


def test_a_compressed_payload(log: Session) -> None:
    """One that comes from a table counts as what its reader gets."""
    topic = new_topic(log)
    log.execute("create temp table source as select to_jsonb(repeat('x', 900000)) as payload")
    publish = "select log_offset from pgq.publish(%s, (select payload from source))"
    for number in (1, 2):
        assert row(log, publish, [topic]) == (number,)
    read = log.consume(topic=topic, consumer_group="readers", max_bytes=1_000_000)
    assert [(message.log_offset, message.cut_short) for message in read] == [(1, True)]
    log.execute("update source set payload = to_jsonb(repeat('x', 1100000))")
    refused("22023", log.execute, publish.encode(), params=[topic])  # type: ignore[arg-type]


def test_a_payload_that_is_too_long_as_text(log: Session) -> None:
    """No client could read it."""
    topic = new_topic(log)
    numbers = "select log_offset from pgq.publish(%s, (select jsonb_agg('1e100000'::numeric)"
    log.execute(f"{numbers} from generate_series(1, 5000)))".encode(), [topic])
    with unchanged(log):
        command = f"{numbers} from generate_series(1, 9000)))".encode()
        error = refused("22023", log.execute, command, params=[topic])  # type: ignore[arg-type]
    assert "as text; the limit is 536870912" in str(error.diag.message_detail)


# ---------------------------------------------------------------------------- reading


@pytest.fixture(params=["small", "large", "mixed"])
def stored(request: pytest.FixtureRequest, log: Session) -> tuple[str, list[int]]:
    """A topic with ten messages in its one partition, and their sizes."""
    sizes = {"small": [300] * 10, "large": [40_000] * 10, "mixed": [10, 90_000, 10, 10, 10] * 2}
    topic = new_topic(log)
    for size in sizes[request.param]:
        log.publish(topic=topic, body=bytes(size))
    return topic, sizes[request.param]


@pytest.mark.parametrize("call", ["consume", "poll", "fetch"])
def test_a_call_returns_at_most_so_many_bytes(
    log: Session, stored: tuple[str, list[int]], call: str
) -> None:
    """At least one message; the rows tell that there are more, until there are none."""
    topic, sizes = stored
    for most in (1, 299, 300, 950, 80_000, 200_000, 10**6):
        with log.transaction(force_rollback=True):
            read: list[Any] = []
            while True:
                rows = getattr(log, call)(topic=topic, consumer_group="readers", max_bytes=most)
                total = sum(len(message.body) for message in rows)
                assert len(rows) == 1 or total <= most
                read += rows
                more = len(read) < len(sizes)
                assert {message.cut_short for message in rows} == {more}
                if more:
                    assert total + sizes[len(read)] > most
                    token = {"lease_token": rows[0].lease_token} if call == "poll" else {}
                    if call != "consume":
                        last = rows[-1].log_offset
                        log.commit_offset(
                            topic=topic,
                            consumer_group="readers",
                            partition=0,
                            committed_offset=last,
                            **token,
                        )
                    continue
                break
            assert offsets(read) == list(range(1, 11))


def test_without_the_argument_it_is_64_mib(log: Session) -> None:
    topic = new_topic(log)
    log.publish_batch(topic=topic, bodies=[bytes(MEGABYTE)] * 70)
    for given in ({}, {"max_bytes": None}):
        with log.transaction(force_rollback=True):
            rows = log.consume(topic=topic, consumer_group="readers", **given)
            assert (len(rows), rows[0].cut_short) == (64, True)
            rows = log.consume(topic=topic, consumer_group="readers", **given)
            assert (len(rows), rows[0].cut_short) == (6, False)


def test_fetch_over_partitions(log: Session) -> None:
    """It stops at the partition that does not fit any more, and says so."""
    topic = new_topic(log, partitions=3)
    for partition in range(3):
        log.publish_batch(topic=topic, bodies=[bytes(MEGABYTE)] * 2, partition=partition)
    for most in (MEGABYTE, 2 * MEGABYTE, 3 * MEGABYTE, 5 * MEGABYTE, 6 * MEGABYTE):
        rows = log.fetch(topic=topic, consumer_group="readers", max_bytes=most)
        assert rows
        assert len(rows) * MEGABYTE <= most
        assert rows[-1].cut_short == (len(rows) < 6)
    rows = log.fetch(topic=topic, consumer_group="readers")
    assert (len(rows), rows[-1].cut_short) == (6, False)


@pytest.mark.parametrize("call", ["consume", "poll", "fetch"])
def test_bytes_that_are_refused(log: Session, call: str) -> None:
    topic = new_topic(log, messages=2)
    for most in (0, -1):
        with unchanged(log):
            function = getattr(log, call)
            refused("22023", function, topic=topic, consumer_group="readers", max_bytes=most)


def test_messages_from_before_the_limit_was_lowered(log: Session) -> None:
    """They stay, and are read and moved on: to the dead-letter topic, whose limit is lower too."""
    topic, dead = new_topic(log), new_topic(log)
    log.publish(topic=topic, body=bytes(MEGABYTE), headers={"h": "x" * 250_000})
    for name in (topic, dead):
        log.alter_topic(topic=name, max_message_bytes=1024)
    log.alter_group(topic=topic, consumer_group="readers", max_attempts=1, dead_letter_topic=dead)
    [message] = log.poll(topic=topic, consumer_group="readers")
    assert log.nack_offsets(
        topic=topic,
        consumer_group="readers",
        partition=0,
        lease_token=message.lease_token,
        error="é" * 500_000,
    )
    [letter] = log.consume(topic=dead, consumer_group="readers")
    assert letter.body == bytes(MEGABYTE)
    assert letter.headers["h"] == "x" * 250_000
    assert letter.headers["pgq_topic"] == topic
    assert 1000 < len(letter.headers["pgq_error"]) < 10_000


def test_compressed_headers_are_measured(connection: Session) -> None:
    """A stored value that is handed on is as large as what it was made of."""
    topic = new_topic(connection)
    connection.execute("create table public.held (headers jsonb)")
    connection.execute(
        "insert into public.held values (jsonb_build_object('a', repeat('a', 600000)))"
    )
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="so large a message"):
        connection.execute(
            "select pgq.publish(%s, '1', headers => h.headers) from public.held as h", [topic]
        )


def test_compressed_headers_count_in_max_bytes(connection: Session) -> None:
    topic = new_topic(connection)
    connection.create_group(topic=topic, consumer_group="g")
    for _ in range(10):
        connection.execute(
            "select pgq.publish(%s, '1', headers => jsonb_build_object('a', repeat('a', 200000)))",
            [topic],
        )
    found = connection.consume(topic=topic, consumer_group="g", max_bytes=500000)
    assert [(r.log_offset, r.cut_short) for r in found] == [(1, True), (2, True)]


def test_fetch_says_so_only_where_it_leaves_something_out(log: Session) -> None:
    """The last message of a partition counts, and a small one of the next one still fits."""
    topic = new_topic(log, partitions=3)
    for partition, size in enumerate((600_000, 300_000, 200_000)):
        log.publish(topic=topic, body=bytes(size), partition=partition)
    for most, returned in ((10, 1), (899_999, 1), (900_000, 2), (1_040_000, 2), (2_000_000, 3)):
        rows = log.fetch(topic=topic, consumer_group="readers", max_bytes=most)
        assert [(m.partition, m.cut_short) for m in rows[:-1]] == [
            (n, False) for n in range(returned - 1)
        ]
        assert (rows[-1].partition, rows[-1].cut_short) == (returned - 1, returned < 3)
    rows = log.fetch(topic=topic, consumer_group="readers", max_messages=2, max_bytes=900_000)
    assert [message.cut_short for message in rows] == [False, False]


@pytest.mark.parametrize("call", ["consume", "poll", "fetch"])
def test_a_read_costs_what_it_returns(log: Session, call: str) -> None:
    """Not what it was asked for: messages behind those that are returned are not measured."""
    topic = new_topic(log)
    log.publish_batch(topic=topic, bodies=[bytes(50_000)] * 2000)
    with log.transaction(force_rollback=True):
        log.execute(
            "create or replace function pgq._message_bytes("
            " payload jsonb, key text, headers jsonb, body bytea) returns bigint"
            " language plpgsql volatile as $$ begin perform nextval('public.pgq_measured');"
            " return octet_length(body); end $$"
        )
        log.execute("create sequence public.pgq_measured")
        log.execute("grant usage on sequence public.pgq_measured to public")
        rows = getattr(log, call)(
            topic=topic, consumer_group="readers", max_messages=2000, max_bytes=200_000
        )
        assert (len(rows), rows[-1].cut_short) == (4, True)
        (measured,) = row(log, "select last_value from public.pgq_measured")
        assert 5 <= measured <= 60


@pytest.mark.parametrize("batch", [False, True])
def test_a_retry_after_the_limit_was_lowered(log: Session, batch: bool) -> None:
    """A message that is known by its idempotency key is found; one that is new is refused."""
    topic = new_topic(log)
    body = bytes(50_000)

    def publish(*keys: str) -> Any:
        if not batch:
            found = log.publish(topic=topic, body=body, idempotency_key=keys[0])
            return found.log_offset, found.duplicate
        rows = log.publish_batch(topic=topic, bodies=[body] * len(keys), idempotency_keys=[*keys])
        return rows[0].first_offset, rows[0].duplicate

    assert publish("a") == (1, False)
    for limit in (20_000, 2000):
        log.alter_topic(topic=topic, max_message_bytes=limit)
        assert publish("a") == (1, True)
        with unchanged(log):
            error = (
                refused("22023", publish, "b")
                if not batch
                else refused("22023", publish, "a", "b", "c")
            )
        number = "Number 2 of 3" if batch else "Number 1 of 1"
        assert str(error.diag.message_detail).startswith(f"{number} has 50000 bytes")


@pytest.mark.parametrize("numbers", [3000, 4500])
def test_short_numbers_that_are_long_as_text(log: Session, numbers: int) -> None:
    """The longest number takes 16 bytes in jsonb, and 131,072 as text."""
    topic = new_topic(log)
    publish = (
        "select pgq.publish(%s, (select jsonb_agg('1e131071'::numeric)"
        f" from generate_series(1, {numbers})))"
    ).encode()
    if numbers * 131_074 < 1 << 29:
        log.execute(publish, [topic])
    else:
        error = refused("22023", log.execute, publish, params=[topic])  # type: ignore[arg-type]
        assert "as text; the limit is 536870912" in str(error.diag.message_detail)


def test_fetch_leaves_no_cursor_behind(log: Session) -> None:
    """So it can be called again in the transaction, and beside a cursor of the same name."""
    topic = new_topic(log, partitions=2, messages=2)
    log.create_group(topic=topic, consumer_group="g")
    with log.transaction():
        log.execute("declare sources cursor for select 1")
        for _ in range(2):
            assert len(log.fetch(topic=topic, consumer_group="g")) == 4
        assert row(log, "select count(*) from pg_cursors where name <> 'sources'") == (0,)
        both = "pgq.fetch(%s, 'g') as f cross join pgq.fetch(%s, 'g') as g"
        assert row(log, f"select count(*) from {both}", [topic, topic]) == (16,)


def test_fetch_of_as_many_as_were_asked_for(log: Session) -> None:
    """The last one is measured like any other."""
    topic = new_topic(log, partitions=2)
    for partition, size in enumerate((600_000, 1_000_000)):
        log.publish(topic=topic, body=bytes(size), partition=partition)
    for most in (2, 100):
        rows = log.fetch(
            topic=topic, consumer_group="readers", max_messages=most, max_bytes=700_000
        )
        assert [(message.partition, message.cut_short) for message in rows] == [(0, True)]
