"""Clients of a fault run that publish, enqueue and write in bulk."""

from __future__ import annotations

import json
import random
from typing import Any

from fault_runs.client import LEVELS, Client, Role, RollBack
from fault_runs.journal import entries

__all__ = ["LATE", "PRODUCERS", "bulk_names"]

TOPICS = ["log", "log", "log", "brief", "later", "wide"]
QUEUES = ["jobs", "jobs", "brief-jobs"]
ORDERED_KEYS = 10

LATE = 5400
"""Seconds of a delay that the clock gets over at the end of a round only."""


def content(name: str, **more: Any) -> str:
    """The payload of a message."""
    return json.dumps({"name": name, **more})


class Publisher(Role):
    """Publishes messages, alone and in batches, some to be rolled back."""

    def step(self) -> None:
        topic = self.rng.choice(TOPICS)
        size = self.rng.choice([1, 1, 2, 7, 40])
        names = [self.client.new_name() for _ in range(size)]
        keys = [self.rng.choice([None, "a", "b", "c", "d"]) for _ in names]
        headers = [json.dumps({"kind": self.rng.choice("ab")}) for _ in names]
        about = {"topic": topic, "names": names}
        with self.client.unit("publish", level=self.rng.choice(LEVELS), **about) as told:
            told["places"] = []
            if size > 2:
                found = self.client.ask(
                    "select partition, first_offset, last_offset from pgq.publish_batch("
                    "%s, %s::jsonb[], %s::text[], %s::jsonb[])",
                    [topic, [content(name) for name in names], keys, headers],
                )
                told["places"] = [list(place) for place in found]
            else:
                for name, key, header in zip(names, keys, headers, strict=True):
                    [(partition, offset)] = self.client.ask(
                        "select partition, log_offset from pgq.publish(%s, %s, %s, %s)",
                        [topic, content(name), key, header],
                    )
                    told["places"].append([partition, offset, offset])
            if self.rng.random() < 0.1:
                raise RollBack


class OncePublisher(Role):
    """Publishes with an idempotency key, again and again until it knows that it has."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.pending = ""

    def step(self) -> None:
        self.pending = self.pending or self.client.new_name()
        name = self.pending
        way = self.rng.random() < 0.5
        with self.client.unit("once", topic="once", names=[name], single=way) as told:
            [(partition, offset, duplicate)] = self.client.ask(
                "select * from pgq.publish('once', %s, %s, idempotency_key => %s)",
                [content(name), self.rng.choice([None, "a", "b"]), name],
            )
            told["places"] = [[partition, offset, offset]]
            told["duplicate"] = duplicate
        self.pending = ""

    def idle(self) -> bool:
        return not self.pending


class Enqueuer(Role):
    """Enqueues jobs, alone and in batches, some of them later than now."""

    def step(self) -> None:
        queue = self.rng.choice(QUEUES)
        size = self.rng.choice([1, 1, 3, 20])
        names = [self.client.new_name() for _ in range(size)]
        payloads = [content(name) for name in names]
        later = self.rng.choice([None, None, None, "0.3 seconds"])
        about = {"queue": queue, "names": names}
        with self.client.unit("enqueue", level=self.rng.choice(LEVELS), **about) as told:
            if size == 1:
                found = self.client.ask(
                    "select job_id from pgq.enqueue(%s, %s, delay => %s::interval, priority => %s)",
                    [queue, payloads[0], later, self.rng.choice([0, 0, 1])],
                )
            else:
                found = self.client.ask(
                    "select job_id from pgq.enqueue_batch(%s, %s::jsonb[], delay => %s::interval)",
                    [queue, payloads, later],
                )
            told["job_ids"] = [job_id for (job_id,) in found]
            if self.rng.random() < 0.1:
                raise RollBack


class SweptEnqueuer(Role):
    """Enqueues jobs that an operator is to find by their label, or not to find."""

    def step(self) -> None:
        label = self.rng.choice(["cancel", "retry", "redrive", "redrive", "purge", "left"])
        late = label in ("retry", "left")
        size = 1 if late else self.rng.choice([1, 5, 10])
        names = [self.client.new_name() for _ in range(size)]
        with self.client.unit("enqueue", queue="swept", names=names) as told:
            found = self.client.ask(
                "select job_id from pgq.enqueue_batch('swept', %s::jsonb[], labels => %s::text[],"
                " delay => %s * interval '1 second')",
                [[content(name) for name in names], [label] * size, LATE if late else 0],
            )
            told["job_ids"] = [job_id for (job_id,) in found]
        self.rest()


class Replacer(Role):
    """Enqueues ever newer versions of what stands under its own unique keys."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.version = 0

    def step(self) -> None:
        queue = self.rng.choice(["replaced", "postponed"])
        keys = [
            f"{self.client.name}:{self.rng.randrange(3)}" for _ in range(self.rng.choice([1, 1, 4]))
        ]
        names = [f"{key}={self.version + n}" for n, key in enumerate(keys)]
        self.version += len(keys)
        with self.client.unit("replace", level=self.rng.choice(LEVELS), queue=queue, names=names):
            self.client.ask(
                "select * from pgq.enqueue_batch(%s, %s::jsonb[], unique_keys => %s::text[],"
                " delay => %s::interval)",
                [queue, [content(n) for n in names], keys, self.rng.choice([None, "0.2 seconds"])],
            )
            if self.rng.random() < 0.1:
                raise RollBack
        if self.rng.random() < 0.5:
            self.rest()


class OrderedEnqueuer(Role):
    """Enqueues jobs of its own keys, which are to be done in that order."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.numbers = [0] * ORDERED_KEYS

    def step(self) -> None:
        which = self.rng.randrange(ORDERED_KEYS)
        size = self.rng.choice([1, 2, 5])
        key = f"{self.client.name}:{which}"
        names = [f"{key}:{self.numbers[which] + n}" for n in range(size)]
        self.numbers[which] += size
        with self.client.unit("enqueue", queue="ordered", names=names) as told:
            found = self.client.ask(
                "select job_id from pgq.enqueue_batch('ordered', %s::jsonb[], %s::text[])",
                [[content(name) for name in names], [key] * size],
            )
            told["job_ids"] = [job_id for (job_id,) in found]


def bulk_names(producer: str, seq: int) -> list[list[str]]:
    """What a bulk write holds, by task; it is the same whenever it is asked."""
    rng = random.Random(f"{producer}/{seq}")
    sizes = [rng.choice([1, 5, 60]) for _ in range(rng.choice([1, 2, 3]))]
    return [
        [f"{producer}-{seq}-{task}-{n}" for n in range(size)] for task, size in enumerate(sizes)
    ]


class BulkWriter(Role):
    """Writes of many tasks, begun again under the same number until they are committed."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        # the name of the client before the dot stays when another takes its place
        self.producer = client.name.split(".")[0]
        self.begun = False
        begun = done = 0
        for entry in entries(client.path):
            begun = entry.get("seq", begun)
            if entry["what"] == "done" and entry.get("written"):
                done = entry["written"]
        self.seq = begun or 1
        self.begun = begun > done
        if begun and begun == done:
            self.seq = begun + 1

    def step(self) -> None:
        target, atomic = ("queue", "bulk-jobs") if self.seq % 3 == 0 else ("topic", "bulk"), True
        kind, name = target
        atomic = self.seq % 2 == 0
        self.begun = True
        about = {kind: name, "producer": self.producer, "seq": self.seq, "atomic": atomic}
        with self.client.unit("begin write", **about) as told:
            [(write_id, duplicate)] = self.client.ask(
                f"select write_id, duplicate from pgq.begin_write({kind} => %s,"
                " producer => %s, seq => %s, atomic => %s)",
                [name, self.producer, self.seq, atomic],
            )
            if duplicate:
                told["written"] = self.seq
        if not duplicate:
            self.write(write_id)
        self.seq += 1
        self.begun = False

    def write(self, write_id: Any) -> None:
        tasks = bulk_names(self.producer, self.seq)
        attempt = str(self.rng.random())
        for task, names in enumerate(tasks):
            chunks = [names[n : n + 40] for n in range(0, len(names), 40)]
            for number, chunk in enumerate(chunks):
                packed = [content(name).encode() for name in chunk]
                with self.client.unit("write chunk", seq=self.seq):
                    self.client.ask(
                        "select pgq.write_chunk(%s, %s, %s, %s, %s::integer[],"
                        " packed_payloads => %s, last_chunk => %s)",
                        [
                            *(write_id, task, attempt, number, [len(each) for each in packed]),
                            *(b"".join(packed), number == len(chunks) - 1),
                        ],
                    )
        with self.client.unit("commit write", seq=self.seq) as told:
            self.client.ask(
                "select * from pgq.commit_write(%s, %s)", [write_id, sum(map(len, tasks))]
            )
            told["written"] = self.seq

    def idle(self) -> bool:
        return not self.begun


PRODUCERS = {
    "publisher": Publisher,
    "once": OncePublisher,
    "enqueuer": Enqueuer,
    "ordered": OrderedEnqueuer,
    "swept": SweptEnqueuer,
    "replacer": Replacer,
    "bulk": BulkWriter,
}
