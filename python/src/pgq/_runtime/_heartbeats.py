"""What a process tells of itself; no input or output."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg

from pgq._runtime._times import TRY_AGAIN

__all__ = ["Heartbeats", "missing"]


_MOST_SOURCES = 1000
_MOST_CHARACTERS = 16384
_MOST_DETAILS = 8192
"""What `pgq.heartbeat` accepts; what is beyond it is left out."""
_USUAL = 10.0
"""Seconds between two heartbeats about which nothing has to be said."""


class Heartbeats:
    """The heartbeats of one run: what they say, and when the next one is due."""

    def __init__(
        self,
        kind: str,
        sources: Iterable[str],
        running: Callable[[], int],
        every: float | None,
        details: Callable[[], Mapping[str, Any] | None] = lambda: None,
        calm: float = 0.0,
    ) -> None:
        """`calm`: seconds between two of them while there is nothing to do, if that is longer."""
        self._running = running
        self._details = details
        self._every = every
        self._calm = calm
        self._idle = False
        self._last_at: float | None = None
        self._refused_until: float | None = None
        host, pid = socket.gethostname(), os.getpid()
        host = host.encode("ascii", "backslashreplace").decode()  # every database has that
        self.name = f"{host[:150]}:{pid}:{secrets.token_hex(4)}"
        self._said = {
            "kind": kind,
            "host": host[:255],
            "pid": pid,
            "sources": _fitting(sorted(sources)),
            "started_at": datetime.now(timezone.utc),
        }

    @property
    def on(self) -> bool:
        """Whether there are any."""
        return self._every is not None and self._refused_until is None

    def off(self) -> None:
        """Send none any more."""
        self._every = None

    def wait(self, now: float, most: float, *, idle: bool = False) -> float:
        """Seconds until the next one is due, `most` at most."""
        if self._every is None:
            return most
        next_at = now if self._last_at is None else self._last_at + self._pause(idle)
        return min(max(next_at - now, (self._refused_until or now) - now, 0.0), most)

    def due(self, now: float, *, idle: bool = False) -> bool:
        """Whether one is to be sent now; then the next one is due a while later."""
        if self._every is None or self.wait(now, 1.0, idle=idle) > 0:
            return False
        self._last_at = now
        self._idle = idle
        return True

    def taken(self) -> None:
        """The last one has arrived."""
        self._refused_until = None

    def refused(self, now: float) -> bool:
        """Try again a while later; returns whether the last one was refused as well."""
        before, self._refused_until = self._refused_until, now + TRY_AGAIN
        return before is not None

    def again(self) -> None:
        """Send one at once: the last one may not have arrived."""
        self._last_at = None

    def said(self) -> dict[str, Any]:
        """The arguments of a heartbeat."""
        beat = self._pause(self._idle)
        return {
            **self._said,
            "running": self._running(),
            "details": _short(self._details()),
            "beat": timedelta(seconds=beat) if beat > _USUAL else None,
        }

    def _pause(self, idle: bool) -> float:
        every = self._every or 0.0
        return max(every, self._calm) if idle else every


def _fitting(sources: list[str]) -> list[str]:
    total = 0
    for number, source in enumerate(sources):
        total += len(source)
        if number == _MOST_SOURCES or total > _MOST_CHARACTERS:
            return sources[:number]
    return sources


def _short(details: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if details is None or len(json.dumps(details)) > _MOST_DETAILS:
        return None
    return dict(details)


def missing(error: Exception) -> bool:
    """Whether the database has no heartbeats: it is older, or this role may not send any."""
    return isinstance(
        error, (psycopg.errors.UndefinedFunction, psycopg.errors.InsufficientPrivilege)
    )
