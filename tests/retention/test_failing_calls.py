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


@pytest.mark.parametrize("code", ["53200", "53400"])
def test_memory_of_one_object(connection: Session, clock: Clock, code: str) -> None:
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
