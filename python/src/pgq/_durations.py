"""Lengths of time as callers give them."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["IN_SECONDS", "duration", "seconds"]

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


def seconds(name: str, value: float | timedelta, *, zero: bool = False) -> float:
    """A duration in seconds; ValueError when it is not positive."""
    found = duration(name, value).total_seconds()
    if found < 0 or (found == 0 and not zero):
        raise ValueError(f"{name} is {value}, must be {'at least 0' if zero else 'more than 0'}")
    return found
