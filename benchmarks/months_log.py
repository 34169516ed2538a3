"""Publishers, bulk writers and consumers of a run of months."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from benchmarks.months_actors import Actor, World
from benchmarks.months_house import BRIEF
from benchmarks.pgbench import body_of

__all__ = ["Consumer", "LeasedConsumer", "Loader", "Publisher", "log_actors"]

FILLING = body_of(1000)
DIGITS = 12


def body(number: int, size: int) -> bytes:
    """So many bytes that begin with a number."""
    return f"{number:0{DIGITS}}{FILLING}".encode()[:size]


class Publisher(Actor):
    """Publishes single messages, of which some have keys, headers or an idempotency key."""

    produces = True

    def __init__(
        self, world: World, name: str, topics: Sequence[str], rate: float, size: int
    ) -> None:
        super().__init__(world, name, rate)
        self.topics = topics
        self.size = size

    def step(self) -> None:
        topic = self.rng.choice(self.topics)
        number = next(self.ledger.numbers)
        events = topic == "events"
        key = f"key-{self.rng.randrange(200)}" if events else None
        header = {"kind": self.rng.choice("abcd")} if events else None
        once = f"once-{number}" if events and self.rng.random() < 0.3 else None
        kind = "publish (deferred)" if topic == "later" else "publish"
        kind = f"{kind}, idempotency key" if once else kind
        for attempt in range(2 if once and self.rng.random() < 0.2 else 1):
            [(duplicate,)] = self.ask(
                kind,
                "select duplicate from pgq.publish(%s, key => %s, headers => %s,"
                " idempotency_key => %s, body => %s)",
                [
                    *(topic, key, header and json.dumps(header), once),
                    body(number, self.size),
                ],
            )
            if bool(duplicate) != (attempt > 0):
                self.ledger.trouble(f"{once} was called a duplicate: {duplicate}")
        self.ledger.publish(topic, [number])
        if header and header["kind"] == "a":
            self.ledger.publish("followers", [number])


class BatchPublisher(Publisher):
    """Publishes ten messages at once."""

    def step(self) -> None:
        numbers = [next(self.ledger.numbers) for _ in range(10)]
        self.ask(
            "publish_batch",
            "select * from pgq.publish_batch(%s, bodies => %s)",
            [self.topics[0], [body(number, self.size) for number in numbers]],
        )
        self.ledger.publish(self.topics[0], numbers)


class Loader(Actor):
    """Writes in bulk: large runs into a topic, and small writes into a queue."""

    rate = 0.4
    produces = True

    def __init__(self, world: World, name: str, first_seq: int) -> None:
        super().__init__(world, name)
        self.seqs = itertools.count(first_seq)

    def step(self) -> None:
        seq = next(self.seqs)
        named = seq % 2 == 0
        target, where = ("topic", "bulk") if seq % 4 < 2 else ("queue", "bulk-jobs")
        tasks = [(600, 300), (100, 100)] if target == "topic" else [(20, 20)]
        [(write_id,)] = self.ask(
            "begin_write",
            f"select write_id from pgq.begin_write({target} => %s, producer => %s, seq => %s)",
            [where, *(("loader", seq) if named else (None, None))],
        )
        written: list[int] = []
        for task, (messages, chunk) in enumerate(tasks):
            numbers = [next(self.ledger.numbers) for _ in range(messages)]
            with self.connection.transaction():
                for first in range(0, messages, chunk):
                    bodies = [body(number, 200) for number in numbers[first : first + chunk]]
                    self.ask(
                        "write_chunk",
                        "select pgq.write_chunk(%s, %s, 'a', %s, %s::integer[],"
                        " packed_bodies => %s, last_chunk => %s)",
                        [
                            *(write_id, task, first // chunk, [len(each) for each in bodies]),
                            *(b"".join(bodies), first + chunk >= messages),
                        ],
                    )
            written += numbers
        self.ask("commit_write", "select * from pgq.commit_write(%s, %s)", [write_id, len(written)])
        self.ledger.done["bulk writes"] += 1
        self.ledger.publish(where, written)


class Consumer(Actor):
    """Takes what there is, in the call's own transaction."""

    def __init__(self, world: World, name: str, topics: Sequence[str], rate: float) -> None:
        super().__init__(world, name, rate)
        self.turns = itertools.cycle(topics)

    def step(self) -> None:
        topic = next(self.turns)
        kind = "consume (deferred)" if topic == "later" else "consume"
        rows = self.ask(
            kind,
            "select partition, log_offset, body from pgq.consume(%s, 'exact', 1000)",
            [topic],
            otherwise="consume, nothing there",
        )
        if rows:
            found = {offset: int(text[:DIGITS]) for _, offset, text in rows}
            self.ledger.consume(topic, "exact", rows[0][0], found)


class LeasedConsumer(Actor):
    """Polls with a lease and commits; now and then it dies before it commits."""

    rate = 8

    def step(self) -> None:
        rows = self.ask(
            "poll",
            "select partition, log_offset, body, lease_token"
            " from pgq.poll('events', 'leased', 500, lease => '3 hours')",
            otherwise="poll, nothing there",
        )
        if not rows:
            return
        partition, _, _, token = rows[0]
        found = {offset: int(text[:DIGITS]) for _, offset, text, _ in rows}
        self.ledger.follow("events", "leased", partition, list(found))
        if self.rng.random() < 0.02:
            self.ledger.done["members that died"] += 1
            return
        self.ask(
            "commit_offset",
            "select pgq.commit_offset('events', 'leased', %s, %s, %s)",
            [partition, max(found), token],
        )
        self.ledger.consume("events", "leased", partition, found)


def log_actors(world: World, first_seq: int) -> list[Actor]:
    """All of them."""
    return [
        Publisher(world, "publisher", ["events"], 20, 500),
        Publisher(world, "brief publisher", BRIEF, 20, 800),
        Publisher(world, "deferred publisher", ["later"], 8, 400),
        BatchPublisher(world, "batch publisher", ["capped"], 4, 1000),
        Loader(world, "loader", first_seq),
        Consumer(world, "consumer", ["events"], 16),
        Consumer(world, "brief consumer", BRIEF, 24),
        Consumer(world, "other consumer", ["later", "capped", "bulk"], 15),
        LeasedConsumer(world, "leased consumer"),
    ]
