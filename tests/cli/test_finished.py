"""Jobs that have ended, on the command line."""

from __future__ import annotations

import re
from datetime import timedelta

import psycopg
import pytest

from pgq import Client
from support.clock import Clock
from support.command import Run


def test_a_list_of_finished_jobs(pgq: Run, client: Client) -> None:
    """The latest first."""
    client.admin.create_queue("done")
    for number in range(4):
        client.enqueue("done", number, label=("news", "bill")[number % 2])
        [job] = client.claim_job("done")
        client.archive_job(job.job_id, job.lease_token, outcome="sent", result=number * 10)
    rows = pgq("jobs", "done", "--state", "finished", "--json").json
    assert [(row["payload"], row["result"]) for row in rows] == [(3, 30), (2, 20), (1, 10), (0, 0)]
    only = pgq("jobs", "done", "--state", "finished", "--label", "bill", "-n", "1", "--json").json
    assert [row["payload"] for row in only] == [3]
    assert "sent" in pgq("jobs", "done", "--state", "finished").out


def test_a_job_in_the_archive_alone(
    pgq: Run, dsn: str, client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.admin.create_queue("calls", lease=timedelta(hours=1))
    done = client.enqueue("calls", "a").job_id
    client.claim_job("calls")
    clock.advance(timedelta(hours=2))
    [job] = client.claim_job("calls")
    client.archive_job(done, job.lease_token, outcome="sent", result=7)
    cancelled = client.enqueue("calls", "b").job_id
    client.cancel_job(cancelled)
    found = pgq("job", str(done), "--json").json
    facts = ("state", "outcome", "queue", "payload", "result", "attempt")
    assert [found[name] for name in facts] == ["finished", "sent", "calls", "a", 7, 2]
    assert [(one["outcome"], one["worker"]) for one in found["history"]] == [("lost", None)]
    assert re.search(r"^ *1 +lost .* unknown *$", pgq("job", str(done)).out, re.M)
    found = pgq("job", str(cancelled), "--json").json
    assert [found[name] for name in facts[:4]] == ["cancelled", "cancelled", "calls", "b"]
    # a look that takes too long: here it waits for a lock
    monkeypatch.setattr("pgq.cli._job.PATIENCE", 100)
    with psycopg.connect(dsn) as other:
        other.execute("lock table pgq.job_archive in access exclusive mode")
        told = pgq("job", str(done))
    assert "the archive is too large to look through it" in told.err
    assert "state   gone" in told.out
