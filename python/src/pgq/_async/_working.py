"""The jobs of a queue, from enqueue to their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pgq._async._calling import Calling
from pgq.messages import EnqueueResult, Job, JobInfo

__all__ = ["Working"]


class Working(Calling):
    """The jobs of a queue, one or those of one claim."""

    async def enqueue(
        self,
        queue: str,
        payload: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        delay: timedelta | float | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
        label: str | None = None,
        idempotency_key: str | None = None,
        unique_key: str | None = None,
        max_attempts: int | None = None,
        body: bytes | None = None,
    ) -> EnqueueResult:
        """Add a job and return its id.

        It can be claimed when `delay` has passed, or from `run_at` on. Priorities go from 0 (first,
        and the default) to 9; a claim may ask for one `label` only. `key` and `headers` travel with
        the job. `max_attempts` is this job's, instead of the queue's.

        With an `idempotency_key` that was given before, within the queue's window, nothing is
        added: the result has the id of the first job, and `duplicate` is True. Of one `unique_key`
        a queue has one unfinished job: while it is there nothing is added either, and the result
        has its id. `Queue.unique_until` says what counts.
        """
        return await self._row(
            EnqueueResult,
            "enqueue",
            queue=queue,
            payload=payload,
            key=key,
            headers=headers,
            delay=delay,
            run_at=run_at,
            priority=priority,
            label=label,
            idempotency_key=idempotency_key,
            unique_key=unique_key,
            max_attempts=max_attempts,
            body=body,
        )

    async def enqueue_batch(
        self,
        queue: str,
        payloads: Sequence[Any] | None = None,
        *,
        keys: Sequence[str | None] | None = None,
        headers: Sequence[Mapping[str, Any] | None] | None = None,
        delay: timedelta | float | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
        labels: Sequence[str | None] | None = None,
        idempotency_keys: Sequence[str | None] | None = None,
        unique_keys: Sequence[str | None] | None = None,
        max_attempts: int | None = None,
        bodies: Sequence[bytes] | None = None,
    ) -> list[EnqueueResult]:
        """Add many jobs, all or none, and return their ids in the order of the lists.

        Lists given beside each other have the same length; `delay`, `run_at`, `priority` and
        `max_attempts` are those of all. What is a duplicate by its idempotency key or its unique
        key is not added: its result says `duplicate` and has the id of the job that it repeats.
        """
        return await self._rows(
            EnqueueResult,
            "enqueue_batch",
            queue=queue,
            payloads=payloads,
            keys=keys,
            headers=headers,
            delay=delay,
            run_at=run_at,
            priority=priority,
            labels=labels,
            idempotency_keys=idempotency_keys,
            unique_keys=unique_keys,
            max_attempts=max_attempts,
            bodies=bodies,
        )

    async def claim_job(
        self,
        queue: str,
        *,
        max_jobs: int | None = None,
        lease: timedelta | float | None = None,
        label: str | None = None,
        max_bytes: int | None = None,
        prefetch: bool | None = None,
    ) -> list[Job]:
        """Lease the next jobs; an empty list: nothing to do.

        Commit, so that the lease counts, and work. Then `ack`, `archive_job` or `nack` with the
        lease token; a job whose worker does none of these before the lease ends can be claimed
        again, and after the queue's `max_attempts` it becomes a dead letter.

        Several jobs have at most `max_bytes` of content together (64 MiB); where this has left some
        out, they have `cut_short`.

        With `prefetch` only the first begins now, and one that has not begun when its worker is
        lost loses no attempt. Name a job in `begun` of `ack_batch` or `extend_lease_batch` when it
        begins; at its last attempt, before.
        """
        return await self._rows(
            Job,
            "claim_job",
            queue=queue,
            max_jobs=max_jobs,
            lease=lease,
            label=label,
            max_bytes=max_bytes,
            prefetch=prefetch,
        )

    async def ack(self, job_id: int, lease_token: UUID) -> bool:
        """Finish a job. False: the lease was lost, or the job is finished already.

        False changes nothing. A worker that writes its results in the same transaction rolls back
        then, and so works exactly once.
        """
        return await self._value(bool, "ack", job_id=job_id, lease_token=lease_token)

    async def ack_batch(
        self, job_ids: Sequence[int], lease_token: UUID, *, begun: Sequence[int] | None = None
    ) -> list[int]:
        """Finish jobs of one claim; returns the ids of those it finished.

        `begun` names prefetched jobs that begin now; their ids are returned too, unless their lease
        has ended.
        """
        return await self._column(
            "job_id", "ack_batch", job_ids=job_ids, lease_token=lease_token, begun=begun
        )

    async def finish_and_claim(
        self,
        queue: str,
        *,
        job_ids: Sequence[int] | None = None,
        lease_token: UUID | None = None,
        max_jobs: int | None = None,
        lease: timedelta | float | None = None,
        label: str | None = None,
        max_bytes: int | None = None,
        prefetch: bool | None = None,
    ) -> list[Job]:
        """Finish the jobs of the last claim and lease the next ones, in one transaction.

        Without `job_ids` it only claims, with `max_jobs=0` it only finishes. The jobs may be of
        another queue. LeaseLost: one of them is not leased under that token any more; then nothing
        was finished or claimed.
        """
        return await self._rows(
            Job,
            "finish_and_claim",
            queue=queue,
            job_ids=job_ids,
            lease_token=lease_token,
            max_jobs=max_jobs,
            lease=lease,
            label=label,
            max_bytes=max_bytes,
            prefetch=prefetch,
        )

    async def nack(
        self,
        job_id: int,
        lease_token: UUID,
        *,
        delay: timedelta | float | None = None,
        error: str | None = None,
        worker: str | None = None,
        began_at: datetime | None = None,
    ) -> bool:
        """Give a job back as failed; it returns after `delay`, or after the queue's backoff.

        After the last attempt it becomes a dead letter, with `error` as its last error. `worker`
        and `began_at` are for `job_history`. False: the lease was lost, or the job is finished.
        """
        return await self._value(
            bool,
            "nack",
            job_id=job_id,
            lease_token=lease_token,
            delay=delay,
            error=self._storable(error),
            worker=worker,
            began_at=began_at,
        )

    async def nack_batch(
        self,
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        delay: timedelta | float | None = None,
        error: str | None = None,
        worker: str | None = None,
        began_at: datetime | None = None,
    ) -> list[int]:
        """Give jobs of one claim back; returns the ids of those it gave back."""
        return await self._column(
            "job_id",
            "nack_batch",
            job_ids=job_ids,
            lease_token=lease_token,
            delay=delay,
            error=self._storable(error),
            worker=worker,
            began_at=began_at,
        )

    async def release_job(
        self,
        job_id: int,
        lease_token: UUID,
        *,
        delay: timedelta | float | None = None,
        error: str | None = None,
    ) -> bool:
        """Give a job back unused: the attempt does not count; `error` becomes its last error.

        Without `delay` it is due at once. With one it is snoozed, which `get_job` counts; a delay
        that reaches its expiry is refused with 22023. In an ordered queue the other jobs of its key
        wait meanwhile. False: the lease was lost, or the job is finished already.
        """
        told: dict[str, Any] = {"delay": delay, "error": self._storable(error)}
        return await self._value(
            bool, "release_job", job_id=job_id, lease_token=lease_token, **told
        )

    async def release_job_batch(self, job_ids: Sequence[int], lease_token: UUID) -> list[int]:
        """Give jobs of one claim back unused; returns the ids of those it gave back."""
        return await self._column(
            "job_id", "release_job_batch", job_ids=job_ids, lease_token=lease_token
        )

    async def reject_job(
        self,
        job_id: int,
        lease_token: UUID,
        *,
        error: str | None = None,
        worker: str | None = None,
        began_at: datetime | None = None,
    ) -> bool:
        """Make a job a dead letter now, with `error` as its last error.

        For one that no attempt can do, whatever attempts it has left. False: the lease was lost, or
        the job is finished already.
        """
        return await self._value(
            bool,
            "reject_job",
            job_id=job_id,
            lease_token=lease_token,
            error=self._storable(error),
            worker=worker,
            began_at=began_at,
        )

    async def cancel_job(self, job_id: int, *, leased: bool | None = None) -> bool:
        """Cancel a job that is not finished.

        Nobody gets it any more. A worker that has it gets False from its next `extend_lease`,
        `ack`, `nack` or `archive_job`; with ``leased=False`` a job that a worker has stays. It is
        noted in the archive if the queue has one. False: there is no such job, or it stays, or it
        is finished, or a dead letter.
        """
        return await self._value(bool, "cancel_job", job_id=job_id, leased=leased)

    async def retry_job(self, job_id: int) -> bool:
        """Make a job due now that waits for a retry, its delay or its `run_at`.

        Its attempts stay as they are. False, and nothing changed: it is due already, leased,
        blocked by another job of its key, expired, ended, or a dead letter (see `redrive`).
        """
        return await self._value(bool, "retry_job", job_id=job_id)

    async def set_progress(self, job_id: int, lease_token: UUID, progress: Any = None) -> bool:
        """Store how far a leased job has come, for `get_job` to show.

        `progress` is any JSON value of up to 16 KiB, and replaces the one before; None: none. It
        stays when the job is tried again. Each call writes a row: do not call it for each item.
        False: the lease was lost, or the job is finished already.
        """
        return await self._value(
            bool, "set_progress", job_id=job_id, lease_token=lease_token, progress=progress
        )

    async def get_job(self, job_id: int) -> JobInfo | None:
        """A job that is not finished, or a dead letter, with its content; None: there is none.

        Finished ones are in `archived_jobs`.
        """
        return await self._row_or_none(JobInfo, "get_job", job_id=job_id)

    async def archive_job(
        self,
        job_id: int,
        lease_token: UUID,
        *,
        outcome: str | None = None,
        result: Any = None,
    ) -> bool:
        """Finish a job with an outcome and a result (any JSON value) in the archive.

        It is archived whatever the queue's setting; `get_result` knows the result too where the
        queue has `keep_results`. False: the lease was lost, or the job is
        finished already.
        """
        return await self._value(
            bool,
            "archive_job",
            job_id=job_id,
            lease_token=lease_token,
            outcome=outcome,
            result=result,
        )

    async def archive_job_batch(
        self,
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        outcome: str | None = None,
        result: Any = None,
    ) -> list[int]:
        """Archive jobs of one claim; returns the ids of those it archived."""
        return await self._column(
            "job_id",
            "archive_job_batch",
            job_ids=job_ids,
            lease_token=lease_token,
            outcome=outcome,
            result=result,
        )

    async def extend_lease(
        self, job_id: int, lease_token: UUID, *, lease: timedelta | float | None = None
    ) -> bool:
        """Let a job's lease last for `lease` (the queue's) from now; it is never shortened.

        False: that lease has ended, stop working on the job.
        """
        return await self._value(
            bool, "extend_lease", job_id=job_id, lease_token=lease_token, lease=lease
        )

    async def extend_lease_batch(
        self,
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        lease: timedelta | float | None = None,
        begun: Sequence[int] | None = None,
    ) -> list[int]:
        """Extend the leases of jobs of one claim; returns the ids of those it extended.

        `begun` names those that were prefetched and have begun.
        """
        return await self._column(
            "job_id",
            "extend_lease_batch",
            job_ids=job_ids,
            lease_token=lease_token,
            lease=lease,
            begun=begun,
        )

    async def next_due(self, queue: str, *, label: str | None = None) -> datetime | None:
        """When a claim of the queue may next find a job, if nothing is added until then.

        A time in the past: something holds jobs back that are due, look again after a while. None:
        there is no job, or the queue is paused.
        """
        due_at: datetime | None = await self._value(datetime, "next_due", queue=queue, label=label)
        return due_at
