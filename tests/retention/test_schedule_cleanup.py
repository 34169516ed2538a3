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


def test_who_may(connection: Session) -> None:
    """Housekeeping is of all topics and queues: EXECUTE is not enough, nor admin of the topics."""
    connection.execute("create role pgq_test_keeper")
    try:
        connection.execute("grant usage on schema pgq to pgq_test_keeper")
        connection.execute("grant execute on all functions in schema pgq to pgq_test_keeper")
        for code, grant in (
            ("42501", {}),
            ("42501", {"topic": "*"}),
            ("0A000", {"queue": "*"}),
        ):
            if grant:
                connection.grant_access(role="pgq_test_keeper", access="admin", **grant)
            connection.execute("set role pgq_test_keeper")
            refused(code, connection.schedule_cleanup)
            if code == "42501":
                refused(code, connection.unschedule_cleanup)
            else:
                assert connection.unschedule_cleanup() is False
            connection.execute("reset role")
    finally:
        connection.execute("drop owned by pgq_test_keeper")
        connection.execute("drop role pgq_test_keeper")
