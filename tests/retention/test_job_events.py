"""How long attempts and results are kept: from their own time on, wherever the payload is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, row
from support.storage import actions, clean, seal, seal_and_close, states
from support.waiting import blocked, results

KEPT = {"retention": "9 hours", "no_limit": ["job_ttl", "max_attempts"], "backoff": "0"}
FOREVER = {"no_limit": ["job_ttl", "retention"], "backoff": "0"}


def held(job: Job) -> dict[str, Any]:
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def fail(session: Session, queue: str, error: str) -> int:
    """One attempt; which job it was."""
    job = claim_one(session, queue)
    assert session.nack(**held(job), error=error)
    return job.job_id


def errors(session: Session, job_id: int) -> list[str]:
    return [attempt.error for attempt in session.job_history(job_id=job_id)]


def events(session: Session) -> list[tuple[Any, ...]]:
    """In which segments how many are stored."""
    return session.execute(
        "select segment, count(*) from pgq.job_event group by 1 order by 1"
    ).fetchall()


def test_attempts_from_their_own_time_on(connection: Session, clock: Clock) -> None:
    """Also of a job whose payload was moved when the segment of its first attempt was emptied."""
    queue = new_queue(connection, **KEPT)
    number = enqueue(connection, queue)
    assert fail(connection, queue, "first") == number
    clock.advance("2 hours")
    fail(connection, queue, "second")
    seal_and_close(connection, clock, "61 minutes")
    fail(connection, queue, "third")
    clock.advance(timedelta(hours=9, minutes=-1))
    clean(connection)
    assert errors(connection, number) == ["third", "second", "first"]
    clock.advance("2 minutes")
    done = clean(connection)
    assert "payloads moved" in done
    assert "segment truncated" in done
    assert errors(connection, number) == ["third"]
    assert ack(connection, claim_one(connection, queue))
    assert errors(connection, number) == ["third"], "whatever has become of the job"
    clock.advance("9 hours")
    clean(connection)
    clock.advance("9 hours")
    clean(connection)
    assert errors(connection, number) == []
    assert events(connection) == []


def test_results_from_the_end_of_the_job_on(connection: Session, clock: Clock) -> None:
    """Longer than the archived job, which counts from when it was enqueued."""
    queue = new_queue(connection, keep_results=True, **KEPT)
    number = enqueue(connection, queue)
    seal_and_close(connection, clock, "3 hours")
    clock.advance("8 hours 50 minutes")
    assert ack(connection, claim_one(connection, queue))
    clock.advance("20 minutes")
    assert "segment truncated" in clean(connection)
    assert row(connection, "select count(*) from pgq.archived_jobs") == (0,)
    assert connection.get_result(job_id=number).state == "finished"
    clock.advance("8 hours 30 minutes")
    clean(connection)
    assert connection.get_result(job_id=number).state == "finished"
    clock.advance("4 hours")
    clean(connection)
    clock.advance("9 hours")
    clean(connection)
    assert connection.get_result(job_id=number).state == "gone"
    assert events(connection) == []


def test_a_segment_with_nothing_but_events(connection: Session, clock: Clock) -> None:
    """It ages like another one, and is emptied."""
    queue = new_queue(connection, archive=False, **KEPT)
    enqueue(connection, queue)
    seal_and_close(connection, clock, "3 hours")
    fail(connection, queue, "e")
    assert ack(connection, claim_one(connection, queue))
    [(segment, _)] = events(connection)
    assert row(
        connection,
        "select exists (select from pgq.message where segment = %(s)s and partition_id <> 0)"
        " or exists (select from pgq.job_archive where segment = %(s)s)",
        {"s": segment},
    ) == (False,)
    clock.advance("3 hours")
    assert actions(connection) == ["segment sealed"]
    assert actions(connection) == ["segment closed"]
    clock.advance("9 hours")
    assert set(clean(connection)) == {"segment truncated"}
    assert events(connection) == []
    assert states(connection) == ["open"]


@pytest.mark.parametrize("kept", [KEPT, FOREVER], ids=["retention", "no retention"])
def test_a_dropped_queue_leaves_nothing(
    connection: Session, clock: Clock, kept: dict[str, Any]
) -> None:
    """In the end; and what another queue has in the same segment stays."""
    queue, other = (new_queue(connection, keep_results=True, **kept) for _ in range(2))
    for each in (queue, other):
        enqueue(connection, each)
        fail(connection, each, "e")
        last = claim_one(connection, each)
        assert ack(connection, last)
    connection.drop_queue(queue=queue)
    for _ in range(3):
        clean(connection)
    if kept is FOREVER:
        assert [n for _, n in events(connection)] == [2]
    assert errors(connection, last.job_id) == ["e"]
    assert connection.get_result(job_id=last.job_id).state == "finished"
    connection.drop_queue(queue=other)
    for _ in range(3):
        clock.advance("9 hours")
        clean(connection)
    assert events(connection) == []
    assert row(connection, "select count(*) from pgq.dropped_range") == (0,)


@pytest.mark.parametrize("way", ["nack", "ack"])
def test_a_drop_beside_an_open_transaction(connect: Connect, connection: Session, way: str) -> None:
    """What that notes of a queue without a retention goes as well."""
    queue = new_queue(connection, keep_results=True, **FOREVER)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    slow, dropper = connect(), connect(autocommit=True)
    assert slow.call(way, **held(job))
    drop = blocked(connection, dropper, lambda: dropper.drop_queue(queue=queue))
    slow.commit()
    results(drop)
    for _ in range(3):
        clean(connection)
    assert events(connection) == []
    assert row(connection, "select count(*) from pgq.dropped_range") == (0,)


def test_another_retention(connection: Session, clock: Clock) -> None:
    """What was noted before stays where it is, for as long as it was to be kept then."""
    queue = new_queue(connection, keep_results=True, **KEPT)
    number = enqueue(connection, queue)
    fail(connection, queue, "before")
    connection.alter_queue(queue=queue, retention="30 days")
    fail(connection, queue, "after")
    assert len(events(connection)) == 2
    assert ack(connection, claim_one(connection, queue))
    clock.advance("4 hours")
    clean(connection)
    clock.advance("4 hours")
    clean(connection)
    assert errors(connection, number) == ["after", "before"]
    clock.advance("10 hours")
    clean(connection)
    assert errors(connection, number) == ["after"]
    assert connection.get_result(job_id=number).state == "finished"


# ------------------------------------------------------------------------- beside open transactions


@pytest.mark.parametrize("way", ["nack", "reject_job", "ack", "cancel_job"])
def test_an_open_transaction_that_has_noted_something(
    connect: Connect, connection: Session, clock: Clock, way: str
) -> None:
    """Its segment is not closed before it ends, so what it has noted gets its full time."""
    queue = new_queue(connection, keep_results=True, **KEPT)
    number = enqueue(connection, queue)
    job = claim_one(connection, queue, lease="1 day")
    slow = connect()
    assert slow.call(way, **({"job_id": number} if way == "cancel_job" else held(job)))
    seal(connection, clock, "3 hours")
    for _ in range(4):
        clock.advance("9 hours")
        assert not {"segment closed", "segment truncated"} & {*actions(connection)}
    slow.commit()
    clean(connection)
    clock.advance("8 hours 50 minutes")
    clean(connection)
    assert [n for _, n in events(connection)] == [1]
    clock.advance("20 minutes")
    clean(connection)
    assert events(connection) == []


def test_a_reader_holds_up_no_more_than_its_segment(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """What is shown to it is not taken away meanwhile; after it the segment is emptied."""
    queue = new_queue(connection, **KEPT)
    number = enqueue(connection, queue)
    fail(connection, queue, "e")
    connection.cancel_job(job_id=number)
    seal_and_close(connection, clock, "3 hours")
    reader = connect()
    assert errors(reader, number) == ["e"]
    clock.advance("10 hours")
    assert "segment busy" in actions(connection)
    assert errors(reader, number) == ["e"]
    reader.commit()
    assert "segment truncated" in clean(connection)
    assert errors(reader, number) == []
