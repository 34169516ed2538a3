"""Waits that grow, and turns that end."""

from __future__ import annotations

import random

__all__ = ["LONGEST_TURN", "LOOK_FOR", "SAY_AGAIN", "TRY_AGAIN", "Backoff"]

LONGEST_TURN = 0.01
"""Seconds after which handlers that wait for nothing let others run: the heartbeats among them."""

LOOK_FOR = 1.0
"""Seconds between two looks for a queue, topic or group that is not there."""

SAY_AGAIN = 60.0
"""Seconds after which it is said once more what is waited for."""

TRY_AGAIN = 60.0
"""Seconds after which an optional call is tried again for which a right was missing."""


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
