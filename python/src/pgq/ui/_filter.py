"""Which jobs of a queue somebody is looking for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pgq.messages import DeadLetter
from pgq.ui._query import Query
from pgq.ui._source import Problem

__all__ = ["Filter"]


@dataclass(frozen=True, slots=True)
class Filter:
    """What is given must match; the times are when a job is due or leased until, or has died."""

    key: str | None
    label: str | None
    error_contains: str | None
    since: datetime | None
    before: datetime | None

    @classmethod
    def of(cls, query: Query) -> Filter:
        """The filter of a request."""
        return cls(
            query.maybe("key"),
            query.maybe("label"),
            query.maybe("error_contains"),
            query.moment("since"),
            query.moment("before"),
        )

    def __bool__(self) -> bool:
        return any(one is not None for one in asdict(self).values())

    def matches(self, letter: DeadLetter) -> bool:
        """Whether a dead letter does, as the functions of the database see it."""
        return (
            self.key in (None, letter.key)
            and self.label in (None, letter.label)
            and (self.error_contains or "") in (letter.last_error or "")
            and (self.since is None or letter.died_at >= self.since)
            and (self.before is None or letter.died_at < self.before)
        )

    def arguments(self, times: str) -> dict[str, Any]:
        """What the functions for many jobs take, whose times are called ``times``."""
        if not self:
            raise Problem(400, "a filter is needed: a key, a label, a part of the error, or a time")
        return {
            "key": self.key,
            "label": self.label,
            "error_contains": self.error_contains,
            f"{times}_since": self.since,
            f"{times}_before": self.before,
        }
