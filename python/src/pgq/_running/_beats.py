"""What a process tells of itself; no input or output."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

import psycopg

__all__ = ["Beats", "missing"]


class Beats:
    """The heartbeats of one run: what they say, and when the next one is due."""

    def __init__(
        self,
        kind: str,
        sources: Iterable[str],
        running: Callable[[], int],
        every: float | None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self._running = running
        self._every = every
        self._next_at = 0.0
        host, pid = socket.gethostname(), os.getpid()
        self.name = f"{host[:150]}:{pid}:{secrets.token_hex(4)}"
        self._said = {
            "kind": kind,
            "host": host,
            "pid": pid,
            "sources": sorted(sources),
            "started_at": datetime.now(timezone.utc),
            "details": None if details is None else dict(details),
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
        return {**self._said, "running": self._running()}


def missing(error: psycopg.Error) -> bool:
    """Whether the database has no heartbeats: it is older, or this role may not send any."""
    return isinstance(
        error, (psycopg.errors.UndefinedFunction, psycopg.errors.InsufficientPrivilege)
    )
