"""The model's calls for many unfinished jobs, and for what has become of single ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psycopg.errors import InvalidParameterValue

from model.filters import Filter, Found
from model.queues import Queue, Waiting
from model.workers import Workers, waits
from pgq import BulkResult, JobAttempt, JobResult

__all__ = ["Unfinished"]


@dataclass
class Unfinished(Workers):
    """Jobs that match a filter; results and attempts."""

    def _find_jobs(
        self,
        queue: str,
        meant: Callable[[Waiting], bool],
        all_jobs: bool | None,
        filters: dict[str, Any],
    ) -> tuple[Queue, Found]:
        target = self._queue(queue)
        chosen = Filter.new(target, **filters)
        if chosen.is_given is bool(all_jobs):
            raise InvalidParameterValue
        return target, chosen.find(
            (
                job.job_id,
                each is target,
                each is target
                and meant(job)
                and chosen.matches(job, job.last_error, job.due_at or job.visible_at),
            )
            for each in self.queues.values()
            for job in each.jobs.values()
        )

    def cancel_jobs(
        self,
        got: BulkResult,
        queue: str,
        *,
        all_jobs: bool | None = None,
        leased: bool | None = None,
        dry_run: bool | None = None,
        **filters: Any,
    ) -> None:
        def meant(job: Waiting) -> bool:
            return bool(leased) or job.lease_token is None or job.visible_at <= self.now

        target, found = self._find_jobs(queue, meant, all_jobs, filters)
        assert got == BulkResult(len(found.ids), found.seen, found.after_id)
        if not dry_run:
            gone = [target.jobs[job_id] for job_id in found.ids]
            # those first that wait for others of their key, which would let them go
            for job in sorted(gone, key=lambda job: job.due_at is None):
                self.cancel(target, job)

    def retry_jobs(
        self,
        got: BulkResult,
        queue: str,
        *,
        all_jobs: bool | None = None,
        dry_run: bool | None = None,
        **filters: Any,
    ) -> None:
        def meant(job: Waiting) -> bool:
            return waits(job, self.now)

        target, found = self._find_jobs(queue, meant, all_jobs, filters)
        assert got == BulkResult(len(found.ids), found.seen, found.after_id)
        for job_id in () if dry_run else found.ids:
            target.jobs[job_id].visible_at = self.now

    def retry_job(self, got: bool, job_id: int) -> None:
        found = [
            queue.jobs[job_id]
            for queue in self.queues.values()
            if job_id in queue.jobs and waits(queue.jobs[job_id], self.now)
        ]
        assert got is bool(found)
        for job in found:
            job.visible_at = self.now

    def get_result(self, got: JobResult, job_id: int) -> None:
        assert got == self._result(job_id)

    def _result(self, job_id: int) -> JobResult:
        for queue in self.queues.values():
            job = queue.jobs.get(job_id)
            if job is not None:
                leased = job.lease_token is not None and job.visible_at > self.now
                blocked = "waiting" if job.due_at is None else "blocked"
                return JobResult("leased" if leased else blocked, None, None, None)
            if job_id in queue.dead:
                letter = queue.dead[job_id]
                return JobResult("failed", None, letter.last_error, letter.ended_at)
            for end in queue.events:
                if end.job_id == job_id and end.event not in ("failed", "rejected", "lost"):
                    return JobResult(end.event, end.result, None, end.ended_at)
        return JobResult("gone", None, None, None)

    def job_history(self, got: list[JobAttempt], job_id: int) -> None:
        """The order of attempts that are equal in number and time is left open."""
        expected = [
            JobAttempt(e.attempt, e.event, e.began_at, e.ended_at, e.worker, e.error)
            for queue in self.queues.values()
            for e in queue.events
            if e.job_id == job_id and e.event in ("failed", "rejected", "lost")
        ]
        times = sorted(((e.ended_at, e.attempt) for e in expected), reverse=True)[:20]
        assert [(each.ended_at, each.attempt) for each in got] == times
        assert not Counter(got) - Counter(expected)
