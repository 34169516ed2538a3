"""Cleaning up: what retention, and other limits of time, say may go."""

from __future__ import annotations

from datetime import timedelta

from pgq._async._calling import Calling
from pgq.messages import CleanupAction

__all__ = ["Cleanup"]


class Cleanup(Calling):
    """Cleaning up."""

    async def cleanup(self) -> list[CleanupAction]:
        """Remove what may go, in the log, in the queues and in bulk writes; returns what was done.

        Delivery never depends on it. Run it every minute or so, from anywhere, in a transaction of
        its own (READ COMMITTED, or ActiveSqlTransaction is raised).
        """
        return await self._rows(CleanupAction, "cleanup")

    async def repair_clock(
        self, *, longest_lease: timedelta | float | None = None, max_rows: int | None = None
    ) -> list[CleanupAction]:
        """Take back what was written while the clock was ahead; returns what was done.

        A lease of a job that ends later than longest_lease from now, 12 hours by default, is cut to
        that of its queue. Call it in a transaction of its own (READ COMMITTED, or
        ActiveSqlTransaction is raised), again as long as it says "more".
        """
        return await self._rows(
            CleanupAction, "repair_clock", longest_lease=longest_lease, max_rows=max_rows
        )

    async def schedule_cleanup(self, schedule: str | None = None) -> int:
        """Have pg_cron call cleanup, every minute by default; returns the id of its job.

        Raises psycopg's FeatureNotSupported where pg_cron is not installed in this database.
        """
        return await self._value(int, "schedule_cleanup", schedule=schedule)

    async def unschedule_cleanup(self) -> bool:
        """End what :meth:`schedule_cleanup` began; False when there was nothing to end."""
        return await self._value(bool, "unschedule_cleanup")

    async def set_storage_bounds(
        self, *, max_retentions: int | None = None, max_sized_topics: int | None = None
    ) -> None:
        """Set how many different retentions, and topics with max_bytes, there may be.

        24 and 100 by default; ``None`` keeps a bound. For the owner of pgq.
        """
        await self._value(
            object,
            "set_storage_bounds",
            max_retentions=max_retentions,
            max_sized_topics=max_sized_topics,
        )
