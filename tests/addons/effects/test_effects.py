"""What a job does outside of the database: noted before and after, so that it happens once."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.effects import begin, finish, forget, noted
from support.queue import ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, refused, row, unchanged


def test_one_that_succeeds(connection: Session, queue: str) -> None:
    """Later attempts get its result, whatever becomes of the job in between."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begun = begin(connection, job)
    assert (begun.state, begun.result, begun.attempt) == ("begun", None, 1)
    assert finish(connection, job, result={"id": 7}) is True
    for attempt in (2, 3):
        assert connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
        job = claim_one(connection, queue)
        assert job.attempt == attempt
        assert begin(connection, job) == ("finished", {"id": 7}, 1, begun.begun_at)
        assert begin(connection, job, at_least_once=True).state == "finished"
    assert ack(connection, job)


@pytest.mark.parametrize("result", [None, "text", 0, [], {"a": [1, None]}, Jsonb(None)])
def test_results(connection: Session, queue: str, result: Any) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job)
    assert finish(connection, job, result=result)
    expected = None if isinstance(result, Jsonb) else result
    assert begin(connection, job).result == expected


@pytest.mark.parametrize("lost", ["given back", "lease ran out", "same attempt"])
def test_one_that_is_interrupted(connection: Session, queue: str, clock: Clock, lost: str) -> None:
    """Nobody gets it to run again, the worker that began it no more than another."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begun = begin(connection, job)
    if lost == "given back":
        assert connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    elif lost == "lease ran out":
        clock.advance("31 seconds")
    again = job if lost == "same attempt" else claim_one(connection, queue)
    for _ in range(2):
        assert begin(connection, again) == ("interrupted", None, 1, begun.begun_at)
    assert begin(connection, again, at_least_once=False).state == "interrupted"


def test_at_least_once(connection: Session, queue: str) -> None:
    """It is begun again, by the attempt that asks; the one before has no say in it any more."""
    enqueue(connection, queue)
    first = claim_one(connection, queue)
    begin(connection, first, at_least_once=True)
    assert connection.nack(job_id=first.job_id, lease_token=first.lease_token, delay="0")
    second = claim_one(connection, queue)
    begun = begin(connection, second, at_least_once=True)
    assert (begun.state, begun.attempt) == ("begun", 2)
    with unchanged(connection):
        assert finish(connection, first, result="old") is False
        assert forget(connection, first) is False
    assert finish(connection, second, result="new") is True
    assert begin(connection, second) == ("finished", "new", 2, begun.begun_at)


def test_several_effects(connection: Session, queue: str) -> None:
    """Each goes its own way; the same name is another effect in another job."""
    for _ in range(2):
        enqueue(connection, queue)
    one, other = claim_one(connection, queue), claim_one(connection, queue)
    assert begin(connection, one, "mail").state == "begun"
    assert begin(connection, one, "Mail").state == "begun"
    assert begin(connection, other, "mail").state == "begun"
    assert finish(connection, one, "mail", result=1)
    assert noted(connection, one.job_id) == {"Mail": "begun", "mail": "finished"}
    assert noted(connection, other.job_id) == {"mail": "begun"}
    assert finish(connection, other, "payment") is False


def test_a_lost_lease(connection: Session, queue: str, clock: Clock) -> None:
    """Nothing is begun: run out, claimed by another, finished, never held."""
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    clock.advance("31 seconds")
    with unchanged(connection):
        error = refused("MQ006", begin, connection, slow)
        assert "ended at" in str(error.diag.message_detail)
    quick = claim_one(connection, queue)
    refused("MQ006", begin, connection, slow)
    assert begin(connection, quick).state == "begun"
    assert ack(connection, quick)
    with unchanged(connection):
        for effect in ("mail", "other"):
            refused("MQ006", begin, connection, quick, effect)
        refused(
            "MQ006",
            connection.begin_effect,
            job_id=quick.job_id,
            lease_token=uuid4(),
            effect="mail",
        )


def test_whoever_began_it_may_be_late(connection: Session, queue: str, clock: Clock) -> None:
    """That it happened is true, whoever has the job by now; repeated, it changes nothing."""
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    begin(connection, slow)
    clock.advance("31 seconds")
    quick = claim_one(connection, queue)
    assert begin(connection, quick).state == "interrupted"
    assert finish(connection, slow, result="sent") is True
    with unchanged(connection):
        assert finish(connection, slow, result="again") is True
        assert finish(connection, quick, result="mine") is False
        assert forget(connection, quick) is False
        assert forget(connection, slow) is False
    assert begin(connection, quick).result == "sent"


def test_whoever_has_the_job_may_find_out(connection: Session, queue: str, clock: Clock) -> None:
    """It says that the interrupted effect happened, or that it did not; a stranger says nothing."""
    for _ in range(2):
        enqueue(connection, queue)
    lost = [claim_one(connection, queue) for _ in range(2)]
    for job in lost:
        begin(connection, job)
    clock.advance("31 seconds")
    happened, not_happened = claim_one(connection, queue), claim_one(connection, queue)
    for job in (happened, not_happened):
        stranger = {"job_id": job.job_id, "lease_token": uuid4(), "effect": "mail"}
        with unchanged(connection):
            assert connection.finish_effect(**stranger) is False
            assert connection.delete_effect(**stranger) is False
    assert finish(connection, happened, result="found") is True
    assert finish(connection, happened, result="again") is True
    assert finish(connection, lost[0], result="late") is False
    state = begin(connection, happened)
    assert (state.state, state.result, state.attempt) == ("finished", "found", 1)
    assert forget(connection, not_happened) is True
    assert forget(connection, not_happened) is False
    assert finish(connection, lost[1]) is False
    state = begin(connection, not_happened)
    assert (state.state, state.attempt) == ("begun", 2)


def test_an_operator_decides(connection: Session) -> None:
    """By the token that the view shows; a redriven job knows what its effects have come to."""
    queue = new_queue(connection, max_attempts=1)
    jobs = {}
    for effect in ("happened", "not happened", "finished"):
        enqueue(connection, queue, effect)
        jobs[effect] = job = claim_one(connection, queue)
        begin(connection, job)
        if effect == "finished":
            finish(connection, job, result=effect)
        assert connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    shown = "select job_id, lease_token, effect from pgq.effects where queue = %s and state = %s"
    seen = connection.execute(shown, [queue, "interrupted"]).fetchall()
    assert {job_id for job_id, *_ in seen} == {
        jobs["happened"].job_id,
        jobs["not happened"].job_id,
    }
    for job_id, token, effect in seen:
        settle = "finish" if job_id == jobs["happened"].job_id else "delete"
        assert connection.call(f"{settle}_effect", job_id=job_id, lease_token=token, effect=effect)
    assert connection.redrive(queue=queue, all_jobs=True).taken == 3
    found = {}
    for _ in jobs:
        job = claim_one(connection, queue)
        found[job.payload] = begin(connection, job).state
    assert found == {"happened": "finished", "not happened": "begun", "finished": "finished"}


def test_the_view(connection: Session, queue: str, clock: Clock) -> None:
    """It shows the effects of jobs that are there, leased, waiting or dead."""
    query = (
        "select job_id, effect, state, result, attempt, begun_at, finished_at, lease_token"
        " from pgq.effects where queue = %s order by job_id, effect"
    )
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begun = begin(connection, job, "a")
    begin(connection, job, "b")
    finish(connection, job, "b", result=1)
    [first, second] = connection.execute(query, [queue]).fetchall()
    assert first == (job.job_id, "a", "begun", None, 1, begun.begun_at, None, job.lease_token)
    assert second[1:5] == ("b", "finished", 1, 1)
    assert second[6] >= second[5]
    clock.advance("31 seconds")
    assert [state for _, _, state, *_ in connection.execute(query, [queue])] == [
        "interrupted",
        "finished",
    ]
    again = claim_one(connection, queue)
    assert noted(connection, job.job_id) == {"a": "interrupted", "b": "finished"}
    assert begin(connection, again, "a", at_least_once=True).state == "begun"
    assert noted(connection, job.job_id) == {"a": "begun", "b": "finished"}
    assert ack(connection, again)
    assert connection.execute(query, [queue]).fetchall() == []


def test_rolled_back(connect: Connect, connection: Session, queue: str) -> None:
    """What is not committed is not noted; so commit before the effect is run."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    session = connect()
    assert begin(session, job).state == "begun"
    assert begin(session, job).state == "interrupted"
    assert finish(session, job, result=1) is True
    assert begin(session, job).state == "finished"
    session.rollback()
    assert begin(session, job).state == "begun"
    session.commit()
    assert forget(session, job)
    session.rollback()
    assert begin(connection, job).state == "interrupted"


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22004", {"job_id": None}),
        ("22004", {"lease_token": None}),
        ("22004", {"effect": None}),
        ("22023", {"effect": ""}),
        ("22023", {"effect": "x" * 256}),
    ],
)
@pytest.mark.parametrize("function", ["begin_effect", "finish_effect", "delete_effect"])
def test_refusals(
    connection: Session, queue: str, function: str, sqlstate: str, bad: dict[str, Any]
) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    good = {"job_id": job.job_id, "lease_token": job.lease_token, "effect": "x" * 255}
    with unchanged(connection):
        refused(sqlstate, connection.call, function, **{**good, **bad})
    assert connection.begin_effect(**good).state == "begun"


@pytest.mark.parametrize("setting", ["off", "local", "remote_write", "on", "remote_apply"])
def test_the_commit_is_flushed(connect: Connect, queue: str, setting: str) -> None:
    """They wait for the disk where the session waits for nothing, and weaken nothing else."""
    session = connect()
    session.execute(f"set synchronous_commit = {setting}".encode())
    session.commit()
    enqueue(session, queue)
    job = claim_one(session, queue)
    expected = "on" if setting == "off" else setting
    for call, arguments in ((begin, {}), (finish, {"result": 1})):
        session.commit()
        assert row(session, "show synchronous_commit") == (setting,)
        call(session, job, **arguments)
        assert row(session, "show synchronous_commit") == (expected,)
    session.commit()
    assert row(session, "show synchronous_commit") == (setting,)
    # what writes nothing that counts leaves it to the session
    assert begin(session, job).state == "finished"
    assert row(session, "show synchronous_commit") == (setting,)
