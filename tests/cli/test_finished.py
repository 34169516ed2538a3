"""pgq jobs --state finished."""

from __future__ import annotations

from pgq import Client
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
