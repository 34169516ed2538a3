"""A call with an idempotency key reads a few entries, however many keys have been noted.

It must hold for a session that has planned while there were none, and for one that comes later.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.clock import Clock
from support.session import Session
from support.storage import clean

MANY = 100_000
BATCH = 1000
# of all indexes, for each key of a call; a segment more costs one or two
ENTRIES = 40

VERBS = {
    "queue": ("enqueue", "enqueue_batch"),
    "topic": ("publish", "publish_batch"),
}


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    reader = Reader(dsn)
    yield reader
    reader.close()


def _use(reader: Reader, kind: str, stem: str) -> None:
    """New keys and known ones, one by one and in batches; each reads little."""
    one, batch = VERBS[kind]
    for _ in range(2):
        for _ in range(2):
            reader.call(one, **{kind: "t"}, payload=Jsonb(1), idempotency_key=f"{stem} one")
            _check(reader, 1)
        keys = [f"{stem} {n}" for n in range(BATCH)]
        reader.call(batch, **{kind: "t"}, payloads=[Jsonb(1)] * BATCH, idempotency_keys=keys)
        _check(reader, BATCH)


def _check(reader: Reader, keys: int) -> None:
    assert reader.last.entries <= ENTRIES * keys + 100, f"{reader.last.entries} entries read"
    scanned = {name for name in reader.last.scanned if name.startswith("idempotency")}
    assert not scanned


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("kind", VERBS)
def test_a_call_reads_little(
    connection: Session, clock: Clock, dsn: str, reader: Reader, kind: str, analyzed: bool
) -> None:
    connection.call(f"create_{kind}", **{kind: "t"})
    for n in range(7):
        _use(reader, kind, f"early {n}")  # six turns make a kept plan
    scope = "select min(partition_id) from pgq.partition"
    if kind == "queue":
        scope = "select partition_id from pgq.queue"
    connection.execute(
        "insert into pgq.idempotency (scope_id, ends_at, job_id, segment, idempotency_key)"
        f" select ({scope}), pgq._clock() + '1 day', n, (select segment from pgq.storage_class"
        " where retention = '1 day'), 'key ' || n from generate_series(1, %s) as n".encode(),
        [MANY],
    )
    if analyzed:
        connection.execute("vacuum analyze")
    late = Reader(dsn)
    for one in (reader, late):
        _use(one, kind, f"open {one is late}")
    clock.advance("9 hours")
    clean(connection)
    for one in (reader, late):
        _use(one, kind, f"closed {one is late}")
    late.close()
