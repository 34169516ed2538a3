"""rate_limit: so many jobs of a queue are handed out per rate_interval, and rate_burst at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction

import pytest

from support.queue import ack, claim, enqueue_many, new_queue, settings
from support.session import Connect, Session, refused, row


class StoppedClock:
    """A time that goes on only by ``advance``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        session.execute("create table public.stopped_clock as select clock_timestamp() as moment")
        session.execute(
            "create or replace function pgq._clock() returns timestamptz language sql"
            " volatile parallel safe as $$ select moment from public.stopped_clock $$"
        )

    def advance(self, by: str) -> None:
        """Move it."""
        self.session.execute("update public.stopped_clock set moment = moment + %s::interval", [by])


@pytest.fixture(name="clock")
def stopped_clock(connect: Connect, dsn: str) -> Iterator[StoppedClock]:
    """A stopped clock; the tests behind it have the one before."""
    session = connect(autocommit=True)
    [before] = row(session, "select pg_get_functiondef('pgq._clock()'::regprocedure)")
    yield StoppedClock(session)
    session.execute(before)
    session.execute("drop table public.stopped_clock")


def held_by(session: Session, queue: str) -> str | None:
    [reason] = row(session, "select held_by from pgq.queue_stats where queue = %s", [queue])
    return None if reason is None else str(reason)


def test_a_burst_and_then_the_rate(connection: Session, clock: StoppedClock) -> None:
    queue = new_queue(connection, rate_limit=2, rate_burst=5, lease="1 hour")
    enqueue_many(connection, queue, 40)
    assert held_by(connection, queue) is None
    assert len(claim(connection, queue)) == 1
    assert len(claim(connection, queue, 10)) == 4
    assert claim(connection, queue) == []
    assert held_by(connection, queue) == "rate_limit"
    clock.advance("0.499999 seconds")
    assert claim(connection, queue) == []
    clock.advance("0.000001 seconds")
    assert held_by(connection, queue) is None
    assert len(claim(connection, queue, 10)) == 1
    clock.advance("1 second")
    assert len(claim(connection, queue, 10)) == 2
    clock.advance("1 hour")
    assert len(claim(connection, queue, 10)) == 5
    assert claim(connection, queue, 10) == []


@pytest.mark.parametrize(("limit", "interval"), [(3, 1), (7, 10), (1, 3), (1000, 7)])
def test_nothing_is_lost_in_many_small_steps(
    connection: Session, clock: StoppedClock, limit: int, interval: int
) -> None:
    queue = new_queue(
        connection, rate_limit=limit, rate_interval=f"{interval} seconds", lease="1 hour"
    )
    enqueue_many(connection, queue, 3 * limit + 100)
    assert len(claim(connection, queue, 10000)) == limit
    handed_out, passed = 0, Fraction(0)
    for step in range(20):
        micros = 1 + (step * 31337) % (interval * 270000)
        clock.advance(f"{micros} microseconds")
        passed += Fraction(micros, 1000000)
        handed_out += len(claim(connection, queue, 10000))
        assert handed_out == int(passed * limit / interval)


def test_a_retry_is_handed_out_as_well(connection: Session, clock: StoppedClock) -> None:
    queue = new_queue(connection, rate_limit=2, rate_interval="1 minute", backoff="0")
    enqueue_many(connection, queue, 1)
    for _ in range(2):
        [job] = claim(connection, queue)
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    assert claim(connection, queue) == []


def test_a_clock_that_goes_back_and_ahead(connection: Session, clock: StoppedClock) -> None:
    queue = new_queue(connection, rate_limit=3, lease="1 day")
    enqueue_many(connection, queue, 60)
    assert len(claim(connection, queue, 9)) == 3
    clock.advance("-1 hour")
    # Jobs were due by the time that is ahead now.
    enqueue_many(connection, queue, 60)
    assert claim(connection, queue, 9) == []
    clock.advance("1 second")
    assert len(claim(connection, queue, 9)) == 3
    clock.advance("2 hours")
    assert len(claim(connection, queue, 9)) == 3
    assert claim(connection, queue, 9) == []


def test_a_rollback_gives_back(connection: Session, clock: StoppedClock) -> None:
    queue = new_queue(connection, rate_limit=3)
    enqueue_many(connection, queue, 9)
    with connection.transaction(force_rollback=True):
        assert len(claim(connection, queue, 9)) == 3
        assert claim(connection, queue, 9) == []
    assert len(claim(connection, queue, 9)) == 3
    assert claim(connection, queue, 9) == []


def test_it_changes_at_any_time(connection: Session, clock: StoppedClock) -> None:
    queue = new_queue(connection, lease="1 day")
    enqueue_many(connection, queue, 200)
    assert len(claim(connection, queue, 9)) == 9
    connection.alter_queue(queue=queue, rate_limit=4)
    assert len(claim(connection, queue, 3)) == 3
    # One is left, in whatever time it is counted, and the burst goes along with the limit.
    assert connection.alter_queue(queue=queue, rate_interval="1 hour").rate_burst == 4
    assert len(claim(connection, queue, 9)) == 1
    changed = connection.alter_queue(queue=queue, rate_limit=60)
    assert (changed.rate_burst, changed.rate_interval) == (60, timedelta(hours=1))
    assert claim(connection, queue, 9) == []
    clock.advance("2 minutes")
    assert len(claim(connection, queue, 9)) == 2
    assert connection.alter_queue(queue=queue, rate_burst=3).rate_burst == 3
    clock.advance("1 hour")
    assert connection.alter_queue(queue=queue, rate_limit=30).rate_burst == 3
    assert len(claim(connection, queue, 9)) == 3
    lifted = connection.alter_queue(queue=queue, no_limit=["rate_limit"])
    assert (lifted.rate_limit, lifted.rate_interval, lifted.rate_burst) == (None, None, None)
    assert len(claim(connection, queue, 9)) == 9
    connection.alter_queue(queue=queue, rate_limit=5)
    clock.advance("1 second")
    assert len(claim(connection, queue, 9)) == 5


def test_with_max_leased(connection: Session, clock: StoppedClock) -> None:
    queue = new_queue(connection, rate_limit=3, max_leased=4, lease="1 day")
    enqueue_many(connection, queue, 20)
    first = claim(connection, queue, 9)
    assert len(first) == 3
    clock.advance("10 seconds")
    assert len(claim(connection, queue, 9)) == 1
    for job in first:
        assert ack(connection, job)
    assert len(claim(connection, queue, 9)) == 2
    clock.advance("10 seconds")
    assert len(claim(connection, queue, 9)) == 1


def test_the_settings(connection: Session) -> None:
    queue = new_queue(connection, rate_limit=10)
    made = settings(connection, queue)
    assert (made["rate_limit"], made["rate_burst"]) == (10, 10)
    assert made["rate_interval"] == timedelta(seconds=1)
    other = new_queue(connection)
    for wrong in (
        {"rate_limit": 0},
        {"rate_limit": 1000001},
        {"rate_burst": 0, "rate_limit": 5},
        {"rate_interval": "0", "rate_limit": 5},
        {"rate_interval": "-1 second", "rate_limit": 5},
        {"rate_interval": "1 second"},
        {"rate_burst": 5},
        {"rate_limit": 5, "no_limit": ["rate_limit"]},
        {"no_limit": ["rate_burst"]},
    ):
        refused("22023", connection.create_queue, queue="new", **wrong)
        refused("22023", connection.alter_queue, queue=other, **wrong)
    refused("MQ005", connection.create_queue, queue=queue, rate_limit=10, rate_burst=11)
    assert (
        connection.create_queue(queue=queue, rate_limit=10, rate_interval="1000 ms").rate_burst
        == 10
    )


@pytest.mark.parametrize("limit", [{"rate_limit": 2}, {"max_leased": 2}])
def test_a_limit_stays_when_another_queue_is_dropped(
    connection: Session, clock: StoppedClock, limit: dict[str, int]
) -> None:
    """What was handed out of each of them is counted alone."""
    queues = [new_queue(connection, lease="1 hour", **limit) for _ in range(3)]
    for queue in queues:
        enqueue_many(connection, queue, 3)
        assert len(claim(connection, queue, 3)) == 2
    connection.drop_queue(queue=queues[1])
    for queue in (queues[0], queues[2]):
        assert held_by(connection, queue) == next(iter(limit))
        assert claim(connection, queue) == []
