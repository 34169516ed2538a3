"""Clients of a fault run that work on queues."""

from __future__ import annotations

import json
import time
from typing import Any

from fault_runs.client import Role

__all__ = ["QUEUES", "WORKERS"]

QUEUES = [
    *("jobs", "brief-jobs", "bulk-jobs", "ordered", "followers", "ticks"),
    # there is more to see of these the sooner they are worked on
    *("swept", "swept", "replaced", "replaced", "postponed"),
]

CLAIMED = "job_id, lease_token, attempt, leased_until, payload, headers, label, enqueued_at"


class Worker(Role):
    """Claims jobs, and ends them with their effect in one transaction, or does otherwise."""

    def step(self) -> None:
        queue = self.rng.choice(QUEUES)
        lease = self.rng.choice([0.3, 2.0, 2.0])
        unflushed = self.rng.random() < 0.3
        about = {"queue": queue, "lease": lease, "unflushed": unflushed}
        level = self.rng.choice(["read committed", "read committed", "repeatable read"])
        with self.client.unit("claim", level=level, **about) as told:
            if unflushed:
                self.client.ask_nothing("set local synchronous_commit = off")
            jobs = self.client.ask(
                f"select {CLAIMED} from pgq.claim_job(%s, %s, %s * interval '1 second')",
                [queue, self.rng.choice([1, 1, 5, 20]), lease],
            )
            told["jobs"] = self.note_claimed(queue, lease, jobs)
        # other queues may have some
        if not jobs and self.rng.random() * len(QUEUES) < 1:
            self.rest()
        if self.rng.random() < 0.05:
            time.sleep(lease)
        while jobs:
            job, *jobs = jobs
            if self.rng.random() < 0.1 and not jobs:
                self.finish_and_claim(queue, lease, job)
                continue
            self.end(queue, job)

    def end(self, queue: str, job: Any) -> None:
        """Finish a job, or give it back."""
        job_id, token, _, _, payload, headers, *_ = job
        what = self.rng.choice(
            ["ack"] * 9
            + ["archive_job"] * 3
            + ["nack"] * (8 if queue == "swept" else 2)
            + ["release_job", "lose"]
        )
        if what == "lose":
            return
        about = {"queue": queue, "job_id": job_id, "token": token, "way": what}
        if what in ("nack", "release_job"):
            error = f"{self.rng.choice(['odd', 'even'])} {token}" if what == "nack" else None
            with self.client.unit("end", error=error, **about) as told:
                # a release without a delay, or with one, which a job that expires may refuse
                snoozes = queue != "brief-jobs" and self.rng.random() < 0.5
                delay = ", '0.1 seconds'" if what == "nack" or snoozes else ""
                [(told["held"],)] = self.client.ask(
                    f"select pgq.{what}(%s, %s{delay}{', error => %s' if error else ''})",
                    [job_id, token, *([error] if error else [])],
                )
            return
        result = {"of": job_id, "by": str(token)} if what == "archive_job" else None
        level = self.rng.choice(["read committed", "read committed", "serializable"])
        with self.client.unit("end", level=level, result=result, **about) as told:
            [(held,)] = self.client.ask(
                f"select pgq.{what}(%s, %s{', result => %s' if result else ''})",
                [job_id, token, *([json.dumps(result)] if result else [])],
            )
            if held:
                self.note_done(queue, job_id, payload, headers)
            told["held"] = held

    def finish_and_claim(self, queue: str, lease: float, job: Any) -> None:
        """End one job and begin the next in one call."""
        job_id, token, _, _, payload, headers, *_ = job
        about = {"queue": queue, "job_id": job_id, "token": token, "way": "finish_and_claim"}
        with self.client.unit("end", lease=lease, **about) as told:
            jobs = self.client.ask(
                f"select {CLAIMED} from pgq.finish_and_claim(%s, %s, %s, 1,"
                " %s * interval '1 second')",
                [queue, [job_id], token, lease],
            )
            self.note_done(queue, job_id, payload, headers)
            told["held"] = True
            told["jobs"] = self.note_claimed(queue, lease, jobs)
        for each in jobs:
            self.end(queue, each)

    def note_claimed(self, queue: str, lease: float, jobs: list[Any]) -> list[dict[str, Any]]:
        with self.client.connection.cursor() as cursor:
            cursor.executemany(
                b"insert into attempt (queue, job_id, token, attempt, name, label, age)"
                b" values (%s, %s, %s, %s, %s, %s, %s)",
                [
                    [
                        *(queue, job_id, token, attempt, payload.get("name"), label),
                        (until - enqueued_at).total_seconds() - lease,
                    ]
                    for job_id, token, attempt, until, payload, _, label, enqueued_at in jobs
                ],
            )
        return [claimed(job) for job in jobs]

    def note_done(self, queue: str, job_id: int, payload: Any, headers: Any) -> None:
        name = payload["name"] if queue != "ticks" else headers["scheduled_at"]
        self.client.connection.execute(
            b"insert into done (queue, job_id, name) values (%s, %s, %s)", [queue, job_id, name]
        )


def claimed(job: Any) -> dict[str, Any]:
    job_id, token, attempt, until, payload, *_ = job
    return {
        "job_id": job_id,
        "token": token,
        "attempt": attempt,
        "until": until.timestamp(),
        "name": payload.get("name"),
    }


WORKERS = {"worker": Worker}
