"""Calls by filter read 10,000 rows by their ids, and then those that match: no table as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from plans.counting import Reader
from support.filters import BY_FILTER, LETTERS, fill
from support.queue import new_queue
from support.session import Session

pytestmark = pytest.mark.slow

ROWS = 200_000
PART = 10_000
MATCHES = 20
# what is read besides, and for each job that is taken
OVERHEAD = 100
PER_JOB = 20


@pytest.fixture
def veteran(dsn: str) -> Iterator[Reader]:
    """A session that has its plans from when there was nothing."""
    reader = Reader(dsn)
    yield reader
    reader.close()


def mark(session: Session, function: str, queue: str) -> None:
    """Give some jobs of the queue, all over the first part, a label of their own."""
    table = "dead_job" if function in LETTERS else "job"
    session.execute(
        f"update pgq.{table} set label = 'few' where job_id in (select j.job_id from pgq.{table}"
        " as j inner join pgq.queue as q on q.queue_id = j.queue_id where q.queue = %s"
        " and j.label = 'many' order by j.job_id limit %s)".encode(),
        [queue, MATCHES],
    )


def look_at(reader: Reader, function: str, queue: str, **given: Any) -> int:
    """Call with a filter, and refuse what is read beyond a part; how many it has taken."""
    [result] = reader.call(function, queue=queue, **given)
    assert reader.last.scanned == frozenset(), given
    assert reader.last.entries <= PART + OVERHEAD + PER_JOB * result.taken, given
    taken: int = result.taken
    return taken


@pytest.mark.parametrize("function", BY_FILTER)
def test_a_table_that_grew(veteran: Reader, connection: Session, function: str) -> None:
    """As planned by a session that began with empty tables, by new ones, and with statistics."""
    empty = new_queue(connection)
    for _ in range(8):
        veteran.call(function, queue=empty, label="few")
    queue, _ = fill(connection, function, ROWS, analyzed=False)
    for analyzed in (False, True):
        if analyzed:
            connection.execute("vacuum analyze")
        fresh = Reader(connection.info.dsn)
        for reader in (veteran, fresh):
            assert look_at(reader, function, queue, label="none") == 0
            assert look_at(reader, function, queue, error_contains="?", after_id=ROWS // 2) == 0
            assert look_at(reader, function, queue, label="none", dry_run=True) == 0
            mark(connection, function, queue)
            assert look_at(reader, function, queue, label="few", max_jobs=1) == 1
            assert look_at(reader, function, queue, label="few") == MATCHES - 1
        fresh.close()


def test_a_key_of_many_jobs(veteran: Reader, connection: Session) -> None:
    """Each is read a few times, not all of them for each one; none unblocks the next one."""
    connection.create_queue(queue="ordered", ordered=True)
    number = 4000
    connection.enqueue_batch(
        queue="ordered", payloads=[1] * number, keys=["k"] * number, labels=["x"] * number
    )
    assert look_at(veteran, "cancel_jobs", "ordered", key="k") == number
    assert veteran.last.entries <= 12 * number
