"""What the log promises, held against what was answered in a trial."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from explorer.check_keys import published_numbers
from explorer.database import Link, Row
from explorer.history import Event, History, Order
from explorer.poison_calls import DEAD, POISON
from explorer.settings import kept_for
from explorer.tick_calls import TICK_NUMBERS, TICKS
from explorer.writes import written_chunks

__all__ = ["Topic", "check_topics", "number_of"]

MARGIN = 60
"""Seconds of a trial that may pass by themselves, and more."""

FOREVER = 10**12

OTHERS = f"'{TICKS}', '{POISON}', '{DEAD}'"
"""Topics that have checks of their own."""


@dataclass
class Published:
    """A message that was committed; its place is not always answered."""

    number: int
    event: Event
    partition: int | None
    log_offset: int | None


@dataclass
class Topic:
    """A topic that is there in the end: what was published to it, and what it holds."""

    name: str
    history: History
    cut: Order | None
    published: list[Published] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    stored: dict[int, dict[int, int]] = field(default_factory=dict)
    at: dict[tuple[int, int], Published] = field(default_factory=dict)
    times: dict[int, str] = field(default_factory=dict)
    limited: bool = False

    def since_cut(self, *calls: str) -> list[Event]:
        """Committed calls for this topic, not for one of its name before."""
        return [
            event
            for event in self.history.committed(*calls)
            if event.arguments.get("topic") == self.name
            and (self.cut is None or event.order > self.cut)
        ]

    def may_be_gone(self, published: Published) -> bool:
        """Whether retention may have removed it by now, as far as can be told."""
        if self.limited:
            return True
        started = published.event.transaction.started
        later = FOREVER
        in_force = {FOREVER}
        for event in self.since_cut("create_topic", "alter_topic"):
            seconds = kept_for(event.rows[0]["retention"]) or FOREVER
            if event.transaction.ended > started:
                later = min(later, seconds)
            elif self._reached_all(event, started):
                in_force = {seconds}
            else:
                in_force.add(seconds)
        kept = min(later, *in_force)
        until = self.history.last_cleanup()
        passed = self.history.passed(published.event.started, until)
        return passed >= kept - MARGIN

    def _reached_all(self, event: Event, until: int) -> bool:
        """Whether new settings were those of all partitions by then: one that somebody publishes
        to, or gives offsets in, gets them from the next cleanup."""
        history = self.history
        if not history.was_beside(event.transaction):
            return True
        return any(
            event.transaction.ended <= cleanup.started
            and cleanup.ended <= until
            and not history.was_beside(cleanup.transaction)
            for cleanup in history.committed("cleanup")
        )

    def range_may_be_gone(self, partition: int, first: int, last: int) -> bool:
        """The same for all offsets of a range."""
        for log_offset in range(first, last + 1):
            published = self.at.get((partition, log_offset))
            if published is not None and not self.may_be_gone(published):
                return False
        return True


def number_of(row: Row) -> int | None:
    """The number of a message; None when its content is missing. A tick has that of its job."""
    payload = row.get("payload") or row.get("body")
    if payload is None:
        return None
    if payload.startswith("\\x"):
        payload = bytes.fromhex(payload[2:]).decode()
    found: Any = json.loads(payload)
    return int(found["n"]) if "n" in found else TICK_NUMBERS + int(row["job_id"])


def check_topics(history: History, link: Link) -> list[Topic]:
    """Check what all topics hold; returns them for the checks of their groups."""
    drops = {e.arguments["topic"]: e.order for e in history.committed("drop_topic")}
    topics = []
    for row in link.rows(f"select topic from pgq.list_topics() where topic not in ({OTHERS})"):
        topic = Topic(row["topic"], history, drops.get(row["topic"]))
        topic.limited = any(
            event.rows and event.rows[0]["max_bytes"] is not None
            for event in topic.since_cut("create_topic", "alter_topic")
        )
        _note_published(topic)
        _read(topic, link)
        _compare(topic)
        _check_order(topic)
        topics.append(topic)
    _check_view(topics, history, link)
    return topics


def _note_published(topic: Topic) -> None:
    def add(event: Event, number: int, partition: int | None, log_offset: int | None) -> None:
        published = Published(number, event, partition, log_offset)
        topic.published.append(published)
        if partition is None or log_offset is None:
            return
        other = topic.at.setdefault((partition, log_offset), published)
        if other is not published:
            topic.history.violate(
                "offset given out twice",
                f"{topic.name}/{partition} offset {log_offset}: messages {other.number}, {number}",
            )

    for event in topic.since_cut("publish"):
        if not event.rows[0]["duplicate"]:
            add(event, event.numbers[0], event.rows[0]["partition"], event.rows[0]["log_offset"])
    for event in topic.since_cut("publish_batch"):
        rows = [row for row in event.rows if not row["duplicate"]]
        numbers = published_numbers(event)
        if rows and not numbers:
            topic.history.violate("wrong answer", f"{event.statement}: {event.answer}")
        alone = rows[0] if len(rows) == 1 and rows[0]["first_offset"] is not None else None
        for place, number in enumerate(numbers):
            if alone is not None:
                add(event, number, alone["partition"], alone["first_offset"] + place)
            else:
                add(event, number, None, None)
    for event, chunk in written_chunks(topic.history, "topic", topic.name, topic.cut):
        for number in chunk.numbers:
            add(event, number, None, None)
    topic.published.sort(key=lambda published: published.event.order)


def _read(topic: Topic, link: Link) -> None:
    offsets = link.rows(f"select * from pgq.list_offsets('{topic.name}')")
    for row in offsets:
        partition, first, last = row["partition"], row["first_offset"], row["last_offset"]
        if first is None or last is None:
            topic.history.violate("gap", f"{topic.name}/{partition} has no offsets: {row}")
            first, last = first or 1, last or 0
        topic.first[partition], topic.last[partition] = first, last
        answer = link.ask(
            f"select * from pgq.fetch_range('{topic.name}', {partition}, {first}, {last})"
        )
        if answer.code is not None:
            topic.history.violate("gap", f"{topic.name}/{partition} {first} to {last}: {answer}")
        numbers = [number_of(found) or -1 for found in answer.rows]
        topic.times |= {
            number: found["published_at"]
            for found, number in zip(answer.rows, numbers, strict=True)
        }
        topic.stored[partition] = {
            found["log_offset"]: number for found, number in zip(answer.rows, numbers, strict=True)
        }
        if answer.code is None and list(topic.stored[partition]) != list(range(first, last + 1)):
            topic.history.violate(
                "gap", f"{topic.name}/{partition} {first} to {last} has {topic.stored[partition]}"
            )
        times = [found["published_at"][:19] for found in answer.rows]
        if times != sorted(times):
            topic.history.violate("time goes back", f"{topic.name}/{partition}: {times}")


def _compare(topic: Topic) -> None:
    violate: Callable[[str, str], None] = topic.history.violate
    stored = Counter(number for held in topic.stored.values() for number in held.values())
    known = {published.number: published for published in topic.published}
    for number, times in stored.items():
        if number not in known:
            violate(
                "ghost", f"{topic.name} holds message {number}, which was never committed to it"
            )
        elif times > 1:
            violate("stored twice", f"{topic.name} holds message {number} {times} times")
    for published in topic.published:
        if published.partition is None or published.log_offset is None:
            if not stored[published.number] and not topic.may_be_gone(published):
                violate("lost message", f"{topic.name}: {published.number}, of unknown place")
            continue
        place = f"{topic.name}/{published.partition} offset {published.log_offset}"
        if published.log_offset < topic.first.get(published.partition, FOREVER):
            if not topic.may_be_gone(published):
                violate("lost message", f"{place}: {published.number} was removed too early")
            continue
        held = topic.stored.get(published.partition, {}).get(published.log_offset)
        if held != published.number:
            violate("lost message", f"{place}: message {published.number} committed, {held} held")
    ends = sum(topic.last.values())
    if ends != len(topic.published):
        violate(
            "not dense",
            f"{topic.name}: {len(topic.published)} messages committed, last offsets {topic.last}",
        )


def _check_order(topic: Topic) -> None:
    """What commits later has higher offsets."""
    for partition in topic.last:
        highest = before = 0
        when = (-1, -1)
        for published in topic.published:
            if published.partition != partition or published.log_offset is None:
                continue
            transaction = published.event.transaction
            if (transaction.ended, transaction.place) != when:
                when = (transaction.ended, transaction.place)
                before = highest
            if published.log_offset <= before:
                topic.history.violate(
                    "commit order",
                    f"{topic.name}/{partition}: message {published.number} at offset "
                    f"{published.log_offset} committed after offset {before}",
                )
            highest = max(highest, published.log_offset)


def _check_view(topics: list[Topic], history: History, link: Link) -> None:
    first = {(topic.name, number): low for topic in topics for number, low in topic.first.items()}
    for row in link.rows(
        "select topic, partition, log_offset, count(*) as copies from pgq.messages"
        f" where topic not in ({OTHERS}) group by topic, partition, log_offset having count(*) > 1"
    ):
        if row["log_offset"] >= first[row["topic"], row["partition"]]:
            history.violate("stored twice", f"the view messages shows {row}")
    for row in link.rows(
        "select topic, partition, min(log_offset) as lowest from pgq.messages"
        f" where topic not in ({OTHERS}) group by 1, 2"
    ):
        start = first[row["topic"], row["partition"]]
        if row["lowest"] < start:
            history.violate("below the start", f"the view messages shows {row}, not from {start}")
