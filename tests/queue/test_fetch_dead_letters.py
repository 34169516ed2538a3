"""fetch_dead_letters: page by page, those that died first before the others."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, refused, unchanged


def bury(connection: Session, queue: str, number: int) -> list[int]:
    """Dead letters, in the order in which they died, which is not that of their ids."""
    made = connection.enqueue_batch(queue=queue, payloads=[Jsonb(n) for n in range(number)])
    ids = [job_id for job_id, _ in made]
    jobs = claim(connection, queue, number)
    half = number // 2
    for part in (ids[half:], ids[:half]):
        connection.nack_batch(job_ids=part, lease_token=jobs[0].lease_token, error="it failed")
    assert stats(connection, queue) == {"dead": number}
    found = connection.execute(
        "select job_id from pgq.dead_letters where queue = %s order by died_at, job_id", [queue]
    ).fetchall()
    assert sorted(ids) == sorted(job_id for (job_id,) in found)
    return [job_id for (job_id,) in found]


def pages(connection: Session, queue: str, size: int) -> list[list[Any]]:
    """All pages."""
    found = []
    after: dict[str, Any] = {}
    while rows := connection.fetch_dead_letters(queue=queue, max_jobs=size, **after):
        found.append(rows)
        after = {"after_died_at": rows[-1].died_at, "after_job_id": rows[-1].job_id}
    return found


def test_what_it_returns(connection: Session) -> None:
    """The same as the view, column by column."""
    queue, other = new_queue(connection, max_attempts=1), new_queue(connection, max_attempts=1)
    enqueue(connection, queue, [1], priority=2, label="l", key="k", headers={"h": "1"})
    enqueue(connection, queue, body=b"\x00", priority=3)
    enqueue(connection, other)
    for name, error in ((queue, "boom"), (queue, None), (other, None)):
        job = claim_one(connection, name)
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, error=error)
    cursor = connection.execute(
        "select * from pgq.dead_letters where queue = %s order by job_id", [queue]
    )
    assert cursor.description is not None
    rows = connection.fetch_dead_letters(queue=queue)
    assert [column.name for column in cursor.description] == list(rows[0]._fields)
    assert [tuple(row) for row in rows] == cursor.fetchall()


def test_pages(connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    ids = bury(connection, queue, 25)
    found = pages(connection, queue, 10)
    assert [len(rows) for rows in found] == [10, 10, 5]
    assert [letter.job_id for rows in found for letter in rows] == ids


def test_those_that_died_at_one_moment(connection: Session, clock: Clock) -> None:
    """The id says which comes next."""
    queue = new_queue(connection, max_attempts=1)
    bury(connection, queue, 9)
    connection.execute("update pgq.dead_job set died_at = '2030-01-01'")
    found = [letter.job_id for rows in pages(connection, queue, 2) for letter in rows]
    assert found == sorted(found)
    assert len(found) == 9


def test_a_letter_that_is_gone_is_still_a_place_to_go_on(connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    ids = bury(connection, queue, 6)
    first = connection.fetch_dead_letters(queue=queue, max_jobs=3)
    connection.purge_queue(queue=queue, job_id=ids[2])
    connection.redrive(queue=queue, job_id=ids[3])
    rest = connection.fetch_dead_letters(
        queue=queue, after_died_at=first[-1].died_at, after_job_id=first[-1].job_id
    )
    assert [letter.job_id for letter in rest] == ids[4:]


def test_null_is_the_default(connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    bury(connection, queue, 101)
    assert len(connection.fetch_dead_letters(queue=queue, max_jobs=None)) == 100


def test_refusals(connection: Session) -> None:
    queue = new_queue(connection)
    fetch = connection.fetch_dead_letters
    with unchanged(connection):
        refused("MQ002", fetch, queue="no-such-queue")
        refused("22004", fetch, queue=None)
        for max_jobs in (0, -1, 1000001):
            refused("22023", fetch, queue=queue, max_jobs=max_jobs)
        refused("22023", fetch, queue=queue, after_job_id=1)
        refused("22023", fetch, queue=queue, after_died_at="2030-01-01")


def test_in_a_transaction_that_only_reads(connect: Connect, connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    ids = bury(connection, queue, 3)
    session = connect()
    session.execute("set transaction isolation level repeatable read, read only")
    for _ in range(2):
        assert [r.job_id for r in session.fetch_dead_letters(queue=queue)] == ids
