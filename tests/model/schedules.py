"""The model's schedules: when their ticks are, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from psycopg.errors import InvalidParameterValue, NullValueNotAllowed

from model.content import Content, check_existing
from model.crons import CRONS, ZONES, next_tick
from model.subscriptions import Subscriptions
from pgq import EnqueueResult, PublishResult, ScheduleRun, UnknownSchedule

__all__ = ["SHOWN", "Scheduled", "Schedules"]

LATE = timedelta(minutes=5)
AGAIN = timedelta(minutes=1)

SHOWN = (
    *("queue", "topic", "missed", "every", "cron", "time_zone", "starts_at"),
    *("next_at", "last_at", "paused"),
)
"""What the database tells of a schedule."""


@dataclass
class Scheduled:
    """A schedule with an interval or a cron expression; ``failed``: its last tick could not be
    written."""

    queue: str | None
    topic: str | None
    content: Content
    missed: str
    every: timedelta | None
    cron: str | None
    time_zone: str | None
    starts_at: datetime
    next_at: datetime
    due_at: datetime
    target: Any
    last_at: datetime | None = None
    failed: bool = False
    paused: bool = False

    def shown(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in SHOWN)

    def follow(self, moment: datetime) -> datetime:
        """The first tick after a moment."""
        if self.every is not None:
            passed = (moment - self.starts_at) // self.every
            return self.starts_at + (passed + 1) * self.every
        assert self.cron is not None
        assert self.time_zone is not None
        return next_tick(self.cron, self.time_zone, moment)

    def ticks(self, now: datetime, most: int) -> tuple[list[datetime], datetime]:
        """Those to be written, and the next one after them."""
        due = [self.next_at]
        while due[-1] <= now:
            due.append(self.follow(due[-1]))
        following = due.pop()
        if self.missed == "all":
            return due[:most], [*due, following][min(most, len(due))]
        late = self.missed == "skip" and now - due[-1] > LATE
        return [] if late else due[-1:], following


def check_times(every: timedelta | None, cron: str | None, time_zone: str | None) -> None:
    """Refuses times that a schedule cannot have."""
    if every is None and cron is None:
        raise NullValueNotAllowed
    if every is not None and (cron is not None or time_zone is not None):
        raise InvalidParameterValue
    if every is None and (cron not in CRONS or time_zone not in ZONES):
        raise InvalidParameterValue


@dataclass
class Schedules(Subscriptions):
    """Their settings, and running them."""

    schedules: dict[str, Scheduled] = field(default_factory=dict)

    def _schedule(self, schedule: str) -> Scheduled:
        if schedule not in self.schedules:
            raise UnknownSchedule
        return self.schedules[schedule]

    def _check_schedule(self, got: Any, schedule: str) -> None:
        """What is answered is the schedule as it is now."""
        expected = self.schedules[schedule].shown()
        assert tuple(getattr(got, name) for name in SHOWN) == expected
        assert (got.last_error is not None) is self.schedules[schedule].failed

    def create_schedule(
        self,
        got: Any,
        schedule: str,
        content: Content,
        *,
        missed: str | None,
        place: Mapping[str, str],
        every: timedelta | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
    ) -> None:
        queue, topic = place.get("queue"), place.get("topic")
        if schedule in self.schedules:
            times = {"every": every, "cron": cron, "time_zone": time_zone}
            given = {"queue": queue, "topic": topic, "missed": missed, "content": content}
            check_existing(self.schedules[schedule], {**given, **times}, ())
        else:
            if cron is not None:
                time_zone = time_zone or "UTC"
            check_times(every, cron, time_zone)
            if queue is not None:
                self._queue(queue)
            if topic is not None:
                self._topic(topic)
            made = Scheduled(
                queue,
                topic,
                content,
                missed or "one",
                every,
                cron,
                time_zone,
                starts_at=self.now,
                next_at=self.now,
                due_at=self.now,
                target=self._home(queue, topic),
            )
            made.next_at = made.due_at = made.follow(self.now)
            self.schedules[schedule] = made
        self._check_schedule(got, schedule)

    def _home(self, queue: str | None, topic: str | None) -> Any:
        return self.topics.get(topic) if queue is None else self.queues.get(queue)

    def alter_schedule(
        self,
        got: Any,
        schedule: str,
        *,
        missed: str | None,
        every: timedelta | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
    ) -> None:
        """Times that are the same do not count from now on: what is due stays so."""
        altered = self._schedule(schedule)
        before = altered.every, altered.cron, altered.time_zone
        if every is None and cron is None:
            every, cron = altered.every, altered.cron
        if cron is not None:
            time_zone = time_zone or altered.time_zone or "UTC"
        check_times(every, cron, time_zone)
        altered.missed = missed or altered.missed
        altered.every, altered.cron, altered.time_zone = every, cron, time_zone
        if (every, cron, time_zone) != before:
            altered.next_at = altered.follow(self.now)
        altered.due_at = altered.next_at
        self._check_schedule(got, schedule)

    def drop_schedule(self, got: Any, schedule: str) -> None:
        self._schedule(schedule)
        del self.schedules[schedule]

    def pause_schedule(self, got: Any, schedule: str) -> None:
        self._schedule(schedule).paused = True
        self._check_schedule(got, schedule)

    def resume_schedule(self, got: Any, schedule: str) -> None:
        self._schedule(schedule).paused = False
        self._check_schedule(got, schedule)

    def run_schedules(self, got: list[ScheduleRun], max_ticks: int | None = None) -> None:
        """What is written is enqueued and published in the order of the answer."""
        due = {
            name: each
            for name, each in self.schedules.items()
            if each.due_at <= self.now and not each.paused
        }
        most = (1000 if max_ticks is None else max_ticks) // max(len(due), 1)
        found: dict[str, list[ScheduleRun]] = {name: [] for name in due}
        for run in got:
            found[run.schedule].append(run)
        for name, each in due.items():
            ticks, following = each.ticks(self.now, most)
            # a new one under the name of the old one gets nothing
            if self._home(each.queue, each.topic) is not each.target:
                [run] = found[name]
                assert (run.tick_at, run.job_id, run.log_offset) == (each.next_at, None, None)
                assert run.error is not None
                each.failed, each.due_at = True, self.now + AGAIN
                continue
            assert [run.tick_at for run in found[name]] == ticks
            assert all(run.error is None for run in found[name])
            each.next_at, each.due_at = following, max(following, self.now)
            if ticks:
                each.last_at, each.failed = ticks[-1], False
        for run in got:
            if run.error is None:
                self._write(run, due[run.schedule])

    def _write(self, run: ScheduleRun, schedule: Scheduled) -> None:
        own = schedule.content.headers or {}
        content = replace(
            schedule.content, headers={**own, "scheduled_at": run.tick_at.isoformat()}
        )
        if schedule.queue is not None:
            assert run.job_id is not None
            added = EnqueueResult(run.job_id, duplicate=False)
            none = dict.fromkeys(("label", "unique_key", "priority", "delay", "max_attempts"))
            self.enqueue(added, schedule.queue, content, **none)
        else:
            assert schedule.topic is not None
            assert run.partition is not None
            stored = PublishResult(run.partition, run.log_offset, duplicate=False)
            self.publish(stored, schedule.topic, content, partition=None)
