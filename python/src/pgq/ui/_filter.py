"""Which jobs of a queue somebody is looking for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pgq.ui._query import Query
from pgq.ui._source import Problem

__all__ = ["Filter"]


@dataclass(frozen=True, slots=True)
class Filter:
    """What is given must match; the times are when a job is due or leased until, or has died."""

    label: str | None
    error_contains: str | None
    since: datetime | None
    before: datetime | None

    @classmethod
    def of(cls, query: Query) -> Filter:
        """The filter of a request."""
        return cls(
            query.maybe("label"),
            query.maybe("error_contains"),
            query.moment("since"),
            query.moment("before"),
        )

    def __bool__(self) -> bool:
        return any(one is not None for one in asdict(self).values())

    def matches(self, label: str | None, error: str | None, at: datetime | None) -> bool:
        """Whether a job does, as the functions of the database see it."""
        if self.label is not None and label != self.label:
            return False
        if self.error_contains is not None and self.error_contains not in (error or ""):
            return False
        if self.since is None and self.before is None:
            return True
        return at is not None and not (
            (self.since is not None and at < self.since)
            or (self.before is not None and at >= self.before)
        )

    def arguments(self, times: str) -> dict[str, Any]:
        """What the functions for many jobs take, whose times are called ``times``."""
        if not self:
            raise Problem(400, "a filter is needed: a label, a part of the error, or a time")
        return {
            "label": self.label,
            "error_contains": self.error_contains,
            f"{times}_since": self.since,
            f"{times}_before": self.before,
        }
