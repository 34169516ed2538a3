"""cleanup where something fails that must not end the call, or hide what fails."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.failing import cleaned, failing, failures, many_queues, raising
from support.session import Connect, Session, row


def test_one_that_fails_behind_many(connection: Session, clock: Clock) -> None:
    """It is found in one call, and all others are cleaned."""
    queues = many_queues(connection, clock, 30)
    with failing(connection, "delete on pgq.job", f"old.queue_id = {queues[28]}"):
        cleaned(connection)
        assert failures(connection) == [("jobs", "q29", "22P02")]
        assert row(connection, "select count(*) from pgq.job") == (1,)


@pytest.mark.parametrize("code", ["53200", "53400", "P0004"])
def test_an_error_that_is_caught_by_its_name(connection: Session, clock: Clock, code: str) -> None:
    queues = many_queues(connection, clock, 4)
    with failing(connection, "delete on pgq.job", f"old.queue_id = {queues[3]}"):
        raising(connection, code)
        for _ in range(2):
            cleaned(connection)
            assert failures(connection) == [("jobs", "q4", code)]
        assert row(connection, "select count(*) from pgq.job") == (1,)


def test_a_disk_too_full_for_the_failure(connection: Session, clock: Clock) -> None:
    """The other parts go on, truncation among them."""
    many_queues(connection, clock, 2)
    connection.heartbeat(worker="w")
    clock.advance("2 days")
    with failing(connection, "delete on pgq.job", "old.queue_id > 0"):
        raising(connection, "53100")
        connection.execute(
            "create trigger full_too before insert on pgq.cleanup_failure"
            " execute function public.pgq_test_raise()"
        )
        done = cleaned(connection)
        connection.execute("drop trigger full_too on pgq.cleanup_failure")
    assert ("failed", "jobs: 53100") in done
    assert ("workers forgotten", "workers") in done


def test_what_a_part_reads_is_locked(connection: Session, connect: Connect, clock: Clock) -> None:
    """The objects cannot be listed; the other parts go on."""
    bad, _ = many_queues(connection, clock, 2)
    connection.heartbeat(worker="w")
    clock.advance("2 days")
    other = connect()
    other.execute("lock table pgq.claim_count in access exclusive mode")
    with failing(connection, "delete on pgq.job", f"old.queue_id = {bad}"):
        done = cleaned(connection)
        assert ("workers forgotten", "workers") in done
        other.rollback()
        cleaned(connection)
        assert failures(connection) == [("jobs", "q1", "22P02")]


def test_many_failures_are_read_once(connection: Session, clock: Clock) -> None:
    """Not once for each object."""
    many_queues(connection, clock, 50)
    with connection.transaction(force_rollback=True):
        connection.execute("set local track_functions = 'all'")
        connection.execute("select from pgq._list_objects('jobs')")
        calls = row(
            connection,
            "select calls from pg_stat_xact_user_functions where funcname = '_failed_objects'",
        )
    assert calls == (1,)
