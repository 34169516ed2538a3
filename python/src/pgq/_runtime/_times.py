"""Durations as callers give them, and waits that grow."""

from __future__ import annotations

import random
from datetime import timedelta

__all__ = ["LONGEST_TURN", "Backoff", "seconds"]

LONGEST_TURN = 0.01
"""Seconds after which handlers that wait for nothing let others run: the heartbeats among them."""


def seconds(name: str, value: float | timedelta, *, zero: bool = False) -> float:
    """A duration in seconds; ValueError when it is not positive."""
    found = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if found < 0 or (found == 0 and not zero):
        raise ValueError(f"{name} is {value}, must be {'at least 0' if zero else 'more than 0'}")
    return found


class Backoff:
    """Waits that double from `first` up to `most`, each at random from half of it."""

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self._next = first

    def next(self) -> float:
        """The next wait in seconds."""
        wait = self._next
        self._next = min(wait * 2, self._most)
        return wait * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin again: what was waited for has come."""
        self._next = self._first
