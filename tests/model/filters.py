"""Which of the jobs or dead letters that it looks at a call with a filter takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.errors import InvalidParameterValue

from model.queues import Queue, Waiting

__all__ = ["Filter", "Found"]


@dataclass(frozen=True)
class Found:
    """The ids that a call takes, how many of its queue it has looked at, and where to go on."""

    ids: list[int]
    seen: int
    after_id: int | None


@dataclass(frozen=True)
class Filter:
    """All that is given must match; ``since`` and ``before``: when a job is due, or has died."""

    label: str | None = None
    error_contains: str | None = None
    key: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    max_jobs: int | None = None
    after_id: int | None = None

    @classmethod
    def new(
        cls,
        queue: Queue,
        *,
        due_since: datetime | None = None,
        due_before: datetime | None = None,
        died_since: datetime | None = None,
        died_before: datetime | None = None,
        **given: Any,
    ) -> Filter:
        made = cls(since=due_since or died_since, before=due_before or died_before, **given)
        if made.error_contains == "" or (made.key is not None and not queue.ordered):
            raise InvalidParameterValue
        return made

    @property
    def is_given(self) -> bool:
        asked = (self.label, self.error_contains, self.key, self.since, self.before)
        return any(each is not None for each in asked)

    def matches(self, job: Waiting, error: str | None, at: datetime) -> bool:
        return (
            self.label in (None, job.label)
            and self.key in (None, job.ordered_key)
            and (self.since is None or at >= self.since)
            and (self.before is None or at < self.before)
            and (self.error_contains is None or self.error_contains in (error or ""))
        )

    def find(self, rows: Iterable[tuple[int, bool, bool]]) -> Found:
        """Of ids of all queues, with whether each is of this one, and is meant."""
        looked = sorted(row for row in rows if self.after_id is None or row[0] > self.after_id)
        meant = [job_id for job_id, _, is_meant in looked if is_meant][: self.max_jobs]
        within = looked
        if self.max_jobs is not None and len(meant) == self.max_jobs:
            within = [row for row in looked if row[0] <= meant[-1]]
        after_id = within[-1][0] if len(within) < len(looked) else None
        return Found(meant, sum(is_own for _, is_own, _ in within), after_id)
