"""doctor: what a clock that was ahead has left."""

from __future__ import annotations

from datetime import timedelta

from cli.test_doctor import about, clock, dsn, found
from pgq import Client
from support.clock import Clock
from support.command import Run

__all__ = ["clock", "dsn"]


def test_what_a_clock_that_was_ahead_left(pgq: Run, client: Client, clock: Clock) -> None:
    client.admin.create_topic("orders", partitions=1)
    client.admin.create_group("orders", "billing")
    client.publish("orders", 1)
    client.admin.create_queue("mail", lease=timedelta(seconds=30))
    client.admin.create_queue("ticks")
    client.schedules.create_schedule("often", queue="ticks", payload={}, cron="* * * * *")
    client.enqueue("mail", 1)
    client.enqueue("mail", "later", delay=timedelta(days=2))
    clock.advance("1 day")
    client.claim_job("mail")
    client.enqueue_batch("mail", [2, 3])
    client.poll("orders", "billing")
    client.schedules.run_schedules()
    client.heartbeat("w")
    clock.advance("-1 day")
    findings = found(pgq, "clock")
    for what in ("2 jobs were", "1 job leases", "1 group leases", "1 schedules", "1 workers"):
        assert "select * from pgq.repair_clock();" in about(findings, what)["fix"]
    assert len(findings) == 5
    assert client.admin.repair_clock()
    assert found(pgq, "clock") == []
    assert len(client.claim_job("mail", max_jobs=5)) == 2
