"""Figures for those who watch, and who is at work."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pgq._async._calling import Calling
from pgq.messages import Metric, WorkerInfo

__all__ = ["Metrics"]


class Metrics(Calling):
    """Figures, and heartbeats of workers."""

    async def metrics(self) -> list[Metric]:
        """Lag, depth, ages, counts, and what holds cleanup back."""
        return await self._rows(Metric, "metrics")

    async def metrics_text(self) -> str:
        """The same in Prometheus' text format 0.0.4."""
        return await self._value(str, "metrics_text")

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
        beat: timedelta | None = None,
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

    async def list_workers(self, *, seen_within: timedelta | None = None) -> list[WorkerInfo]:
        """The workers that have told of themselves, by name.

        Those that were not seen within this time, a minute by default, are `stale`: they were
        killed, or have lost their connections.
        """
        return await self._rows(WorkerInfo, "list_workers", seen_within=seen_within)

    async def delete_worker(self, worker: str, *, role: str | None = None) -> bool:
        """Remove a worker that has ended; False when there is none that this role may remove.

        `role` is the one that sent its heartbeats, where workers of several have one name.
        """
        return await self._value(bool, "delete_worker", worker=worker, role=role)
