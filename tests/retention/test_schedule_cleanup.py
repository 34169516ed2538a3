"""What asks pg_cron, where there is none; with it: tests/servers/test_pg_cron.py."""

from __future__ import annotations

from support.pg_cron import STAND_IN
from support.session import Connect, Session, refused, row


def test_without_pg_cron(connection: Session) -> None:
    error = refused("0A000", connection.schedule_cleanup)
    assert "create extension pg_cron" in str(error.diag.message_hint)
    refused("0A000", connection.schedule_cleanup, schedule="0 4 * * *")
    assert connection.unschedule_cleanup() is False


def test_its_schedule(connect: Connect) -> None:
    """As it is given, else every minute; of one job, whatever it was before."""
    connection = connect()
    connection.execute(STAND_IN.read_bytes())
    schedule = "select schedule, command from cron.job"
    for given, expected in (("0 4 * * *", "0 4 * * *"), (None, "* * * * *")):
        connection.schedule_cleanup(schedule=given)
        assert row(connection, schedule) == (expected, "select count(*) from pgq.cleanup()")
    connection.rollback()
