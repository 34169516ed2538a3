"""Everybody at once at a deferred topic, while its segments are sealed and closed."""

from __future__ import annotations

import threading
from functools import partial
from random import Random
from typing import Any

import psycopg

from support.clock import Clock
from support.session import Connect, Session, row
from support.snapshots import LEVELS
from support.waiting import aside, results


def publishing(writer: Session, number: int) -> list[int]:
    """Transactions with one key, some rolled back: what committed, in order."""
    random = Random(number)
    kept: list[int] = []
    payload = 0
    for _ in range(60):
        try:
            written = []
            for _ in range(random.randint(1, 3)):
                payload += 1
                content = number * 100_000 + payload
                if random.random() < 0.3:
                    writer.publish_batch(topic="t", payloads=[content], keys=[f"k{number}"])
                else:
                    writer.publish(topic="t", payload=content, key=f"k{number}")
                written.append(content)
        except psycopg.errors.SerializationFailure:
            writer.rollback()
            continue
        if random.random() < 0.15:
            writer.rollback()
        else:
            try:
                writer.commit()
            except psycopg.errors.SerializationFailure:
                writer.rollback()
            else:
                kept += written
    return kept


def reading(member: Session, group: str, done: threading.Event) -> list[Any]:
    """What a member of a group gets in transactions that commit."""
    random = Random(group)
    found: list[Any] = []
    while True:
        last = done.is_set()
        try:
            taken = member.consume(
                topic="t", consumer_group=group, max_messages=random.choice([1, 7, 100])
            )
            if random.random() < 0.1:
                member.rollback()
                continue
            member.commit()
        except psycopg.errors.SerializationFailure:
            member.rollback()
            continue
        found += taken
        if last and not taken:
            return found


def cleaning(cleaner: Session, clock: Clock, done: threading.Event) -> set[str]:
    """Cleanup while the clock goes on, though not for as long as messages are kept."""
    actions: set[str] = set()
    for _ in range(24):
        clock.advance("20 minutes")
        actions |= {action.action for action in cleaner.cleanup()}
    while not done.is_set():
        actions |= {action.action for action in cleaner.cleanup()}
    return actions


def test_a_crowd(connect: Connect, connection: Session, clock: Clock) -> None:
    """Each message once, offsets without gaps, each key in its order; nothing is left behind."""
    connection.create_topic(topic="t", partitions=2, retention="9 hours", deferred=True)
    for group in ("g", "h"):
        connection.create_group(topic="t", consumer_group=group)
    written, done = threading.Event(), threading.Event()
    levels = ("read committed", "read committed", *LEVELS)
    members = [
        ("g", connect()),
        ("g", connect()),
        ("h", connect(isolation_level="repeatable read")),
    ]
    readers = [aside(partial(reading, member, group, written)) for group, member in members]
    cleaner = aside(partial(cleaning, connect(autocommit=True), clock, done))
    writers = [
        aside(partial(publishing, connect(isolation_level=level), number))
        for number, level in enumerate(levels)
    ]
    kept = results(*writers)
    written.set()
    first, second, third = results(*readers)
    done.set()
    assert {"segment sealed", "segment closed"} <= results(cleaner)[0]

    read = {"g": first + second, "h": third}
    connection.assign_offsets(topic="t")
    everything = sorted(n for numbers in kept for n in numbers)
    for group, rows in read.items():
        while more := connection.consume(topic="t", consumer_group=group):
            rows += more
        places = [(message.partition, message.log_offset) for message in rows]
        assert len(set(places)) == len(places)
        assert sorted(message.payload for message in rows) == everything
        for offsets in connection.list_offsets(topic="t"):
            numbers = [place[1] for place in places if place[0] == offsets.partition]
            assert sorted(numbers) == list(range(1, offsets.last_offset + 1))
        ordered = [message.payload for message in sorted(rows, key=lambda m: m[:2])]
        for number, mine in enumerate(kept):
            assert [n for n in ordered if n // 100_000 == number] == mine
    left = "select count(*) from pgq.message where partition_id < 0"
    assert row(connection, left) == (0,)
