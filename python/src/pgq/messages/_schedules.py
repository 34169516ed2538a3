"""Schedules and their ticks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = [
    "Schedule",
    "ScheduleRun",
]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule and its settings."""

    schedule: str
    topic: str | None
    """The topic that gets a message at each tick; None: it has a queue."""
    queue: str | None
    """The queue that gets a job at each tick; None: it has a topic."""
    payload: Any
    key: str | None
    headers: dict[str, Any] | None
    """They travel beside the header scheduled_at, the time of the tick."""
    cron: str | None
    """Minute, hour, day of month, month, day of week; None: it has an interval."""
    every: timedelta | None
    """An interval of real time, counted from `starts_at`; None: it has a cron expression."""
    time_zone: str | None
    """That of the cron expression: UTC; None: it has an interval."""
    missed: str
    """What becomes of ticks that nobody was there to write: 'skip', 'one' (the last) or 'all'."""
    starts_at: datetime
    """No tick is before: when it was made."""
    partition: int | None
    """The partition of the topic; None: as `publish` chooses."""
    priority: int | None
    """The priority of its jobs: 0; None: it has a topic."""
    label: str | None
    body: bytes | None
    paused: bool
    """While it is paused no tick is written."""
    next_at: datetime
    """The next tick, or the first one that was missed."""
    last_at: datetime | None
    """The last tick that was written; None: none yet."""
    last_error: str | None
    """Why the last try to write a tick failed; None: it did not."""
    created_at: datetime
    updated_at: datetime
    made_by: str | None
    """The role whose access it needs; None: the owner of pgq."""


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """A tick that `run_schedules` wrote, or could not write."""

    schedule: str
    tick_at: datetime
    job_id: int | None
    """The job; None: the tick went to a topic, or nowhere."""
    partition: int | None
    log_offset: int | None
    """Where the message stands; None: the tick went to a queue, or nowhere."""
    error: str | None
    """Why nothing was written; None: it was."""
