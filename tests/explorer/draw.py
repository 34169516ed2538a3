"""Draws the arguments of calls from a random generator, with names that meet each other."""

from __future__ import annotations

import json
import random

from explorer.script import Late, Value

__all__ = ["JOB_TTLS", "LEASES", "MOVES", "RETENTIONS", "WINDOWS", "Arguments", "Draw", "Near"]

Arguments = dict[str, Value]

RETENTIONS = ("3 hours", "3 hours", "3 hours", "12 hours", "7 days")
JOB_TTLS = ("3 hours", "12 hours", "7 days", "90 days")
"""Jobs live shorter than what is kept beside them, or outlive it."""
WINDOWS = ("3 hours", "3 hours", "1 day", "7 days")
"""Of idempotency keys; a day is what they have at first."""
LEASES = ("10 minutes", "1 hour")
MOVES = (60, 660, 1900, 3700, 3700, 3700, 11000, 11000, 44000, 700000, -60, -3700, -700000)
"""Seconds; a segment of 3 hours is sealed after an hour and truncated three hours later."""
ROUTING_KEYS = ("o", "o.x", "o.x.eu", "o.y.eu", "p.x.eu", "")


class Draw:
    """Draws arguments. ``topics`` has the number of partitions of each topic of the set-up;
    ``deferred``: new ones may be deferred. ``followed``: what is published has headers and keys
    that subscriptions look at. ``keyed``: queues have max_leased_per_key. ``limited``: they have
    other limits of claims. ``prefetched``: claims prefetch. ``guarded``: roles call. ``mixed``:
    schedules and bulk writes write to an ordered queue. ``wide``: there are two of each thing in
    any case. ``noted``: workers tell who they are, and results. ``place``: see Near."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.topics: dict[str, int] = {}
        self.queues: list[str] = []
        self.deferred = False
        self.followed = False
        self.keyed = False
        self.limited = False
        self.mixed = False
        self.prefetched = False
        self.guarded = False
        self.noted = False
        self.wide = False
        self.place: int | None = None
        self._number = 0

    def number(self) -> int:
        """A number that no other message of the trial has."""
        self._number += 1
        return self._number

    def some(self, share: float) -> bool:
        return self.rng.random() < share

    def topic(self) -> str:
        names = list(self.topics) or ["a"]
        if self.some(0.03):
            return "c"
        return names[0] if self.some(0.75) else self.rng.choice(names)

    def queue(self) -> str:
        names = self.queues or ["q"]
        if self.some(0.03):
            return "s"
        return names[0] if self.some(0.75) else self.rng.choice(names)

    def group(self) -> str:
        return "g" if self.some(0.85) else "h"

    def effect(self) -> str:
        return "e" if self.some(0.8) else "f"

    def partition(self, share_of_none: float = 0.1) -> int | None:
        if self.some(share_of_none):
            return None
        return 0 if self.some(0.75) else 1

    def member(self, share_of_none: float = 0.1) -> Arguments:
        """A group's topic, name and partition."""
        topic = self.topic()
        partition = self.partition(share_of_none)
        if partition is not None and partition >= self.topics.get(topic, 1):
            partition = 0
        named = {"topic": topic, "consumer_group": self.group()}
        return named if partition is None else {**named, "partition": partition}

    def home(self) -> Arguments:
        """Where a message goes: a topic, and a partition, a key, or any."""
        topic = self.topic()
        choice = self.rng.random()
        if choice < 0.6:
            return {"topic": topic, "partition": 0}
        if choice < 0.7 and self.topics.get(topic, 1) > 1:
            return {"topic": topic, "partition": 1}
        if choice < 0.95:
            return {"topic": topic, "key": self.rng.choice("xyz")}
        return {"topic": topic}

    def headers(self) -> str | None:
        """Headers that filters and routing patterns ask for; seldom none."""
        if self.some(0.15):
            return None
        headers: dict[str, object] = {"routing_key": self.rng.choice(ROUTING_KEYS)}
        if self.some(0.8):
            headers["kind"] = self.rng.choice(["a", "a", "b", "c"])
        if self.some(0.7):
            headers["size"] = self.rng.choice([1, 2])
        return json.dumps(headers)

    def ordered_key(self) -> str | None:
        """A key that means something in an ordered queue."""
        return self.rng.choice(["x", "x", "x", "y", None])

    def known_key(self) -> Arguments:
        """Seldom an idempotency key, one of three."""
        return {"idempotency_key": self.rng.choice("aabc")} if self.some(0.25) else {}

    def told(self, name: str, prefix: str) -> Arguments:
        """Often who has tried, or a result, where it is noted; no two are the same."""
        return {name: f"{prefix}{self.number()}"} if self.noted and self.some(0.7) else {}

    def late(self, kind: str) -> Late:
        return Late(kind, self.rng.choice([0, 0, 0, 1, 2]))


class Near(Draw):
    """Names the first of all things when ``place`` is 0, the last when it is 1; None: any."""

    def topic(self) -> str:
        return super().topic() if self.place is None else (list(self.topics) or ["a"])[0]

    def queue(self) -> str:
        return super().queue() if self.place is None else (self.queues or ["q"])[-self.place]

    def group(self) -> str:
        return super().group() if self.place is None else "gh"[self.place]

    def effect(self) -> str:
        return super().effect() if self.place is None else "ef"[self.place]

    def partition(self, share_of_none: float = 0.1) -> int | None:
        return super().partition(share_of_none) if self.place is None else self.place

    def home(self) -> Arguments:
        if self.place is None:
            return super().home()
        return {"topic": self.topic(), "partition": self.place}

    def late(self, kind: str) -> Late:
        return super().late(kind) if self.place is None else Late(kind, self.place)
