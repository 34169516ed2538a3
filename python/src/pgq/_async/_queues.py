"""Queues, and their settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgq._async._calling import Calling
from pgq.messages import Queue

__all__ = ["Queues"]


class Queues(Calling):
    """Queues, and their settings."""

    async def create_queue(
        self,
        queue: str,
        *,
        lease: timedelta | float | None = None,
        max_attempts: int | None = None,
        delay: timedelta | float | None = None,
        job_ttl: timedelta | None = None,
        retention: timedelta | None = None,
        backoff: timedelta | float | None = None,
        backoff_max: timedelta | float | None = None,
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
        lease: timedelta | float | None = None,
        max_attempts: int | None = None,
        delay: timedelta | float | None = None,
        job_ttl: timedelta | None = None,
        retention: timedelta | None = None,
        backoff: timedelta | float | None = None,
        backoff_max: timedelta | float | None = None,
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
