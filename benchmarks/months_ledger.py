"""What a run of months has done, kept by those who did it, and held against the database."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from stored_state import wrong_state

__all__ = ["Digest", "Ledger", "Recorder", "check"]

MASK = (1 << 64) - 1


@dataclass
class Digest:
    """Numbers that were written, or read: how many, and a sum that tells one set from another."""

    count: int = 0
    mixed: int = 0

    def add(self, numbers: Iterable[int]) -> None:
        """Take these numbers in, in any order."""
        for number in numbers:
            self.count += 1
            self.mixed = (self.mixed + _mix(number)) & MASK


def _mix(number: int) -> int:
    """A number far from those of its neighbours (the last steps of splitmix64)."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31


class Recorder:
    """How long calls took, and figures that clients note of themselves."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.calls: dict[str, list[float]] = defaultdict(list)
        """Milliseconds of the calls of each kind, in the order in which they ended."""
        self.notes: dict[str, dict[str, float]] = defaultdict(dict)
        self.retries = 0
        self.late = 0.0
        """Seconds by which clients fell behind what they were to offer."""

    @contextmanager
    def timed(self) -> Iterator[list[str]]:
        """Time a call; whoever makes it says of which kind it was."""
        kind: list[str] = []
        begun = time.perf_counter()
        yield kind
        taken = (time.perf_counter() - begun) * 1000
        for name in kind:
            self.calls[name].append(taken)


@dataclass
class Ledger:
    """The promises: offsets are dense, and each job ends once. What breaks them is a trouble."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    written: dict[str, Digest] = field(default_factory=lambda: defaultdict(Digest))
    read: dict[str, Digest] = field(default_factory=lambda: defaultdict(Digest))
    following: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """The offset that comes next, by topic, group and partition."""
    enqueued: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    ended: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    redriven: set[int] = field(default_factory=set)
    hopeless: set[int] = field(default_factory=set)
    """Dead letters that nobody redrives."""
    turns: dict[str, int] = field(default_factory=dict)
    """The last job of each ordered key that ended."""
    ticks: Counter[tuple[str, str]] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    """How often what happened."""
    troubles: list[str] = field(default_factory=list)

    def trouble(self, what: str) -> None:
        """Note a promise that was broken."""
        if len(self.troubles) < 100:
            self.troubles.append(what)

    def publish(self, topic: str, numbers: Iterable[int]) -> None:
        """Messages with these numbers are in a topic."""
        with self.lock:
            self.written[topic].add(numbers)

    def follow(self, topic: str, group: str, partition: int, offsets: Sequence[int]) -> None:
        """A group got these offsets: they have to follow each other, and those before."""
        with self.lock:
            place = (topic, group, partition)
            expected = self.following.get(place, 1)
            if list(offsets) != list(range(expected, expected + len(offsets))):
                self.trouble(
                    f"{group} of {topic}/{partition} got {offsets[0]} to {offsets[-1]},"
                    f" {len(offsets)} messages, where {expected} was next"
                )

    def consume(self, topic: str, group: str, partition: int, found: dict[int, int]) -> None:
        """A group is past these offsets, which have these numbers."""
        self.follow(topic, group, partition, list(found))
        with self.lock:
            self.following[topic, group, partition] = max(found) + 1
            self.read[f"{topic} by {group}"].add(found.values())

    def claimed(self, queue: str, job_ids: Iterable[int]) -> None:
        """A worker was given these jobs."""
        with self.lock:
            for job_id in job_ids:
                self.done["leases"] += 1
                if job_id in self.ended[queue]:
                    self.trouble(f"job {job_id} of {queue} was given out after it had ended")

    def end(self, queue: str, job_ids: Iterable[int], numbers: Iterable[int] = ()) -> None:
        """A worker was told that it has ended these jobs."""
        with self.lock:
            for job_id in job_ids:
                self.done["jobs ended"] += 1
                if job_id in self.ended[queue]:
                    self.trouble(f"job {job_id} of {queue} ended twice")
                self.ended[queue].add(job_id)
            self.read[queue].add(numbers)

    def in_turn(self, key: str, number: int) -> None:
        """A job of an ordered key has ended."""
        with self.lock:
            if number <= self.turns.get(key, 0):
                self.trouble(f"{number} of key {key} ended after {self.turns[key]}")
            self.turns[key] = number


def check(connection: psycopg.Connection[Any], ledger: Ledger, readers: Sequence[str]) -> list[str]:
    """What is not as it should be, once all work is done; readers are "topic by group"."""
    troubles = list(ledger.troubles)
    for reader in readers:
        topic = reader.split(" by ")[0]
        if ledger.read[reader] != ledger.written[topic]:
            troubles.append(f"{reader}: {ledger.read[reader]}, not {ledger.written[topic]}")
    for topic, group, partition, committed, last in connection.execute(
        "select topic, consumer_group, partition, committed_offset, last_offset from pgq.group_lag"
    ):
        expected = ledger.following.get((topic, group, partition), 1) - 1
        if (committed, last or 0) != (expected, expected):
            troubles.append(
                f"{group} of {topic}/{partition} is at {committed} of {last},"
                f" having read {expected}"
            )
    for queue, given in ledger.enqueued.items():
        hopeless = ledger.hopeless if queue == "work" else set()
        if ledger.ended[queue] & hopeless:
            troubles.append(f"{queue}: dead letters were finished")
        lost = given ^ (ledger.ended[queue] | hopeless)
        if lost:
            troubles.append(f"{queue}: {len(lost)} jobs have no end, such as {sorted(lost)[:5]}")
    for queue in ("followers", "bulk-jobs"):
        if ledger.read[queue] != ledger.written[queue]:
            troubles.append(f"{queue}: {ledger.read[queue]}, not {ledger.written[queue]}")
    troubles += _wrong_ticks(connection, ledger)
    troubles += wrong_state(lambda query: connection.execute(query.encode()).fetchall())
    left = connection.execute(
        "select queue, ready, leased, delayed, waiting from pgq.queue_stats"
        " where ready + leased + delayed + waiting > 0"
    ).fetchall()
    if left:
        troubles.append(f"jobs are left (ready, leased, delayed, waiting): {left}")
    return troubles


def _wrong_ticks(connection: psycopg.Connection[Any], ledger: Ledger) -> list[str]:
    twice = [tick for tick, count in ledger.ticks.items() if count > 1]
    troubles = [f"tick {tick} was written more than once" for tick in twice[:5]]
    for name, ticks in connection.execute(
        "select schedule, round(extract(epoch from next_at - starts_at)"
        " / extract(epoch from every)) from pgq.list_schedules() where every is not null"
    ):
        found = sum(schedule == name for schedule, _ in ledger.ticks)
        if found != int(ticks):
            troubles.append(f"schedule {name}: {found} ticks, not {int(ticks)}")
    return troubles
