"""The group `monitor`: figures, and who is at work."""

from __future__ import annotations

from datetime import timedelta

from pgq._async._calling import Calling
from pgq.messages import CleanupFailure, GroupLag, Metric, QueueStats, TopicStats, WorkerInfo

__all__ = ["Monitor"]


class Monitor(Calling):
    """Figures of topics, queues and groups, the workers, and failures of cleanup."""

    async def topic_stats(self, topic: str | None = None) -> list[TopicStats]:
        """What the topics hold, a row per partition."""
        return await self._view(TopicStats, "topic_stats", topic=topic)

    async def queue_stats(self, queue: str | None = None) -> list[QueueStats]:
        """How many jobs are in which state, a row per queue."""
        return await self._view(QueueStats, "queue_stats", queue=queue)

    async def group_lag(
        self, topic: str | None = None, consumer_group: str | None = None
    ) -> list[GroupLag]:
        """How far the groups are behind, a row per partition."""
        return await self._view(GroupLag, "group_lag", topic=topic, consumer_group=consumer_group)

    async def metrics(self) -> list[Metric]:
        """Lag, depth, ages, counts, and what holds cleanup back."""
        return await self._rows(Metric, "metrics")

    async def metrics_text(self) -> str:
        """The same in Prometheus' text format 0.0.4."""
        return await self._value(str, "metrics_text")

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

    async def list_cleanup_failures(self) -> list[CleanupFailure]:
        """What cleanup fails for, the oldest failure first; a row goes when it works again."""
        return await self._rows(CleanupFailure, "list_cleanup_failures")
