"""Which of several queues or topics is asked next, and when; no input or output."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass

__all__ = ["Schedule"]

SHORTEST = 0.05
"""Seconds to the first look after one that found nothing; they double from there."""
HELD = 1.0
"""The longest wait for what is due and cannot be had: nothing notifies when it can. A look that is
followed by a longer one asks when something is due."""
UNSURE = 5.0
"""The longest wait after an error, or while notifications are missed."""


@dataclass(slots=True)
class _Source:
    wait: float
    """Seconds to the next look, when these grow."""
    most: float
    """The longest wait."""
    heard: bool = False
    """Whether notifications of it are heard: then it is looked at when one comes."""
    next_at: float = 0.0
    busy: bool = False
    """Whether the last look found something: then all may look at once."""
    looking: int = 0
    woken: int = 0
    """How often it was woken, so that one during a look is not lost."""
    asked: int = 0
    empty: bool = False
    """Whether the last look found nothing, and nobody has said since that there may be something.
    """
    absent: bool = False
    """Whether it is not there, and not looked at."""

    def open(self) -> bool:
        """Whether one more may look."""
        return not self.absent and (self.busy or not self.looking)


class Schedule:
    """The sources of work, each with the time at which somebody looks again.

    A source that had nothing is looked at by one slot at a time. One that is heard is left alone
    until something is due, for `longest_heard` at most; another one for waits that grow up to
    `longest`. One that had something is looked at by all who are free. Of those that are due, the
    one that was asked longest ago comes first.
    """

    def __init__(
        self, names: Iterable[str], longest: float, longest_heard: float | None = None
    ) -> None:
        self._first = min(SHORTEST, longest)
        self._sources = {name: _Source(self._first, longest) for name in names}
        self._longest = longest
        self._longest_heard = longest if longest_heard is None else longest_heard
        self._asked = 0
        self._lock = threading.Lock()

    def hear(self, names: Iterable[str], now: float, *, lost: bool = False) -> bool:
        """Notifications of these are heard from now on, and of no others; lost: for a while.

        Returns whether some that were heard are not any more: they are to be looked at soon.
        """
        with self._lock:
            heard = {*names}
            missed = False
            for name, source in self._sources.items():
                if source.heard and name not in heard:
                    missed = True
                    source.wait = self._first
                    source.next_at = min(source.next_at, now + self._first)
                    source.most = self._longest
                    if lost:
                        source.most = min(self._longest, UNSURE)
                elif not lost:
                    source.most = self._longest_heard if name in heard else self._longest
                source.heard = name in heard
            return missed

    def leave_out(self, names: Collection[str]) -> None:
        """Look at all but these; at those that were left out before, at once."""
        with self._lock:
            for name, source in self._sources.items():
                if source.absent and name not in names:
                    source.next_at = 0.0
                    source.empty = False
                source.absent = name in names

    def asks(self, name: str) -> bool:
        """Whether a look that found nothing is to ask when something is due.

        Of several at a time the last one asks for all; waits that are short need no answer.
        """
        with self._lock:
            source = self._sources[name]
            wait = source.most if source.heard else min(source.wait, source.most)
            return source.looking == 1 and not source.woken and wait > HELD

    def next(self, now: float) -> str | None:
        """The source to look at now, if one is due; tell what came of it by `looked`."""
        with self._lock:
            due = [
                (source.asked, name)
                for name, source in self._sources.items()
                if source.next_at <= now and source.open()
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
        source.empty = False
        if source.looking == 1:
            source.woken = 0

    def looked(
        self, name: str, now: float, *, found: bool, more: bool = True, due_in: float | None = None
    ) -> bool:
        """A look has ended; `more`: there may be more than what was found.

        due_in: seconds until something is due, if it was asked; infinity: nothing is. Returns
        whether somebody is to look again at once.
        """
        with self._lock:
            source = self._sources[name]
            source.looking -= 1
            again = bool(source.woken)  # until a look begins that is the only one
            source.empty = not (found or again)
            source.busy = found and more
            if found:
                source.wait = self._first
            if source.busy or again:
                source.next_at = now
            elif found:
                source.next_at = now + source.wait * random.uniform(0.8, 1.0)
            else:
                source.next_at = now + _pause(source, due_in)
            if not found:
                source.wait = min(source.wait * 2, source.most)
                if source.heard and due_in is not None and due_in > 0:
                    source.wait = self._first
            return source.busy or again

    def failed(self, name: str, now: float) -> None:
        """A look ended with an error: leave the source alone for long."""
        with self._lock:
            source = self._sources[name]
            source.looking -= 1
            source.busy = False
            source.next_at = now + min(source.most, UNSURE)

    def wake(self, name: str | None = None) -> bool:
        """Something was said to have come, to one source or to any; False: it is none of ours."""
        with self._lock:
            woken = [*self._sources.values()] if name is None else [self._sources.get(name)]
            for source in woken:
                if source is not None:
                    source.woken += 1
                    source.empty = False
                    source.next_at = 0.0
                    source.wait = self._first
            return any(source is not None for source in woken)

    def exhausted(self) -> bool:
        """Whether nothing was found in any of them."""
        with self._lock:
            return all(source.empty or source.absent for source in self._sources.values())

    def pause(self, now: float) -> float:
        """Seconds until the next look is due."""
        with self._lock:
            waiting = [source.next_at for source in self._sources.values() if source.open()]
            most = max(self._longest, self._longest_heard)
        return min(max(min(waiting, default=math.inf) - now, 0.0), most)


def _pause(source: _Source, due_in: float | None) -> float:
    """Seconds to the next look after one that found nothing."""
    grown = source.wait * random.uniform(0.8, 1.0)
    if due_in is None:
        return min(grown, UNSURE if source.heard else source.most)
    if due_in <= 0:
        return min(grown, HELD)
    return min(due_in, source.most * random.uniform(0.8, 1.0) if source.heard else grown)
