"""What asks pg_cron, where there is none; with it: tests/servers/test_pg_cron.py."""

from __future__ import annotations

from support.session import Session, refused


def test_without_pg_cron(connection: Session) -> None:
    error = refused("0A000", connection.schedule_cleanup)
    assert "create extension pg_cron" in str(error.diag.message_hint)
    refused("0A000", connection.schedule_cleanup, schedule="0 4 * * *")
    assert connection.unschedule_cleanup() is False
