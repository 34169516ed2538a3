"""Cleaning up."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from pgq import CleanupAction, Client
from support.clock import Clock


def test_cleanup(client: Client, clock: Clock) -> None:
    client.admin.create_queue("mail", job_ttl=timedelta(minutes=1))
    client.enqueue("mail", {})
    clock.advance("1 day")
    assert CleanupAction("jobs expired", "mail", 1) in client.admin.cleanup()
    assert client.claim_job("mail") == []
    (archived,) = client.jobs.archived_jobs("mail")
    assert archived.outcome == "expired"


def test_pg_cron_is_asked_for(client: Client) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        client.admin.schedule_cleanup("0 4 * * *")
    assert client.admin.unschedule_cleanup() is False
