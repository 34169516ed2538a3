"""Lengths of time, and points in time, as callers give them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

__all__ = ["IN_SECONDS", "NAIVE", "duration", "is_naive", "moment", "seconds"]

NAIVE = "naive datetime; give it a time zone"

IN_SECONDS = frozenset(
    {"lease", "longest_lease", "delay", "backoff", "backoff_max", "timeout", "beat"}
)
"""Arguments whose numbers are seconds; for the others, as a retention, that is too easily wrong."""


def duration(name: str, value: object, *, numbers: bool = True) -> timedelta:
    """The length of time that an argument is; TypeError: it is none."""
    if isinstance(value, timedelta):
        return value
    if numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return timedelta(seconds=value)
        except (ValueError, OverflowError):
            raise ValueError(f"{name} is {value}, must be a length of time") from None
    wanted = "give a timedelta or seconds" if numbers else "give a timedelta"
    raise TypeError(f"{name} is {value!r}: {wanted}")


def is_naive(value: object) -> bool:
    """Whether it is a datetime without a zone: a server reads it in the zone of the session."""
    return isinstance(value, datetime) and value.utcoffset() is None


def moment(name: str, value: Any) -> Any:
    """The point in time that an argument is; TypeError: it has no zone."""
    if is_naive(value):
        raise TypeError(f"{name}: {NAIVE}")
    return value


def seconds(name: str, value: float | timedelta, *, zero: bool = False) -> float:
    """A duration in seconds; ValueError when it is not positive."""
    found = duration(name, value).total_seconds()
    if found < 0 or (found == 0 and not zero):
        raise ValueError(f"{name} is {value}, must be {'at least 0' if zero else 'more than 0'}")
    return found
