"""cleanup beside many jobs: it reads few of those that wait, and ends a limited number at once.

It is called every minute or so, also where millions of jobs wait and nothing is to be done; and
where very many are to be removed it must not do that in one long transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.waiting import wait_until

pytestmark = pytest.mark.slow

WAITING = 50_000
BATCH = 10_000

# what one call may read of the jobs, however many there are
READ = 5_000
# and how many it may end
ENDED = 10_000

_ROWS_READ = """
    select coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)), 0)::bigint
    from pg_class as c
    where c.oid in (
        select r.oid
        from pg_class as r
        where r.relnamespace = 'pgq'::regnamespace
            and r.relkind = 'r'
            and r.relname ~ 'job'
        union all
        select i.indexrelid
        from pg_index as i
        inner join pg_class as r on r.oid = i.indrelid
        where r.relnamespace = 'pgq'::regnamespace
            and r.relname ~ 'job'
    )
"""


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


def _fill(connection: Session, queue: str, number: int, **options: Any) -> None:
    for _ in range(number // BATCH):
        enqueue_many(connection, queue, BATCH, **options)


def _ready(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    for priority in range(5):
        _fill(connection, queue, WAITING // 5, priority=priority, labels=[f"p{priority}"] * BATCH)


def _delayed(connection: Session, clock: Clock) -> None:
    _fill(connection, new_queue(connection), WAITING, delay="1 hour")


def _leased(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=3)
    _fill(connection, queue, WAITING)
    assert len(claim(connection, queue, WAITING, lease="1 hour")) == WAITING


def _leased_for_the_last_time(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=1)
    _fill(connection, queue, WAITING)
    assert len(claim(connection, queue, WAITING, lease="1 hour")) == WAITING


def _given_back_by_crashes(connection: Session, clock: Clock) -> None:
    """Their leases have run out, and they have attempts left."""
    queue = new_queue(connection, max_attempts=2)
    _fill(connection, queue, WAITING)
    assert len(claim(connection, queue, WAITING, lease="1 minute")) == WAITING
    clock.advance("2 minutes")


def _paused_without_limits(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, no_limit=["job_ttl", "retention", "max_attempts"])
    _fill(connection, queue, WAITING)
    connection.pause_queue(queue=queue)


def _dead(connection: Session, clock: Clock) -> None:
    _leased_for_the_last_time(connection, clock)
    clock.advance("2 hours")
    assert sum(each["jobs died"] for each in _until_no_more(connection)) == WAITING


KINDS = [
    _ready,
    _delayed,
    _leased,
    _leased_for_the_last_time,
    _given_back_by_crashes,
    _paused_without_limits,
    _dead,
]


def _read_by_cleanup(connect: Connect) -> tuple[list[tuple[str, str, int]], int]:
    """What a cleanup reports, and how many rows and index entries of jobs it read."""
    session = connect()
    [before] = row(session, _ROWS_READ)
    done = session.cleanup()
    [after] = row(session, _ROWS_READ)
    session.commit()
    session.close()
    return done, after - before


def _settle(connection: Session) -> None:
    """Remove what is dead, so that it is not counted, and call cleanup until it has nothing to do.

    A floor may be raised or a segment be opened by the first calls.
    """
    connection.execute("vacuum analyze")
    wait_until(lambda: connection.cleanup() == [])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.strip("_"))
def test_many_wait_and_nothing_is_to_be_done(
    connect: Connect,
    connection: Session,
    clock: Clock,
    kind: Callable[[Session, Clock], None],
) -> None:
    kind(connection, clock)
    _settle(connection)
    for _ in range(3):
        done, read = _read_by_cleanup(connect)
        assert done == []
        assert read <= READ, f"{read} rows and entries read for {WAITING} jobs that wait"


def test_a_lost_last_attempt_behind_thousands_that_wait(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """They are older, ready, of the same priority, and nobody claims any more."""
    queue = new_queue(connection, max_attempts=1)
    _fill(connection, queue, WAITING)
    last = enqueue(connection, queue, "last", label="last")
    [job] = claim(connection, queue, label="last", lease="1 minute")
    assert job.job_id == last
    connection.execute("vacuum analyze")
    connection.cleanup()
    clock.advance("2 minutes")
    done, read = _read_by_cleanup(connect)
    assert ("jobs died", queue, 1) in done
    assert row(connection, "select job_id, last_error from pgq.dead_letters") == (
        last,
        "the lease of the last attempt ran out",
    )
    assert stats(connection, queue) == {"ready": WAITING, "dead": 1}
    assert read <= READ


def test_an_expired_job_behind_thousands_that_wait(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """The one that came last expires first: job_ttl was longer when the others came."""
    queue = new_queue(connection, job_ttl="30 days")
    _fill(connection, queue, WAITING)
    connection.alter_queue(queue=queue, job_ttl="1 hour")
    enqueue(connection, queue, "last", priority=9)
    connection.execute("vacuum analyze")
    clock.advance("61 minutes")
    done, read = _read_by_cleanup(connect)
    assert ("jobs expired", queue, 1) in done
    assert stats(connection, queue) == {"ready": WAITING}
    assert read <= READ


def _until_no_more(connection: Session) -> list[dict[str, int]]:
    """What each call ended, by action, until one does not say that there is more."""
    calls = []
    more = True
    while more:
        done = connection.cleanup()
        more = any(action == "more" for action, _, _ in done)
        ended = dict.fromkeys(("jobs expired", "jobs died"), 0)
        for action, _, amount in done:
            if action in ended:
                ended[action] += amount
        calls.append(ended)
        assert len(calls) < 20
    return calls


def test_many_expire_at_once(connection: Session, clock: Clock) -> None:
    """A call ends its share and says that there is more; the next one goes on."""
    queue, other = (new_queue(connection, job_ttl="1 hour") for _ in range(2))
    _fill(connection, queue, 20_000)
    enqueue_many(connection, other, 5_000)
    stays = new_queue(connection)
    enqueue_many(connection, stays, 100)
    clock.advance("61 minutes")
    calls = _until_no_more(connection)
    assert [each["jobs expired"] <= ENDED for each in calls] == [True] * len(calls)
    assert sum(each["jobs expired"] for each in calls) == 25_000
    assert [stats(connection, name) for name in (queue, other, stays)] == [{}, {}, {"ready": 100}]
    assert row(connection, "select count(*), count(distinct job_id) from pgq.archived_jobs") == (
        25_000,
        25_000,
    )


def test_many_lose_their_last_workers_at_once(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=1)
    _fill(connection, queue, 20_000)
    enqueue_many(connection, queue, 5_000)
    assert len(claim(connection, queue, 25_000)) == 25_000
    enqueue_many(connection, queue, 10)
    clock.advance("31 seconds")
    calls = _until_no_more(connection)
    assert [each["jobs died"] <= ENDED for each in calls] == [True] * len(calls)
    assert sum(each["jobs died"] for each in calls) == 25_000
    assert stats(connection, queue) == {"ready": 10, "dead": 25_000}


def test_some_expire_and_some_die(connection: Session, clock: Clock) -> None:
    """Together they are not more than one call may end, and neither sort starves the other."""
    expiring = new_queue(connection, job_ttl="1 hour")
    dying = new_queue(connection, max_attempts=1)
    enqueue_many(connection, expiring, 8_000)
    enqueue_many(connection, dying, 8_000)
    assert len(claim(connection, dying, 8_000)) == 8_000
    clock.advance("61 minutes")
    calls = _until_no_more(connection)
    assert [sum(each.values()) <= ENDED for each in calls] == [True] * len(calls)
    assert sum(each["jobs expired"] for each in calls) == 8_000
    assert sum(each["jobs died"] for each in calls) == 8_000
    assert stats(connection, expiring) == {}
    assert stats(connection, dying) == {"dead": 8_000}


def test_a_rolled_back_call_has_ended_none(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """Two calls in one transaction end two shares."""
    queue = new_queue(connection, job_ttl="1 hour")
    _fill(connection, queue, 30_000)
    clock.advance("61 minutes")
    session = connect()
    left = 30_000
    for _ in range(2):
        assert "more" in [action for action, _, _ in session.cleanup()]
        before, left = left, stats(session, queue)["expired"]
        assert 0 < before - left <= ENDED
    session.rollback()
    assert stats(connection, queue) == {"expired": 30_000}


def test_jobs_that_others_hold_do_not_keep_it_busy(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """Expired jobs that an open transaction has locked are passed by, those behind them go."""
    queue = new_queue(connection, job_ttl="1 hour", no_limit=["max_attempts"])
    enqueue_many(connection, queue, 12_000)
    jobs = claim(connection, queue, 12_000, lease="1 minute")
    enqueue_many(connection, queue, 50)
    session = connect()
    held = {"job_ids": [job.job_id for job in jobs], "lease_token": jobs[0].lease_token}
    assert len(session.nack_batch(**held, delay="0")) == 12_000
    clock.advance("61 minutes")
    calls = _until_no_more(connection)
    assert sum(each["jobs expired"] for each in calls) == 50
    session.rollback()
    assert sum(each["jobs expired"] for each in _until_no_more(connection)) == 12_000
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 0


def test_many_old_dead_letters(connection: Session, clock: Clock) -> None:
    """A call removes its share of them and says that there is more."""
    queue = new_queue(connection, max_attempts=1, job_ttl="1 hour", retention="2 hours")
    _fill(connection, queue, 20_000)
    assert len(claim(connection, queue, 20_000)) == 20_000
    clock.advance("31 seconds")
    _until_no_more(connection)
    assert stats(connection, queue) == {"dead": 20_000}
    clock.advance("3 hours")
    _until_no_more(connection)
    assert stats(connection, queue) == {}


def test_many_jobs_of_a_queue_that_is_gone(connection: Session) -> None:
    """As an enqueue leaves them that was in progress when it was dropped."""
    queue = new_queue(connection)
    _fill(connection, queue, 20_000)
    connection.execute("delete from pgq.queue")
    _until_no_more(connection)
    assert row(connection, "select count(*) from pgq.job") == (0,)


def test_many_dead_letters_of_a_queue_that_is_gone(connection: Session, clock: Clock) -> None:
    """As a drop leaves them that did not see them; none of the other queues goes."""
    queue, other = (new_queue(connection, max_attempts=1) for _ in range(2))
    for each, number in ((queue, 20_000), (other, 10)):
        enqueue_many(connection, each, number)
        assert len(claim(connection, each, number)) == number
    clock.advance("31 seconds")
    _until_no_more(connection)
    connection.execute("delete from pgq.queue where queue = %s", [queue])
    left = []
    for _ in range(3):
        connection.cleanup()
        left += row(connection, "select count(*) from pgq.dead_job")
    assert left == [10_010, 10, 10]
    assert stats(connection, other) == {"dead": 10}
