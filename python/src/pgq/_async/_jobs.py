"""The group `jobs`: looking at the jobs of a queue, and calls for many of them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pgq._async._calling import Calling
from pgq.messages import (
    ArchivedJob,
    BulkResult,
    DeadLetter,
    Effect,
    ErrorGroup,
    JobAttempt,
    JobInfo,
)

__all__ = ["Jobs"]


class Jobs(Calling):
    """Look at the jobs of a queue, and act on many of them.

    A filter is what is given of `label`, `error_contains` (a text in the last error; no pattern),
    `key` (in an ordered queue) and two times: all of it must match. A call with a filter looks at
    10,000 jobs at most; call it again with the `after_id` that it returned until that is None.
    `max_jobs` is the most that a call takes. With `dry_run` nothing changes, and `taken` is how
    many there are.
    """

    async def peek_jobs(
        self, queue: str, *, state: str | None = None, max_jobs: int | None = None
    ) -> list[JobInfo]:
        """The unfinished jobs of a queue (the first 100), as claims look at them; claims none.

        `state` is 'ready', 'leased', 'delayed', 'waiting' or 'expired'; None: any of them.
        """
        return await self._rows(JobInfo, "peek_jobs", queue=queue, state=state, max_jobs=max_jobs)

    async def search_jobs(
        self,
        queue: str,
        *,
        state: str | None = None,
        max_jobs: int | None = None,
        key: str | None = None,
        label: str | None = None,
        error_contains: str | None = None,
        due_since: datetime | None = None,
        due_before: datetime | None = None,
    ) -> list[JobInfo]:
        """The unfinished jobs of a queue (100) that match a filter, the newest first.

        Only the newest 100,000 unfinished jobs of all queues are searched.
        """
        return await self._rows(
            JobInfo,
            "search_jobs",
            queue=queue,
            state=state,
            max_jobs=max_jobs,
            key=key,
            label=label,
            error_contains=error_contains,
            due_since=due_since,
            due_before=due_before,
        )

    async def list_errors(self, queue: str, *, max_jobs: int | None = None) -> list[ErrorGroup]:
        """The newest dead letters (100,000), grouped by the last line of their last error."""
        return await self._rows(ErrorGroup, "list_errors", queue=queue, max_jobs=max_jobs)

    async def job_history(self, job_id: int) -> list[JobAttempt]:
        """The attempts of a job that did not succeed, the latest first, 20 at most.

        They are kept as long as the `retention` of the queue, also when the job has ended.
        """
        return await self._rows(JobAttempt, "job_history", job_id=job_id)

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

    async def dead_letters(self, queue: str | None = None) -> list[DeadLetter]:
        """The jobs that were given up, with their last errors."""
        return await self._view(DeadLetter, "dead_letters", queue=queue)

    async def fetch_dead_letters(
        self,
        queue: str,
        *,
        max_jobs: int | None = None,
        after_died_at: datetime | None = None,
        after_job_id: int | None = None,
    ) -> list[DeadLetter]:
        """A page of the dead letters of a queue (100), those that died first before the others.

        For the next page pass `died_at` and `job_id` of the last one of this page.
        """
        return await self._rows(
            DeadLetter,
            "fetch_dead_letters",
            queue=queue,
            max_jobs=max_jobs,
            after_died_at=after_died_at,
            after_job_id=after_job_id,
        )

    async def archived_jobs(self, queue: str | None = None) -> list[ArchivedJob]:
        """The jobs that were finished or have expired, until retention removes them."""
        return await self._view(ArchivedJob, "archived_jobs", queue=queue)

    async def fetch_archived_jobs(
        self, queue: str, *, max_jobs: int | None = None
    ) -> list[ArchivedJob]:
        """The archived jobs of a queue that ended last (100), the newest first.

        It reads the end of the archive alone, whatever the archive holds; `archived_jobs` has the
        older ones too.
        """
        return await self._rows(ArchivedJob, "fetch_archived_jobs", queue=queue, max_jobs=max_jobs)

    async def effects(self, queue: str | None = None) -> list[Effect]:
        """The effects of jobs that are not finished, and their states; see `run_once`."""
        return await self._view(Effect, "effects", queue=queue)

    async def delete_effect(self, job_id: int, lease_token: UUID, effect: str) -> bool:
        """Take back that an effect was begun: it has not happened, and is to be run again.

        Whoever began it may say so, and whoever has the job now; an operator finds the token in
        `effects`. False: it is finished, or was not begun, or another worker has begun it since.
        """
        return await self._value(
            bool, "delete_effect", job_id=job_id, lease_token=lease_token, effect=effect
        )
