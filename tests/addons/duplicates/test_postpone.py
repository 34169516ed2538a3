"""on_duplicate postpone: a debounce. A duplicate gives a waiting job its content and a new time."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.duplicates import held, put, replacing
from support.queue import claim, claim_one
from support.session import Connect, Session, row


def notified(session: Session) -> list[str]:
    """The notifications that a session has got since it last looked."""
    return [each.payload for each in session.notifies(timeout=0.2)]


def test_the_delay_of_the_queue(connection: Session, clock: Clock) -> None:
    """It begins again with each duplicate; the last content comes once."""
    queue = replacing(connection, "postpone", delay="10 seconds")
    first, _ = put(connection, queue, 0)
    for n in range(1, 4):
        clock.advance("9 seconds")
        assert claim(connection, queue) == []
        assert put(connection, queue, n) == (first, True)
    clock.advance("9 seconds")
    assert claim(connection, queue) == []
    clock.advance("2 seconds")
    [job] = claim(connection, queue, 9)
    assert (job.job_id, job.payload, job.attempt) == (first, 3, 1)


@pytest.mark.parametrize("by", ["delay", "run_at"])
@pytest.mark.parametrize("before", ["0", "5 minutes"])
def test_a_time_of_its_own(connection: Session, clock: Clock, before: str, by: str) -> None:
    """Later or earlier than what was."""
    queue = replacing(connection, "postpone", delay="1 hour")
    first, _ = put(connection, queue, "old", delay=before)
    [run_at] = row(connection, "select pgq._clock() + interval '1 minute'")
    given = {"delay": "1 minute"} if by == "delay" else {"run_at": run_at}
    assert put(connection, queue, "new", **given) == (first, True)
    clock.advance("50 seconds")
    assert claim(connection, queue) == []
    clock.advance("11 seconds")
    assert claim_one(connection, queue).payload == "new"


def test_debounce_max(connection: Session, clock: Clock) -> None:
    """Counted from the first enqueue, whatever time is given; then a claim gets the newest."""
    queue = replacing(connection, "postpone", delay="10 seconds", debounce_max="25 seconds")
    first, _ = put(connection, queue, 0)
    for n in (1, 2):
        clock.advance("8 seconds")
        assert put(connection, queue, n, **({"delay": "1 hour"} if n == 2 else {})) == (first, True)
    clock.advance("8 seconds")
    assert claim(connection, queue) == []
    clock.advance("2 seconds")
    assert put(connection, queue, 3) == (first, True)
    assert claim_one(connection, queue).payload == 3


def test_one_that_was_tried(connection: Session, clock: Clock) -> None:
    """Its first enqueue counts, not when it came back."""
    queue = replacing(connection, "postpone", debounce_max="1 minute", backoff="1 hour")
    first, _ = put(connection, queue, "old")
    assert connection.nack(**held(claim_one(connection, queue)))
    assert put(connection, queue, "new", delay="1 hour") == (first, True)
    clock.advance("59 seconds")
    assert claim(connection, queue) == []
    clock.advance("2 seconds")
    job = claim_one(connection, queue)
    assert (job.payload, job.attempt) == ("new", 2)


def test_it_lives_as_long_as_a_new_one(connection: Session, clock: Clock) -> None:
    queue = replacing(connection, "postpone", job_ttl="1 hour", delay="10 minutes")
    first, _ = put(connection, queue, 0)
    for n in range(1, 9):
        clock.advance("9 minutes")
        assert put(connection, queue, n) == (first, True)
    clock.advance("11 minutes")
    assert claim_one(connection, queue).payload == 8


def test_a_batch(connection: Session, clock: Clock) -> None:
    """Its delay is that of all; of several with a key the last one counts."""
    queue = replacing(connection, "postpone", debounce_max="1 minute", lease="1 hour")
    first, _ = put(connection, queue, "old", "a")
    clock.advance("30 seconds")
    made = connection.enqueue_batch(
        queue=queue, payloads=[1, 2, 3], unique_keys=["b", "a", "b"], delay="1 hour"
    )
    second = made[0].job_id
    assert [tuple(each) for each in made] == [(second, False), (first, True), (second, True)]
    clock.advance("29 seconds")
    assert claim(connection, queue, 9) == []
    clock.advance("2 seconds")
    assert [job.payload for job in claim(connection, queue, 9)] == [2]
    clock.advance("30 seconds")
    assert [job.payload for job in claim(connection, queue, 9)] == [3]


@pytest.mark.parametrize("restricted", [False, True])
def test_an_earlier_time_notifies(connection: Session, connect: Connect, restricted: bool) -> None:
    """A later one wakes nobody."""
    queue = replacing(connection, "postpone", notify=True, restricted=restricted)
    listener = connect(autocommit=True)
    listener.execute("listen pgq_queue")
    put(connection, queue, "old", delay="1 hour")
    assert notified(listener) == ["" if restricted else queue]
    put(connection, queue, "later", delay="2 hours")
    assert notified(listener) == []
    put(connection, queue, "earlier", delay="0")
    assert notified(listener) == ["" if restricted else queue]
    assert claim_one(connection, queue).payload == "earlier"


def test_a_leased_job_is_not_postponed(connection: Session, clock: Clock) -> None:
    queue = replacing(connection, "postpone", delay="10 seconds")
    first, _ = put(connection, queue, "old", delay="0")
    job = claim_one(connection, queue)
    second, duplicate = put(connection, queue, "new")
    assert (second > first, duplicate) == (True, False)
    assert connection.nack(**held(job), delay="0")
    assert claim(connection, queue) == []
    clock.advance("11 seconds")
    assert [each.payload for each in claim(connection, queue, 9)] == ["new"]
