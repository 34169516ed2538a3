"""Running pgq: its housekeeping, and what it shows of itself."""

from __future__ import annotations

from pgq._async._calling import Calling
from pgq.messages import (
    ArchivedJob,
    CleanupAction,
    DeadLetter,
    Effect,
    GroupLag,
    QueueStats,
    TopicStats,
)

__all__ = ["Operations"]


class Operations(Calling):
    """Housekeeping and figures."""

    async def cleanup(self) -> list[CleanupAction]:
        """Remove what retention says may go, and trim the books; returns what was done.

        Delivery never depends on it. Run it every minute or so, from anywhere, in a transaction of
        its own (READ COMMITTED, or ActiveSqlTransaction is raised).
        """
        return await self._rows(CleanupAction, "cleanup")

    async def version(self) -> str:
        """The version of pgq that is installed in the database."""
        return await self._value(str, "version")

    async def group_lag(
        self, topic: str | None = None, consumer_group: str | None = None
    ) -> list[GroupLag]:
        """How far the groups are behind, a row per partition."""
        return await self._view(GroupLag, "group_lag", topic=topic, consumer_group=consumer_group)

    async def topic_stats(self, topic: str | None = None) -> list[TopicStats]:
        """What the topics hold, a row per partition."""
        return await self._view(TopicStats, "topic_stats", topic=topic)

    async def queue_stats(self, queue: str | None = None) -> list[QueueStats]:
        """How many jobs are in which state, a row per queue."""
        return await self._view(QueueStats, "queue_stats", queue=queue)

    async def dead_letters(self, queue: str | None = None) -> list[DeadLetter]:
        """The jobs that were given up, with their last errors."""
        return await self._view(DeadLetter, "dead_letters", queue=queue)

    async def effects(self, queue: str | None = None) -> list[Effect]:
        """The effects of jobs that are not finished, and what became of them; see `run_once`."""
        return await self._view(Effect, "effects", queue=queue)

    async def archived_jobs(self, queue: str | None = None) -> list[ArchivedJob]:
        """The finished jobs that retention has not removed yet."""
        return await self._view(ArchivedJob, "archived_jobs", queue=queue)
