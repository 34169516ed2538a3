"""Conditions on topic, partition, offset and timestamp: only the messages they leave are read.

Spark hands a batch the conditions of its query from 4.1 on. In a partition the time of publication
rises with the offset, so that a condition on the timestamp is one on offsets too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from pgq.messages import OffsetRange
from pgq.spark._bounds import Moment
from pgq.spark._positions import Log

__all__ = ["Conditions"]

_STEP = {"offset": 1, "timestamp": timedelta(microseconds=1)}


@dataclass
class Conditions:
    """What is known of the messages that a query wants."""

    chosen: dict[str, frozenset[Any]] = field(default_factory=dict)
    """Topics and partitions."""
    lowest: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    """From which offset and time, and before which."""

    def take(self, filters: Iterable[Any]) -> Iterator[Any]:
        """Note what can be noted, and return the other conditions."""
        for one in filters:
            column, *nested = getattr(one, "attribute", ("",))
            value = getattr(one, "value", None)
            if nested or not self._note(column, type(one).__name__, value):
                yield one

    def _note(self, column: str, kind: str, value: Any) -> bool:
        if kind == "IsNotNull":
            return column in ("topic", "partition", *_STEP)
        if value is None:
            return False
        is_equal = kind in ("EqualTo", "EqualNullSafe")
        if column in ("topic", "partition") and (is_equal or kind == "In"):
            values = frozenset([value] if is_equal else value)
            self.chosen[column] = self.chosen.get(column, values) & values
            return True
        if column not in _STEP or not (is_equal or kind.startswith(("GreaterThan", "LessThan"))):
            return False
        try:
            behind = value + _STEP[column]
        except OverflowError:
            return False
        if not kind.startswith("LessThan"):
            low = behind if kind == "GreaterThan" else value
            self.lowest[column] = max(self.lowest.get(column, low), low)
        if not kind.startswith("GreaterThan"):
            high = value if kind == "LessThan" else behind
            self.after[column] = min(self.after.get(column, high), high)
        return True

    def wants(self, column: str, value: object) -> bool:
        """Whether a topic or a partition is read."""
        return value in self.chosen.get(column, (value,))

    def narrowed(
        self, parts: Sequence[OffsetRange], log_at: Callable[[Moment | None], Log]
    ) -> Iterator[OffsetRange]:
        """What is left of the ranges of a topic."""
        since, until = (self._offsets_at(times, log_at) for times in (self.lowest, self.after))
        for part in parts:
            if not self.wants("partition", part.partition):
                continue
            first = max(
                part.first_offset, self.lowest.get("offset", 1), since.get(part.partition, 1)
            )
            after = min(
                part.last_offset + 1,
                self.after.get("offset", part.last_offset + 1),
                until.get(part.partition, part.last_offset + 1),
            )
            if first < after:
                yield replace(part, first_offset=first, last_offset=after - 1)

    @staticmethod
    def _offsets_at(
        bounds: dict[str, Any], log_at: Callable[[Moment | None], Log]
    ) -> dict[int, int]:
        """The first offset of each partition at the time that bounds have, or later."""
        time: datetime | None = bounds.get("timestamp")
        if time is None:
            return {}
        return {partition: kept.at or 1 for partition, kept in log_at(time).partitions.items()}
