"""Many sessions at one queue with on_duplicate: the newest content is always worked on.

Each call and the number of its place in the history are of one transaction. An enqueue of a key
waits for others and for the claim of its job, so these numbers are in the order of what happened.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pytest

from support.duplicates import BACK, replacing
from support.queue import Job, ack, claim, stats
from support.session import Connect, Session, row
from support.unique import loose_keys
from support.waiting import wait_until

KEYS = 3
LEVELS = ["read committed", "read committed", "repeatable read", "serializable"]
PRODUCERS, WORKERS, STEPS = 3, 3, 150


@dataclass(frozen=True)
class Event:
    """An enqueue of a content, a claim that got it, or its ack."""

    number: int
    kind: str
    job_id: int
    payload: str

    @property
    def key(self) -> str:
        return self.payload.split(":")[0]


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


def place(session: Session) -> int:
    [number] = row(session, "select nextval('pg_temp_history')")
    assert isinstance(number, int)
    return number


def attempt(session: Session, work: Callable[[], Any]) -> Any:
    """What a call and its commit come to, tried again after a 40001."""
    while True:
        try:
            result = work()
            session.commit()
        except psycopg.errors.SerializationFailure:
            session.rollback()
        else:
            return result


def produce(session: Session, queue: str, name: str, seed: int) -> list[Event]:
    """Enqueue for few keys, alone or as a batch, and take some of it back.

    After some steps there are other keys, so that of many the last content is to be worked on.
    """
    draw = random.Random(seed)
    events: list[Event] = []
    for step in range(STEPS):
        number = draw.choice([1, 1, 2, 4])
        keys = [f"{step // 4}.{draw.randrange(KEYS)}" for _ in range(number)]
        contents = [f"{key}:{name}:{step}:{n}" for n, key in enumerate(keys)]

        def work(keys: list[str] = keys, contents: list[str] = contents) -> list[Event]:
            if len(keys) == 1:
                made = [
                    session.enqueue(queue=queue, payload=f'"{contents[0]}"', unique_key=keys[0])
                ]
            else:
                made = session.enqueue_batch(
                    queue=queue, payloads=[f'"{each}"' for each in contents], unique_keys=keys
                )
            return [
                Event(place(session), "enqueue", each.job_id, content)
                for each, content in zip(made, contents, strict=True)
            ]

        if draw.random() < 0.15:
            with contextlib.suppress(psycopg.errors.SerializationFailure):
                work()
            session.rollback()
        else:
            events += attempt(session, work)
    return events


def consume(session: Session, queue: str, seed: int) -> list[Event]:
    """Claim jobs, and finish them, give them back, or let their leases run out."""
    draw = random.Random(seed)
    events: list[Event] = []
    for _ in range(2 * STEPS):
        most = draw.choice([1, 1, 3])
        lease = draw.choice(["20 milliseconds", "1 minute"])

        def get(most: int = most, lease: str = lease) -> list[tuple[Job, int]]:
            return [(job, place(session)) for job in claim(session, queue, most, lease=lease)]

        for job, number in attempt(session, get):
            events.append(Event(number, "claim", job.job_id, job.payload))
            way = draw.choice(["ack", "ack", *BACK, *(["lose"] if lease != "1 minute" else [])])
            if way == "ack":
                if attempt(session, partial(ack, session, job)):
                    events.append(Event(number, "ack", job.job_id, job.payload))
            elif way != "lose":
                attempt(session, partial(BACK[way], session, job))
    return events


def drain(session: Session, queue: str) -> list[Event]:
    """Finish all that is left."""
    events: list[Event] = []

    def done() -> bool:
        for job in claim(session, queue, 9):
            number = place(session)
            events.append(Event(number, "claim", job.job_id, job.payload))
            assert ack(session, job)
            events.append(Event(number, "ack", job.job_id, job.payload))
        return stats(session, queue) == {}

    wait_until(done, 90)
    return events


def broken(events: list[Event]) -> list[str]:
    """What a history has against the promises."""
    found = []
    newest: dict[str, Event] = {}
    content: dict[int, str] = {}
    for event in sorted(events, key=lambda event: event.number):
        if event.kind == "enqueue":
            newest[event.key] = event
            content[event.job_id] = event.payload
        elif event.kind == "claim" and content[event.job_id] != event.payload:
            found.append(f"{event} got what had been replaced by {content[event.job_id]}")
    finished = {event.payload for event in events if event.kind == "ack"}
    lost = [each for each in newest.values() if each.payload not in finished]
    return found + [f"{each} was not worked on" for each in lost]


def test_a_history_that_breaks_them() -> None:
    """It is found: the content that was replaced is claimed, and the newest one is not."""
    old, new = Event(1, "enqueue", 7, "k:old"), Event(2, "enqueue", 7, "k:new")
    late = [Event(3, "claim", 7, "k:old"), Event(3, "ack", 7, "k:old")]
    assert len(broken([old, new, *late])) == 2
    good = [Event(3, "claim", 7, "k:new"), Event(3, "ack", 7, "k:new")]
    assert broken([new, old, *good]) == []
    lost = Event(4, "enqueue", 8, "k:newest")
    assert len(broken([old, new, *good, lost])) == 1


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["replace", "postpone"])
def test_the_newest_content_is_worked_on(
    shared_connect: Connect, connection: Session, kind: str, seed: int
) -> None:
    queue = replacing(connection, kind, no_limit=["max_attempts"])
    connection.execute("create sequence if not exists pg_temp_history")
    draw = random.Random(seed)

    def session() -> Session:
        return shared_connect(isolation_level=draw.choice(LEVELS))

    with ThreadPoolExecutor(PRODUCERS + WORKERS) as pool:
        tasks = [
            *(
                pool.submit(produce, session(), queue, f"p{n}", 100 * seed + n)
                for n in range(PRODUCERS)
            ),
            *(pool.submit(consume, session(), queue, 1000 * seed + n) for n in range(WORKERS)),
        ]
    events = [event for task in tasks for event in task.result()]
    events += drain(connection, queue)
    assert broken(events) == []
    assert loose_keys(connection) == 0
    assert {event.kind for event in events} == {"enqueue", "claim", "ack"}
