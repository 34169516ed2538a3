"""Schedules: what is enqueued or published again and again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pgq._async._calling import Calling
from pgq.messages import Schedule, ScheduleRun

__all__ = ["Schedules"]


class Schedules(Calling):
    """Schedules, and writing what is due."""

    async def create_schedule(
        self,
        schedule: str,
        *,
        topic: str | None = None,
        queue: str | None = None,
        payload: Any = None,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str | None = None,
        missed: str | None = None,
        starts_at: datetime | None = None,
        partition: int | None = None,
        priority: int | None = None,
        label: str | None = None,
        body: bytes | None = None,
    ) -> Schedule:
        """Create a schedule, or return the one of that name if it has the settings that are given.

        Its ticks are jobs of a `queue` or messages of a `topic`, at the times of `cron`, an
        expression of five fields or a name like '@daily', or `every` so often. `Schedule` says what
        each setting means, and its default. Ticks are written by `run_schedules`.

        Raises AlreadyExists when there is one with other settings than those given; what is not
        given is not compared, so it can be called at each start of a program.
        """
        return await self._row(
            Schedule,
            "create_schedule",
            schedule=schedule,
            topic=topic,
            queue=queue,
            payload=payload,
            key=key,
            headers=headers,
            cron=cron,
            every=every,
            time_zone=time_zone,
            missed=missed,
            starts_at=starts_at,
            partition=partition,
            priority=priority,
            label=label,
            body=body,
        )

    async def alter_schedule(
        self,
        schedule: str,
        *,
        topic: str | None = None,
        queue: str | None = None,
        payload: Any = None,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str | None = None,
        missed: str | None = None,
        starts_at: datetime | None = None,
        partition: int | None = None,
        priority: int | None = None,
        label: str | None = None,
        body: bytes | None = None,
    ) -> Schedule:
        """Change the settings that are given.

        Of `queue` and `topic`, `cron` and `every`, `payload` and `body` the one that is given takes
        the place of the other. When its times change, ticks count from now on: what was due before
        and is not written is left out.
        """
        return await self._row(
            Schedule,
            "alter_schedule",
            schedule=schedule,
            topic=topic,
            queue=queue,
            payload=payload,
            key=key,
            headers=headers,
            cron=cron,
            every=every,
            time_zone=time_zone,
            missed=missed,
            starts_at=starts_at,
            partition=partition,
            priority=priority,
            label=label,
            body=body,
        )

    async def drop_schedule(self, schedule: str) -> None:
        """Drop a schedule; what it has written stays."""
        await self._value(object, "drop_schedule", schedule=schedule)

    async def list_schedules(self, schedule: str | None = None) -> list[Schedule]:
        """One schedule, or all of them by name."""
        return await self._rows(Schedule, "list_schedules", schedule=schedule)

    async def pause_schedule(self, schedule: str) -> Schedule:
        """Let `run_schedules` leave it out until `resume_schedule`."""
        return await self._row(Schedule, "pause_schedule", schedule=schedule)

    async def resume_schedule(self, schedule: str) -> Schedule:
        """End a pause; the ticks that came meanwhile were missed."""
        return await self._row(Schedule, "resume_schedule", schedule=schedule)

    async def next_run(self) -> datetime | None:
        """When `run_schedules` next has a tick to write; None: there is no schedule."""
        due_at: datetime | None = await self._value(datetime, "next_run")
        return due_at

    async def run_schedules(self, max_ticks: int | None = None) -> list[ScheduleRun]:
        """Write what is due of all schedules, at most `max_ticks` (1000), each tick once.

        Call it every minute or more often, from as many programs as you like, and commit soon. A
        schedule whose target is not there or refuses the tick has an `error`; the others go on.
        """
        return await self._rows(ScheduleRun, "run_schedules", max_ticks=max_ticks)

    async def next_ticks(
        self,
        cron: str,
        *,
        time_zone: str | None = None,
        after: datetime | None = None,
        max_ticks: int | None = None,
    ) -> list[datetime]:
        """The next times (10 of them) that a cron expression names, to try it out."""
        return await self._column(
            "tick_at",
            "next_ticks",
            cron=cron,
            time_zone=time_zone,
            after=after,
            max_ticks=max_ticks,
        )
