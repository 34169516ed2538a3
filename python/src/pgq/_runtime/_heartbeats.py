"""What a process tells of itself; no input or output."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

import psycopg

__all__ = ["Heartbeats", "missing"]


_MOST_SOURCES = 1000
_MOST_CHARACTERS = 16384
_MOST_DETAILS = 8192
"""What `pgq.heartbeat` accepts; what is beyond it is left out."""


class Heartbeats:
    """The heartbeats of one run: what they say, and when the next one is due."""

    def __init__(
        self,
        kind: str,
        sources: Iterable[str],
        running: Callable[[], int],
        every: float | None,
        details: Callable[[], Mapping[str, Any] | None] = lambda: None,
    ) -> None:
        self._running = running
        self._details = details
        self._every = every
        self._next_at = 0.0
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
        return self._every is not None

    def off(self) -> None:
        """Send none any more."""
        self._every = None

    def wait(self, now: float, most: float) -> float:
        """Seconds until the next one is due, `most` at most."""
        return most if self._every is None else min(max(self._next_at - now, 0.0), most)

    def due(self, now: float) -> bool:
        """Whether one is to be sent now; then the next one is due a while later."""
        if self._every is None or now < self._next_at:
            return False
        self._next_at = now + self._every
        return True

    def again(self) -> None:
        """Send one at once: the last one may not have arrived."""
        self._next_at = time.monotonic()

    def said(self) -> dict[str, Any]:
        """The arguments of a heartbeat."""
        return {**self._said, "running": self._running(), "details": _short(self._details())}


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
