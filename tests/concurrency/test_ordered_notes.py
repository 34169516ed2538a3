"""Ordered keys that are noted, since an enqueue was open when their first job ended."""

from __future__ import annotations

from support.clock import Clock
from support.ordered import add, add_many, broken, notes, ordered_queue
from support.queue import ack, claim, claim_one, stats
from support.session import Connect, Session


def test_a_note_whose_enqueue_stays_open(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """It holds up nobody else, and is looked at again and again."""
    queue = ordered_queue(connection)
    keys = [f"{n}" for n in range(20)]
    add_many(connection, queue, [*keys])
    jobs = claim(connection, queue, 99)
    writer = connect()
    late = add_many(writer, queue, [*keys])
    for job in jobs:
        assert ack(connection, job) is True
    assert notes(connection, queue) == 20
    for _ in range(20):
        assert claim(connection, queue, 9) == []
        clock.advance("1 second")
    connection.cleanup()
    other = add(connection, queue, "other")
    assert claim_one(connection, queue).job_id == other
    writer.commit()
    clock.advance("10 seconds")
    found = claim(connection, queue, 99)
    assert sorted(job.job_id for job in found) == late
    assert broken(connection) == []


def test_a_note_of_a_long_transaction(connect: Connect, connection: Session, clock: Clock) -> None:
    """The floor of notes does not rise above one that was written long ago and committed now."""
    queue = ordered_queue(connection)
    add(connection, queue)
    job = claim_one(connection, queue)
    writer, worker = connect(), connect()
    number = add(writer, queue)
    ack(worker, job)
    for _ in range(20):
        clock.advance("10 seconds")
        other = add(connection, queue, "other")
        found = claim_one(connection, queue)
        assert found.job_id == other
        ack(connection, found)
    writer.commit()
    worker.commit()
    assert [job.job_id for job in claim(connection, queue, 9)] == [number]


def test_cleanup_beside_an_open_enqueue(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """The first expires; cleanup waits for nobody."""
    queue = ordered_queue(connection, job_ttl="1 hour")
    add(connection, queue)
    clock.advance("59 minutes")
    writer = connect()
    number = add(writer, queue)
    clock.advance("1 minute")
    assert "busy" not in [action.action for action in connection.cleanup()]
    assert stats(connection, queue) == {}
    assert notes(connection, queue) == 1
    writer.commit()
    assert [job.job_id for job in claim(connection, queue, 9)] == [number]


def test_a_purge_beside_an_open_enqueue(connect: Connect, connection: Session) -> None:
    queue = ordered_queue(connection)
    add_many(connection, queue, ["k", "k", "other"])
    writer = connect()
    number = add(writer, queue)
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 3
    writer.commit()
    assert [job.job_id for job in claim(connection, queue, 9)] == [number]


def test_a_drop_beside_an_open_enqueue(connect: Connect, connection: Session) -> None:
    """It does not wait, and cleanup takes what is left."""
    queue = ordered_queue(connection)
    add_many(connection, queue, ["k", "k", "other"])
    job = claim_one(connection, queue)
    writer = connect()
    add(writer, queue)
    ack(connection, job)
    connection.drop_queue(queue=queue)
    writer.commit()
    connection.cleanup()
    assert broken(connection) == []
    for table in ("job", "ordered_key", "key_wakeup"):
        assert connection.execute(
            f"select count(*) from pgq.{table} as t where not exists"
            " (select from pgq.queue as q where q.queue_id = t.queue_id)"
        ).fetchall() == [(0,)]
