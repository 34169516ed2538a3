"""Queues, their settings, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pgq._async._calling import Calling
from pgq.messages import ArchivedJob, DeadLetter, Queue, QueueStats

__all__ = ["Queues"]


class Queues(Calling):
    """Queues, their settings, and what is in them."""

    async def create_queue(
        self,
        queue: str,
        *,
        lease: timedelta | None = None,
        max_attempts: int | None = None,
        delay: timedelta | None = None,
        job_ttl: timedelta | None = None,
        retention: timedelta | None = None,
        backoff: timedelta | None = None,
        backoff_max: timedelta | None = None,
        backoff_jitter: float | None = None,
        archive: bool | None = None,
        notify: bool | None = None,
        idempotency_window: timedelta | None = None,
        unique_until: str | None = None,
        ordered: bool | None = None,
        after_dead_letter: str | None = None,
        max_leased: int | None = None,
        rate_limit: int | None = None,
        rate_interval: timedelta | None = None,
        rate_burst: int | None = None,
        max_unfinished: int | None = None,
        max_leased_per_key: int | None = None,
        max_message_bytes: int | None = None,
        keep_results: bool | None = None,
        on_duplicate: str | None = None,
        debounce_max: timedelta | None = None,
        no_limit: Sequence[str] | None = None,
        restricted: bool | None = None,
    ) -> Queue:
        """Create a queue, or return the one of that name if it has the settings that are given.

        `Queue` says what each setting means, and its default. `no_limit` names what shall have no
        limit: 'max_attempts', 'job_ttl', 'retention', 'max_leased', 'max_leased_per_key',
        'rate_limit', 'max_unfinished', 'debounce_max'.

        Raises AlreadyExists when there is one with other settings than those given; what is not
        given is not compared, so it can be called at each start of a program.
        """
        return await self._row(
            Queue,
            "create_queue",
            queue=queue,
            lease=lease,
            max_attempts=max_attempts,
            delay=delay,
            job_ttl=job_ttl,
            retention=retention,
            backoff=backoff,
            backoff_max=backoff_max,
            backoff_jitter=backoff_jitter,
            archive=archive,
            notify=notify,
            idempotency_window=idempotency_window,
            unique_until=unique_until,
            ordered=ordered,
            after_dead_letter=after_dead_letter,
            max_leased=max_leased,
            rate_limit=rate_limit,
            rate_interval=rate_interval,
            rate_burst=rate_burst,
            max_unfinished=max_unfinished,
            max_leased_per_key=max_leased_per_key,
            max_message_bytes=max_message_bytes,
            keep_results=keep_results,
            on_duplicate=on_duplicate,
            debounce_max=debounce_max,
            no_limit=no_limit,
            restricted=restricted,
        )

    async def alter_queue(
        self,
        queue: str,
        *,
        lease: timedelta | None = None,
        max_attempts: int | None = None,
        delay: timedelta | None = None,
        job_ttl: timedelta | None = None,
        retention: timedelta | None = None,
        backoff: timedelta | None = None,
        backoff_max: timedelta | None = None,
        backoff_jitter: float | None = None,
        archive: bool | None = None,
        notify: bool | None = None,
        idempotency_window: timedelta | None = None,
        unique_until: str | None = None,
        after_dead_letter: str | None = None,
        max_leased: int | None = None,
        rate_limit: int | None = None,
        rate_interval: timedelta | None = None,
        rate_burst: int | None = None,
        max_unfinished: int | None = None,
        max_leased_per_key: int | None = None,
        max_message_bytes: int | None = None,
        keep_results: bool | None = None,
        debounce_max: timedelta | None = None,
        no_limit: Sequence[str] | None = None,
        restricted: bool | None = None,
        end_dependents: bool | None = None,
    ) -> Queue:
        """Change the settings that are given, and lift those limits that `no_limit` names.

        Those are named as for `create_queue`. Jobs that are there keep their times; a new lease
        counts from the next claim on, and a lower `max_leased` takes no job away. `ordered` and
        `on_duplicate` stay. `restricted` closes it to roles without access, see `grant_access`, or
        opens it and removes its grants; `end_dependents` as in `grant_access`.
        """
        return await self._row(
            Queue,
            "alter_queue",
            queue=queue,
            lease=lease,
            max_attempts=max_attempts,
            delay=delay,
            job_ttl=job_ttl,
            retention=retention,
            backoff=backoff,
            backoff_max=backoff_max,
            backoff_jitter=backoff_jitter,
            archive=archive,
            notify=notify,
            idempotency_window=idempotency_window,
            unique_until=unique_until,
            after_dead_letter=after_dead_letter,
            max_leased=max_leased,
            rate_limit=rate_limit,
            rate_interval=rate_interval,
            rate_burst=rate_burst,
            max_unfinished=max_unfinished,
            max_leased_per_key=max_leased_per_key,
            max_message_bytes=max_message_bytes,
            keep_results=keep_results,
            debounce_max=debounce_max,
            no_limit=no_limit,
            restricted=restricted,
            end_dependents=end_dependents,
        )

    async def drop_queue(self, queue: str) -> None:
        """Drop a queue with all its jobs."""
        await self._value(object, "drop_queue", queue=queue)

    async def list_queues(self) -> list[Queue]:
        """All queues, by name."""
        return await self._rows(Queue, "list_queues")

    async def pause_queue(self, queue: str) -> Queue:
        """Let no job of the queue be claimed until `resume_queue`; leases that run go on."""
        return await self._row(Queue, "pause_queue", queue=queue)

    async def resume_queue(self, queue: str) -> Queue:
        """End a pause."""
        return await self._row(Queue, "resume_queue", queue=queue)

    async def queue_stats(self, queue: str | None = None) -> list[QueueStats]:
        """How many jobs are in which state, a row per queue."""
        return await self._view(QueueStats, "queue_stats", queue=queue)

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

    async def fetch_archived_jobs(
        self, queue: str, *, max_jobs: int | None = None
    ) -> list[ArchivedJob]:
        """The archived jobs of a queue that ended last (100), the newest first.

        It reads the end of the archive alone, whatever the archive holds; `archived_jobs` has the
        older ones too.
        """
        return await self._rows(ArchivedJob, "fetch_archived_jobs", queue=queue, max_jobs=max_jobs)

    async def archived_jobs(self, queue: str | None = None) -> list[ArchivedJob]:
        """The jobs that were finished or have expired, until retention removes them."""
        return await self._view(ArchivedJob, "archived_jobs", queue=queue)
