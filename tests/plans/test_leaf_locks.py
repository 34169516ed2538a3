"""A call locks the leaves of the segments whose messages it touches, and no other leaf.

Else a few long transactions anywhere would keep every segment of everybody from being emptied. It
must hold for the leaves of an installation and for those that were made later, for a session's
first call and for those that use a plan it has kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg import IsolationLevel
from psycopg.types.json import Jsonb

from support.databases import Databases
from support.house import refuse
from support.queue import claim_one, enqueue
from support.session import Session

LEAVES = (3, 17, 64)
TABLES = ("message", "job_archive", "job_event", "idempotency")

_LOCKED = """
    select distinct coalesce(t.relname, c.relname)::text
    from pg_locks as l
    inner join pg_class as c on c.oid = l.relation
    left join pg_index as i on i.indexrelid = c.oid
    left join pg_class as t on t.oid = i.indrelid
    where l.pid = pg_backend_pid()
        and l.database = (select oid from pg_database where datname = current_database())
        and coalesce(t.relname, c.relname) ~ '^(message|job_archive|job_event|idempotency)_[0-9]+$'
    order by 1
"""


@dataclass(frozen=True)
class Leaf:
    """A segment that has a topic and queues to itself."""

    number: int
    topic: str
    queue: str
    last_chance: str


@dataclass(frozen=True)
class Store:
    """A database in which many leaves are in use, and three of them."""

    dsn: str
    admin: Session
    leaves: list[Leaf]


@pytest.fixture(scope="module")
def store(databases: Databases) -> Iterator[Store]:
    """A database of this module's own: making the leaves takes a while."""
    with databases.copy("leaf_locks") as dsn, Session.connect(dsn, autocommit=True) as admin:
        yield Store(dsn, admin, list(_fill(admin)))


def _fill(admin: Session) -> Iterator[Leaf]:
    """One class after the other, until all the leaves that are wanted are in use."""
    admin.set_storage_bounds(max_retentions=1000)
    for days in range(1, 2 * max(LEAVES)):
        topic = f"topic-{days}"
        kept = {"retention": f"{days} days"}
        admin.create_topic(topic=topic, partitions=2, **kept)
        for partition in range(2):
            admin.publish(topic=topic, payload=Jsonb(1), partition=partition)
        number = _leaf_of(admin, topic)
        if number in LEAVES:
            admin.create_group(topic=topic, consumer_group="readers")
            queues = f"queue-{days}", f"last-chance-{days}"
            for queue in queues:
                admin.create_queue(
                    queue=queue,
                    **kept,
                    max_attempts=1 if queue.startswith("last") else None,
                    keep_results=queue.startswith("last"),
                )
                enqueue(admin, queue, 1)
            yield Leaf(number, topic, *queues)
        if number == max(LEAVES):
            return


def _leaf_of(admin: Session, topic: str) -> int:
    [(number,)] = admin.execute(
        "select distinct m.segment from pgq.message as m"
        " inner join pgq.messages as v using (partition_id, log_offset) where v.topic = %s",
        [topic],
    ).fetchall()
    return int(number)


# --------------------------------------------------------------------------------- what is called

Prepare = Callable[[Session, Leaf], dict[str, Any]]
GROUP = {"consumer_group": "readers"}


def _content(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {"topic": leaf.topic, "payload": Jsonb(1)}


def _batch(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {"topic": leaf.topic, "payloads": [Jsonb(1), Jsonb(2)]}


def _keyed(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {**_batch(admin, leaf), "keys": ["a", "b"]}


def _reader(admin: Session, leaf: Leaf) -> dict[str, Any]:
    admin.seek(topic=leaf.topic, start="earliest", **GROUP)
    return {"topic": leaf.topic, **GROUP}


def _caught_up(admin: Session, leaf: Leaf) -> dict[str, Any]:
    admin.seek(topic=leaf.topic, start="latest", **GROUP)
    return {"topic": leaf.topic, **GROUP}


def _range(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {"topic": leaf.topic, "partition": 0, "first_offset": 1, "last_offset": 1}


def _position(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {**_reader(admin, leaf), "partition": 1, "committed_offset": 1}


def _seek(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {**_reader(admin, leaf), "start": "latest"}


def _work(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {"queue": leaf.queue, "payload": Jsonb(1)}


def _works(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {"queue": leaf.queue, "payloads": [Jsonb(1), Jsonb(2)]}


def _claimable(admin: Session, leaf: Leaf) -> dict[str, Any]:
    enqueue(admin, leaf.queue, 1)
    return {"queue": leaf.queue}


def _claimables(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {**_claimable(admin, leaf), "max_jobs": 10}


def _leased(admin: Session, leaf: Leaf) -> dict[str, Any]:
    enqueue(admin, leaf.queue, 1)
    job = claim_one(admin, leaf.queue)
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def _of_its_20th_attempt(admin: Session, leaf: Leaf) -> dict[str, Any]:
    job = _leased(admin, leaf)
    admin.execute("update pgq.job set attempt = 20 where job_id = %s", [job["job_id"]])
    return job


def _lost(admin: Session, leaf: Leaf) -> dict[str, Any]:
    lost = {"queue": leaf.queue, "label": "lost"}
    admin.enqueue(**lost, payload=1)
    admin.claim_job(**lost)
    admin.execute("update pgq.job set visible_at = clock_timestamp() where label = 'lost'")
    return lost


def _several(admin: Session, leaf: Leaf) -> dict[str, Any]:
    job = _leased(admin, leaf)
    return {"job_ids": [job["job_id"]], "lease_token": job["lease_token"]}


def _done(admin: Session, leaf: Leaf) -> dict[str, Any]:
    return {**_leased(admin, leaf), "outcome": "done"}


def _on_its_last_attempt(admin: Session, leaf: Leaf) -> dict[str, Any]:
    enqueue(admin, leaf.last_chance, 1)
    job = claim_one(admin, leaf.last_chance)
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def _dead(admin: Session, leaf: Leaf) -> dict[str, Any]:
    admin.nack(**_on_its_last_attempt(admin, leaf))
    return {"queue": leaf.last_chance, "all_jobs": True}


def _chunk(target: str, **more: Any) -> Prepare:
    def prepare(admin: Session, leaf: Leaf) -> dict[str, Any]:
        place = {target: getattr(leaf, target)}
        begun = admin.begin_write(**place, atomic=False)
        return {
            "write_id": begun.write_id,
            "task": 0,
            "task_attempt": "a",
            "chunk": 0,
            "lengths": [1, 1],
            "packed_bodies": b"12",
            **more,
        }

    return prepare


CALLS: dict[str, tuple[str, Prepare]] = {
    "publish": ("publish", _content),
    "publish by key": ("publish", lambda a, n: {**_content(a, n), "key": "k"}),
    "publish_batch": ("publish_batch", _batch),
    "publish_batch by key": ("publish_batch", _keyed),
    "publish with a key of its own": (
        "publish",
        lambda a, n: {**_content(a, n), "idempotency_key": "new"},
    ),
    "publish_batch with keys of their own": (
        "publish_batch",
        lambda a, n: {**_keyed(a, n), "idempotency_keys": ["new", "other"]},
    ),
    "claim_offsets": ("claim_offsets", _reader),
    "consume": ("consume", _reader),
    "consume of a partition": ("consume", lambda a, n: {**_reader(a, n), "partition": 0}),
    "consume, caught up": ("consume", _caught_up),
    "poll": ("poll", _reader),
    "fetch": ("fetch", _reader),
    "fetch_range": ("fetch_range", _range),
    "fetch_packed": ("fetch_packed", _range),
    "check_range": ("check_range", _range),
    "commit_offset": ("commit_offset", _position),
    "seek": ("seek", _seek),
    "enqueue": ("enqueue", _work),
    "enqueue_batch": ("enqueue_batch", _works),
    "enqueue with a key of its own": (
        "enqueue",
        lambda a, n: {**_work(a, n), "idempotency_key": "new"},
    ),
    "enqueue_batch with keys of their own": (
        "enqueue_batch",
        lambda a, n: {**_works(a, n), "idempotency_keys": ["new", None]},
    ),
    "claim_job": ("claim_job", _claimable),
    "claim_job, several": ("claim_job", _claimables),
    "claim_job of a lost job": ("claim_job", _lost),
    "ack": ("ack", _leased),
    "ack with keep_results": ("ack", _on_its_last_attempt),
    "ack_batch": ("ack_batch", _several),
    "nack": ("nack", _leased),
    "nack of a 20th attempt": ("nack", _of_its_20th_attempt),
    "nack to the dead ones": ("nack", _on_its_last_attempt),
    "extend_lease": ("extend_lease", _leased),
    "archive_job": ("archive_job", _done),
    "redrive": ("redrive", _dead),
    "write_chunk": ("write_chunk", _chunk("topic")),
    "write_chunk as it is": ("write_chunk", _chunk("topic", starts=[1, 2])),
    "write_chunk by key": ("write_chunk", _chunk("topic", keys=["a", "b"])),
    "write_chunk to a queue": ("write_chunk", _chunk("queue")),
}


def locked_by(session: Session, function: str, arguments: dict[str, Any]) -> list[str]:
    """The leaves that a call has locked when it has returned; it is rolled back."""
    with session.transaction(force_rollback=True):
        session.call(function, **arguments)
        return [name for (name,) in session.execute(_LOCKED).fetchall()]


@pytest.mark.parametrize("way", CALLS)
def test_only_the_leaf_that_is_touched_is_locked(store: Store, way: str) -> None:
    function, prepare = CALLS[way]
    given = [(leaf, prepare(store.admin, leaf)) for leaf in store.leaves]
    found: list[tuple[str, int, list[str]]] = []
    for when, level in (
        ("first call", IsolationLevel.READ_COMMITTED),
        ("REPEATABLE READ", IsolationLevel.REPEATABLE_READ),
    ):
        for leaf, arguments in given if (function, when) != ("redrive", "REPEATABLE READ") else ():
            with Session.connect(store.dsn) as session:
                session.isolation_level = level
                found.append((when, leaf.number, locked_by(session, function, arguments)))
    with Session.connect(store.dsn) as session:
        for _ in range(2):
            later = [(leaf.number, locked_by(session, function, args)) for leaf, args in given]
        found += [("kept plan", number, locked) for number, locked in later]

    # keys of all stand where what is kept for a day stands, as the first topic
    def strangers(number: int, locked: list[str]) -> list[str]:
        touched = {"idempotency_0", *(f"{table}_{number}" for table in TABLES)}
        return [name for name in locked if name not in touched]

    refuse(
        f"{when}, leaf {number}: locks {len(others)} others, as {', '.join(others[:4])}"
        for when, number, locked in found
        if (others := strangers(number, locked))
    )


def test_the_leaves_are_those_that_were_wanted(store: Store) -> None:
    """Two that need no static statement of their own among them."""
    assert [leaf.number for leaf in store.leaves] == list(LEAVES)
