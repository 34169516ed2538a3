"""unique_key: of a key a queue has one unfinished job, as long as its unique_until says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.queue import Job, ack, claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, refused, unchanged
from support.unique import MODES, add, add_many, keys_of, loose_keys


def held(job: Job) -> dict[str, Any]:
    return {"job_id": job.job_id, "lease_token": job.lease_token}


@pytest.mark.parametrize("mode", MODES)
def test_a_second_enqueue_adds_nothing(connection: Session, mode: str) -> None:
    queue = new_queue(connection, unique_until=mode)
    number, duplicate = add(connection, queue)
    assert duplicate is False
    for _ in range(2):
        with unchanged(connection):
            assert add(connection, queue, label="other", priority=3) == (number, True)
    assert claim_one(connection, queue).job_id == number
    assert claim(connection, queue) == []


def test_other_keys_other_queues_and_none(connection: Session, queue: str) -> None:
    other = new_queue(connection)
    found = [
        add(connection, queue, "k"),
        add(connection, queue, "K"),
        add(connection, queue, "k "),
        add(connection, other, "k"),
        add(connection, queue, None),
        add(connection, queue, None),
    ]
    assert [duplicate for _, duplicate in found] == [False] * 6
    assert len(keys_of(connection, queue)) == 3


ENDS: dict[str, Callable[[Session, Job, str], Any]] = {
    "ack": lambda c, job, q: ack(c, job),
    "ack_batch": lambda c, job, q: c.ack_batch(job_ids=[job.job_id], lease_token=job.lease_token),
    "archive_job": lambda c, job, q: c.archive_job(**held(job), outcome="done"),
    "finish_and_claim": lambda c, job, q: (
        c.finish_and_claim(queue=q, job_ids=[job.job_id], lease_token=job.lease_token) == []
    ),
    "cancel_job": lambda c, job, q: c.cancel_job(job_id=job.job_id),
    "purge_queue": lambda c, job, q: c.purge_queue(queue=q, all_jobs=True).taken,
}


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("mode", MODES)
def test_what_ends_a_job_frees_its_key(
    connection: Session, mode: str, end: str, archive: bool
) -> None:
    queue = new_queue(connection, unique_until=mode, archive=archive)
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    assert keys_of(connection, queue) == ({} if mode == "claimed" else {"k": number})
    assert ENDS[end](connection, job, queue)
    assert keys_of(connection, queue) == {}
    assert stats(connection, queue) == {}
    rows = connection.execute(
        "select outcome, payload from pgq.archived_jobs where queue = %s", [queue]
    ).fetchall()
    noted = {"archive_job": "done", "cancel_job": "cancelled"}.get(end, "acked")
    keeps = archive or end == "archive_job"
    assert rows == ([(noted, 1)] if keeps and end != "purge_queue" else [])
    again, duplicate = add(connection, queue)
    assert again > number
    assert duplicate is False


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_expires(connection: Session, clock: Clock, mode: str) -> None:
    queue = new_queue(connection, unique_until=mode, job_ttl="1 hour")
    number, _ = add(connection, queue)
    clock.advance("61 minutes")
    # nobody will ever get it, though it is there until cleanup
    again, duplicate = add(connection, queue)
    assert (again > number, duplicate) == (True, False)
    assert add(connection, queue) == (again, True)
    assert loose_keys(connection) == 0
    connection.cleanup()
    assert keys_of(connection, queue) == {"k": again}
    assert stats(connection, queue) == {"ready": 1}


@pytest.mark.parametrize("mode", ["finished", "removed"])
def test_a_job_that_expires_while_a_worker_has_it(
    connection: Session, clock: Clock, mode: str
) -> None:
    """It has the key as long as the lease."""
    queue = new_queue(connection, unique_until=mode, job_ttl="1 hour", lease="2 hours")
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("90 minutes")
    assert add(connection, queue) == (number, True)
    clock.advance("1 hour")
    assert add(connection, queue)[1] is False
    # nobody else got it, so the worker may still say what became of it
    assert ack(connection, job) is True
    assert stats(connection, queue) == {"ready": 1}
    assert loose_keys(connection) == 0


def test_a_queue_that_is_dropped(connection: Session, queue: str) -> None:
    add_many(connection, queue, ["a", "b", None])
    connection.drop_queue(queue=queue)
    connection.create_queue(queue=queue)
    assert add(connection, queue, "a")[1] is False
    assert loose_keys(connection) == 0


def test_a_key_left_by_an_enqueue_beside_a_drop(
    connect: Connect, connection: Session, queue: str
) -> None:
    """It goes with the job, by cleanup."""
    other = connect()
    add(other, queue)
    connection.drop_queue(queue=queue)
    other.commit()
    connection.cleanup()
    assert loose_keys(connection) == 0


# ---------------------------------------------------------------------------- batches, arguments


def test_a_batch(connection: Session, queue: str) -> None:
    """In the order of the array; what is there already, or twice in it, is added once."""
    number, _ = add(connection, queue, "b")
    made = connection.enqueue_batch(
        queue=queue,
        payloads=[Jsonb(each) for each in ("c", "b", "none", "a", "c again", "none again")],
        unique_keys=["c", "b", None, "a", "c", None],
        keys=list("uvwxyz"),
        headers=[Jsonb({"n": n}) for n in range(6)],
        labels=list("lmnopq"),
        priority=4,
        max_attempts=7,
    )
    assert [duplicate for _, duplicate in made] == [False, True, False, False, True, False]
    assert made[1].job_id == number
    assert made[4].job_id == made[0].job_id
    new = [made[n].job_id for n in (0, 2, 3, 5)]
    assert new == sorted(set(new))
    jobs = {job.job_id: job for job in claim(connection, queue, 9)}
    assert [
        (jobs[n].payload, jobs[n].key, jobs[n].headers, jobs[n].label, jobs[n].priority)
        for n in new
    ] == [
        ("c", "u", {"n": 0}, "l", 4),
        ("none", "w", {"n": 2}, "n", 4),
        ("a", "x", {"n": 3}, "o", 4),
        ("none again", "z", {"n": 5}, "q", 4),
    ]
    assert {connection.get_job(job_id=n).max_attempts for n in new} == {7}
    assert keys_of(connection, queue) == {"a": new[2], "b": number, "c": new[0]}


def test_a_batch_of_duplicates_alone(connection: Session) -> None:
    """Nothing is stored, and nobody is woken up."""
    queue = new_queue(connection, notify=True)
    first = add_many(connection, queue, ["a", "b"])
    connection.execute("listen pgq_queue")
    with unchanged(connection):
        assert add_many(connection, queue, ["b", "a", "a"]) == [
            (first[1][0], True),
            (first[0][0], True),
            (first[0][0], True),
        ]
        assert add(connection, queue, "a") == (first[0][0], True)
    assert list(connection.notifies(timeout=0, stop_after=1)) == []
    assert add_many(connection, queue, ["a", "c"])[1][1] is False
    [heard] = connection.notifies(timeout=5, stop_after=1)
    assert heard.payload == queue


@pytest.mark.parametrize("content", ["payloads", "bodies"])
def test_a_batch_with_few_arrays(connection: Session, queue: str, content: str) -> None:
    values: list[Any] = [1, 2, 3] if content == "payloads" else [b"1", b"2", b"3"]
    made = connection.enqueue_batch(queue=queue, unique_keys=["a", "a", None], **{content: values})
    assert [each.duplicate for each in made] == [False, True, False]
    found = [job.payload or job.body for job in claim(connection, queue, 9)]
    assert found == [values[0], values[2]]
    assert connection.enqueue_batch(queue=queue, payloads=[], unique_keys=[]) == []


def test_twice_in_one_transaction(connect: Connect, queue: str) -> None:
    session = connect()
    number, _ = add(session, queue)
    assert add(session, queue) == (number, True)
    job = claim_one(session, queue)
    assert add(session, queue) == (number, True)
    assert ack(session, job)
    assert add(session, queue)[1] is False
    session.execute("savepoint s")
    add(session, queue, "l")
    session.execute("rollback to savepoint s")
    assert add(session, queue, "l")[1] is False
    session.commit()
    assert loose_keys(session) == 0


def test_what_no_key_can_be(connection: Session, queue: str) -> None:
    longest = "ä" * 255
    assert add(connection, queue, longest)[1] is False
    assert add(connection, queue, longest)[1] is True
    with unchanged(connection):
        for wrong in ("", "x" * 256):
            refused("22023", connection.enqueue, queue=queue, payload=1, unique_key=wrong)
            refused(
                "22023", connection.enqueue_batch, queue=queue, payloads=[1], unique_keys=[wrong]
            )
        for keys in ([], ["a"], ["a", "b", "c"], [["a"], ["b"]]):
            refused(
                "22023", connection.enqueue_batch, queue=queue, payloads=[1, 2], unique_keys=keys
            )
        refused("22023", connection.enqueue, queue=queue, payload=1, unique_key="k", delay="-1 s")


def test_a_duplicate_with_bad_arguments_is_refused_all_the_same(
    connection: Session, queue: str
) -> None:
    add(connection, queue)
    refused("22023", connection.enqueue, queue=queue, payload=1, unique_key="k", delay="99 years")
    refused("22004", connection.enqueue, queue=queue, unique_key="k")


def test_with_all_that_an_enqueue_can_be_told(connection: Session, queue: str) -> None:
    number = enqueue(
        connection, queue, {"a": 1}, unique_key="k", delay="1 hour", priority=2, headers={"h": 1}
    )
    assert add(connection, queue) == (number, True)
    assert stats(connection, queue) == {"delayed": 1}
