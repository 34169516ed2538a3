"""alter_queue: what it changes, what it leaves alone, and what it refuses."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue, settings, stats
from support.session import Connect, Session, refused, row, unchanged
from support.waiting import wait_until_blocked

CHANGES: dict[str, Any] = {
    "lease": timedelta(minutes=5),
    "max_attempts": 9,
    "delay": timedelta(seconds=3),
    "job_ttl": timedelta(days=3),
    "retention": timedelta(days=2),
    "backoff": timedelta(seconds=7),
    "backoff_max": timedelta(minutes=7),
    "backoff_jitter": 0.5,
    "archive": False,
    "notify": True,
    "idempotency_window": timedelta(hours=1),
    "unique_until": "claimed",
    "after_dead_letter": "stop",
    "max_leased": 7,
    "max_message_bytes": 4096,
    "rate_limit": 20,
    "rate_interval": timedelta(minutes=1),
    "rate_burst": 50,
    "max_unfinished": 1000,
    "max_leased_per_key": 3,
    "keep_results": True,
}


def test_no_setting_is_left_out_here(connection: Session) -> None:
    declared = {
        name for [name] in connection.execute("select name from unnest(pgq._queue_settings())")
    }
    assert declared - {*CHANGES} == {
        *("ordered", "on_duplicate"),  # which stay as they were created
        "debounce_max",  # see tests/addons/duplicates
    }


def test_each_setting_alone(connection: Session, queue: str) -> None:
    expected = settings(connection, queue)
    for name, change in CHANGES.items():
        answer = connection.alter_queue(queue=queue, **{name: change})
        found = settings(connection, queue)
        assert answer == tuple(found.values())
        assert found["updated_at"] > expected["updated_at"]
        assert found["created_at"] == expected["created_at"]
        expected = {**expected, name: change, "updated_at": found["updated_at"]}
        if name == "rate_limit":
            expected |= {"rate_interval": timedelta(seconds=1), "rate_burst": change}
        assert found == expected


def test_null_keeps_everything(connection: Session, queue: str) -> None:
    before = settings(connection, queue)
    connection.alter_queue(queue=queue, **dict.fromkeys(CHANGES), no_limit=None)
    assert {**settings(connection, queue), "updated_at": None} == {**before, "updated_at": None}


def test_zero_is_a_value(connection: Session) -> None:
    queue = new_queue(connection, delay="1 hour", backoff_jitter=0.5)
    connection.alter_queue(queue=queue, delay="0", backoff="0", backoff_jitter=0)
    found = settings(connection, queue)
    assert (found["delay"], found["backoff"], found["backoff_jitter"]) == (
        timedelta(0),
        timedelta(0),
        0,
    )


def test_limits_are_lifted_by_name(connection: Session, queue: str) -> None:
    before = _limits(connection, queue)
    expected: dict[str, Any] = before
    for name in before:
        answer = connection.alter_queue(queue=queue, no_limit=[name])
        assert answer == tuple(settings(connection, queue).values())
        expected = {**expected, name: None}
        assert _limits(connection, queue) == expected
    # lifted again, they stay so until they are set
    connection.alter_queue(queue=queue, no_limit=[*before])
    connection.alter_queue(queue=queue, no_limit=[])
    assert _limits(connection, queue) == dict.fromkeys(before)
    connection.alter_queue(queue=queue, **before)
    assert _limits(connection, queue) == before


def _limits(connection: Session, queue: str) -> dict[str, Any]:
    """The settings that may have no limit."""
    found = settings(connection, queue)
    return {name: found[name] for name in ("max_attempts", "job_ttl", "retention")}


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22023", {"lease": "0"}),
        ("22023", {"lease": "-1 s"}),
        ("22023", {"max_attempts": 0}),
        ("22023", {"delay": "-1 s"}),
        ("22023", {"delay": "14 days"}),
        ("22023", {"job_ttl": "0"}),
        ("22023", {"job_ttl": "-1 day"}),
        ("22023", {"job_ttl": "1 hour", "delay": "1 hour"}),
        ("22023", {"retention": "0"}),
        ("22023", {"retention": "-1 day"}),
        ("22023", {"backoff": "-1 s"}),
        ("22023", {"backoff_max": "-1 s"}),
        ("22023", {"backoff_jitter": 2}),
        ("22023", {"backoff_jitter": float("nan")}),
        ("22023", {"no_limit": ["lease"]}),
        ("22023", {"no_limit": ["max_attempts", None]}),
        ("22023", {"no_limit": ["max_attempts"], "max_attempts": 2}),
        ("22023", {"no_limit": ["job_ttl", "retention"], "job_ttl": "1 day"}),
        ("22023", {"no_limit": ["job_ttl", "retention"], "retention": "1 day"}),
        ("MQ002", {"queue": "no-such-queue"}),
        ("22004", {"queue": None}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    with unchanged(connection):
        refused(sqlstate, connection.alter_queue, **{"queue": queue, **bad})


def test_delay_and_job_ttl_are_checked_together(connection: Session) -> None:
    """With what the queue has where one of them is not given; the retention does not matter."""
    queue = new_queue(connection, delay="1 hour", job_ttl="1 day")
    with unchanged(connection):
        refused("22023", connection.alter_queue, queue=queue, job_ttl="1 hour")
    with unchanged(connection):
        refused("22023", connection.alter_queue, queue=queue, delay="1 day")
    connection.alter_queue(queue=queue, job_ttl="2 hours", delay="90 minutes")
    connection.alter_queue(queue=queue, retention="1 minute")
    connection.alter_queue(queue=queue, no_limit=["job_ttl"], delay="30 days")


def test_stored_jobs_keep_their_times(connection: Session, queue: str, clock: Clock) -> None:
    leased = enqueue(connection, queue)
    job = claim_one(connection, queue)
    waiting = enqueue(connection, queue, delay="1 minute")
    times = "select job_id, visible_at, expires_at from pgq.job where job_id in (%s, %s) order by 1"
    before = connection.execute(times, [leased, waiting]).fetchall()
    connection.alter_queue(
        queue=queue, lease="10 minutes", delay="1 hour", job_ttl="1 day", retention="1 day"
    )
    assert connection.execute(times, [leased, waiting]).fetchall() == before

    clock.advance("61 seconds")
    again = claim(connection, queue, 2)
    assert [j.job_id for j in again] == [job.job_id, waiting]
    # the new lease counts from the next delivery
    [(lease,)] = connection.execute("select %s - pgq._clock()", [again[0].leased_until]).fetchall()
    assert timedelta(minutes=9) < lease <= timedelta(minutes=10)


def test_new_delay_and_job_ttl_are_for_new_jobs(
    connection: Session, queue: str, clock: Clock
) -> None:
    connection.alter_queue(queue=queue, delay="1 minute", job_ttl="1 hour")
    enqueue(connection, queue)
    assert stats(connection, queue) == {"delayed": 1}
    clock.advance("61 minutes")
    assert claim(connection, queue) == []
    assert stats(connection, queue) == {"expired": 1}


def test_fewer_attempts_count_at_once(connection: Session, queue: str, clock: Clock) -> None:
    job_id = enqueue(connection, queue)
    for _ in range(2):
        claim_one(connection, queue)
        clock.advance("31 seconds")
    connection.alter_queue(queue=queue, max_attempts=2)
    assert claim(connection, queue) == []
    assert row(
        connection, "select job_id, attempt from pgq.dead_letters where queue = %s", [queue]
    ) == (job_id, 2)


def test_archive_applies_to_jobs_already_claimed(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    connection.alter_queue(queue=queue, archive=False)
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        0,
    )


def test_twice_in_one_transaction_and_rolled_back(connect: Connect, queue: str) -> None:
    connection = connect()
    before = settings(connection, queue)
    connection.alter_queue(queue=queue, lease="1 minute", retention="3 days")
    connection.alter_queue(queue=queue, max_attempts=1, retention="4 days")
    found = settings(connection, queue)
    assert (found["lease"], found["max_attempts"]) == (timedelta(minutes=1), 1)
    connection.rollback()
    assert settings(connection, queue) == before


def test_two_sessions_change_different_settings(
    connect: Connect, connection: Session, queue: str
) -> None:
    """The second waits, and does not put back what the first has changed."""
    first, second = connect(), connect(autocommit=True)
    first.alter_queue(queue=queue, lease="1 minute")
    thread = threading.Thread(target=lambda: second.alter_queue(queue=queue, max_attempts=3))
    thread.start()
    wait_until_blocked(connection, second.pid)
    first.commit()
    thread.join()
    found = settings(connection, queue)
    assert (found["lease"], found["max_attempts"]) == (timedelta(minutes=1), 3)
