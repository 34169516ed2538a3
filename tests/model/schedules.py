"""The model's schedules: when their ticks are, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from model.content import Content, check_existing
from model.subscriptions import Subscriptions
from pgq import EnqueueResult, PublishResult, ScheduleRun, UnknownSchedule

__all__ = ["Scheduled", "Schedules"]

LATE = timedelta(minutes=5)
AGAIN = timedelta(minutes=1)


@dataclass
class Scheduled:
    """A schedule with an interval; ``failed``: its last tick could not be written."""

    queue: str | None
    topic: str | None
    content: Content
    every: timedelta
    missed: str
    next_at: datetime
    due_at: datetime
    last_at: datetime | None = None
    failed: bool = False
    paused: bool = False

    def ticks(self, now: datetime, most: int) -> tuple[list[datetime], datetime]:
        """Those to be written, and the next one after them."""
        number = (now - self.next_at) // self.every + 1
        due = [self.next_at + place * self.every for place in range(number)]
        if self.missed == "all":
            return due[:most], self.next_at + len(due[:most]) * self.every
        late = self.missed == "skip" and now - due[-1] > LATE
        return [] if late else due[-1:], due[-1] + self.every


@dataclass
class Schedules(Subscriptions):
    """Their settings, and running them."""

    schedules: dict[str, Scheduled] = field(default_factory=dict)

    def _schedule(self, schedule: str) -> Scheduled:
        if schedule not in self.schedules:
            raise UnknownSchedule
        return self.schedules[schedule]

    def create_schedule(
        self,
        got: Any,
        schedule: str,
        content: Content,
        *,
        every: timedelta,
        missed: str | None,
        place: Mapping[str, str],
    ) -> None:
        queue, topic = place.get("queue"), place.get("topic")
        if schedule in self.schedules:
            given = {"queue": queue, "topic": topic, "every": every, "missed": missed}
            check_existing(self.schedules[schedule], {**given, "content": content}, ())
        else:
            if queue is not None:
                self._queue(queue)
            if topic is not None:
                self._topic(topic)
            first = self.now + every
            self.schedules[schedule] = Scheduled(
                queue, topic, content, every, missed or "one", first, first
            )
        made = self.schedules[schedule]
        assert (got.next_at, got.missed, got.every) == (made.next_at, made.missed, made.every)

    def alter_schedule(
        self, got: Any, schedule: str, *, every: timedelta | None, missed: str | None
    ) -> None:
        altered = self._schedule(schedule)
        altered.missed = missed or altered.missed
        if every is not None and every != altered.every:
            altered.every = every
            altered.next_at = got.starts_at + ((self.now - got.starts_at) // every + 1) * every
        altered.due_at = altered.next_at
        assert (got.next_at, got.missed, got.every) == (
            altered.next_at,
            altered.missed,
            altered.every,
        )

    def drop_schedule(self, got: Any, schedule: str) -> None:
        self._schedule(schedule)
        del self.schedules[schedule]

    def pause_schedule(self, got: Any, schedule: str) -> None:
        self._schedule(schedule).paused = True

    def resume_schedule(self, got: Any, schedule: str) -> None:
        self._schedule(schedule).paused = False

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
            gone = each.queue not in self.queues and each.topic not in self.topics
            if gone and ticks:
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
