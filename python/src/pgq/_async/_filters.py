"""What is done with many jobs of a queue, those that match a filter."""

from __future__ import annotations

from datetime import datetime

from pgq._async._calling import Calling
from pgq.messages import BulkResult

__all__ = ["Filters"]


class Filters(Calling):
    """Calls for many jobs of a queue.

    A filter is what is given of `label`, `error_contains` (a text in the last error; no pattern),
    `key` (in an ordered queue) and two times: all of it must match. A call with a filter looks at
    10,000 jobs at most; call it again with the `after_id` that it returned until that is None.
    `max_jobs` is the most that a call takes. With `dry_run` nothing changes, and `taken` is how
    many there are.
    """

    async def cancel_jobs(
        self,
        queue: str,
        *,
        all_jobs: bool | None = None,
        max_jobs: int | None = None,
        key: str | None = None,
        label: str | None = None,
        error_contains: str | None = None,
        due_since: datetime | None = None,
        due_before: datetime | None = None,
        leased: bool | None = None,
        after_id: int | None = None,
        dry_run: bool | None = None,
    ) -> BulkResult:
        """Cancel the unfinished jobs that match a filter, or all, as `cancel_job` does each.

        Those that a worker has stay, but with ``leased=True``. `due_since` and `due_before`: due,
        or leased until, at a time in this range. Pass a filter, or ``all_jobs=True``.
        """
        return await self._row(
            BulkResult,
            "cancel_jobs",
            queue=queue,
            all_jobs=all_jobs,
            max_jobs=max_jobs,
            key=key,
            label=label,
            error_contains=error_contains,
            due_since=due_since,
            due_before=due_before,
            leased=leased,
            after_id=after_id,
            dry_run=dry_run,
        )

    async def retry_jobs(
        self,
        queue: str,
        *,
        all_jobs: bool | None = None,
        max_jobs: int | None = None,
        key: str | None = None,
        label: str | None = None,
        error_contains: str | None = None,
        due_since: datetime | None = None,
        due_before: datetime | None = None,
        after_id: int | None = None,
        dry_run: bool | None = None,
    ) -> BulkResult:
        """Make the waiting jobs that match a filter, or all, due now, as `retry_job` does each.

        `due_since` and `due_before`: due at a time in this range. Pass a filter, or
        ``all_jobs=True``.
        """
        return await self._row(
            BulkResult,
            "retry_jobs",
            queue=queue,
            all_jobs=all_jobs,
            max_jobs=max_jobs,
            key=key,
            label=label,
            error_contains=error_contains,
            due_since=due_since,
            due_before=due_before,
            after_id=after_id,
            dry_run=dry_run,
        )

    async def redrive(
        self,
        queue: str,
        *,
        job_id: int | None = None,
        all_jobs: bool | None = None,
        max_jobs: int | None = None,
        key: str | None = None,
        label: str | None = None,
        error_contains: str | None = None,
        died_since: datetime | None = None,
        died_before: datetime | None = None,
        per_second: float | None = None,
        after_id: int | None = None,
        dry_run: bool | None = None,
    ) -> BulkResult:
        """Put one dead letter back into its queue, those that match a filter, or all of them.

        Pass its `job_id`, a filter, or ``all_jobs=True``, of which `max_jobs` takes those that died
        first. They are due at once, or so many `per_second` from now on, and have all their
        attempts and their whole time to live again. A letter whose unique key another job has stays
        one, and is not in `taken`.
        """
        return await self._row(
            BulkResult,
            "redrive",
            queue=queue,
            job_id=job_id,
            all_jobs=all_jobs,
            max_jobs=max_jobs,
            key=key,
            label=label,
            error_contains=error_contains,
            died_since=died_since,
            died_before=died_before,
            per_second=per_second,
            after_id=after_id,
            dry_run=dry_run,
        )

    async def purge_queue(
        self,
        queue: str,
        *,
        dead_only: bool | None = None,
        job_id: int | None = None,
        all_jobs: bool | None = None,
        max_jobs: int | None = None,
        key: str | None = None,
        label: str | None = None,
        error_contains: str | None = None,
        died_since: datetime | None = None,
        died_before: datetime | None = None,
        after_id: int | None = None,
        dry_run: bool | None = None,
    ) -> BulkResult:
        """Remove dead letters of a queue, or all its unfinished jobs.

        Pass ``dead_only=True`` (all dead letters), a filter (some of them), `job_id` (this one), or
        ``all_jobs=True``, which takes dead letters and leased jobs too: a worker that has one gets
        False from `ack`. Archived jobs stay.
        """
        return await self._row(
            BulkResult,
            "purge_queue",
            queue=queue,
            dead_only=dead_only,
            job_id=job_id,
            all_jobs=all_jobs,
            max_jobs=max_jobs,
            key=key,
            label=label,
            error_contains=error_contains,
            died_since=died_since,
            died_before=died_before,
            after_id=after_id,
            dry_run=dry_run,
        )
