"""Which of several queues or topics is asked next, and when; no input or output."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Schedule"]

SHORTEST = 0.05
"""Seconds to the first look after one that found nothing; they double from there."""


@dataclass(slots=True)
class _Source:
    wait: float
    next_at: float = 0.0
    busy: bool = False
    """Whether the last look found something: then all may look at once."""
    looking: int = 0
    woken: int = 0
    """How often it was woken, so that one during a look is not lost."""
    asked: int = 0


class Schedule:
    """The sources of work, each with the time at which somebody looks again.

    A source that had nothing is looked at by one slot at a time, after waits that grow up to
    `longest`. One that had something is looked at by all who are free. Of those that are due, the
    one that was asked longest ago comes first.
    """

    def __init__(self, names: Iterable[str], longest: float) -> None:
        self._first = min(SHORTEST, longest)
        self._sources = {name: _Source(self._first) for name in names}
        self._longest = longest
        self._asked = 0
        self._lock = threading.Lock()

    def next(self, now: float) -> str | None:
        """The source to look at now, if one is due; tell what came of it by `looked`."""
        with self._lock:
            due = [
                (source.asked, name)
                for name, source in self._sources.items()
                if source.next_at <= now and (source.busy or not source.looking)
            ]
            if not due:
                return None
            name = min(due)[1]
            self._begin(self._sources[name])
            return name

    def begin(self, name: str) -> None:
        """Look at a source whether it is due or not."""
        with self._lock:
            self._begin(self._sources[name])

    def _begin(self, source: _Source) -> None:
        self._asked += 1
        source.asked = self._asked
        source.looking += 1
        if source.looking == 1:
            source.woken = 0

    def looked(self, name: str, now: float, *, found: bool, more: bool = True) -> bool:
        """A look has ended; `more`: there may be more than what was found.

        Returns whether somebody is to look again at once.
        """
        with self._lock:
            source = self._sources[name]
            source.looking -= 1
            again = bool(source.woken)  # until a look begins that is the only one
            source.busy = found and more
            if found:
                source.wait = self._first
            if source.busy or again:
                source.next_at = now
            else:
                source.next_at = now + source.wait * random.uniform(0.8, 1.0)
                if not found:
                    source.wait = min(source.wait * 2, self._longest)
            return source.busy or again

    def failed(self, name: str, now: float) -> None:
        """A look ended with an error: leave the source alone for the longest wait."""
        with self._lock:
            source = self._sources[name]
            source.looking -= 1
            source.busy = False
            source.next_at = now + self._longest

    def wake(self, name: str | None = None) -> bool:
        """Something was said to have come, to one source or to any; False: it is none of ours."""
        with self._lock:
            woken = [*self._sources.values()] if name is None else [self._sources.get(name)]
            for source in woken:
                if source is not None:
                    source.woken += 1
                    source.next_at = 0.0
                    source.wait = self._first
            return any(source is not None for source in woken)

    def pause(self, now: float) -> float:
        """Seconds until the next look is due."""
        with self._lock:
            waiting = [
                source.next_at
                for source in self._sources.values()
                if source.busy or not source.looking
            ]
        return min(max(min(waiting, default=math.inf) - now, 0.0), self._longest)
