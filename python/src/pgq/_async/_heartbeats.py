"""Heartbeats of workers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pgq._async._calling import Calling

__all__ = ["Heartbeats"]


class Heartbeats(Calling):
    """Heartbeats of workers."""

    async def heartbeat(
        self,
        worker: str,
        *,
        kind: str | None = None,
        host: str | None = None,
        pid: int | None = None,
        sources: Iterable[str] | None = None,
        running: int | None = None,
        started_at: datetime | None = None,
        details: Any = None,
        beat: timedelta | float | None = None,
    ) -> None:
        """Note that a worker is alive; those of this package do so themselves.

        `worker` is a name that nothing else of this role has. Call it every 10 s or so; with
        longer pauses pass the length of the pause as `beat`.
        """
        await self._value(
            object,
            "heartbeat",
            worker=worker,
            kind=kind,
            host=self._storable(host),
            pid=pid,
            sources=sources,
            running=running,
            started_at=started_at,
            details=self._storable(details),
            beat=beat,
        )
