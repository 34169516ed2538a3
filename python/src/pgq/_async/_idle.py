"""How long a worker or a consumer that found nothing may sleep."""

from __future__ import annotations

from datetime import datetime

from pgq._async._calling import Calling

__all__ = ["Idle"]


class Idle(Calling):
    """When something is due next."""

    async def next_due(self, queue: str, *, label: str | None = None) -> datetime | None:
        """When a claim of the queue may next find a job, if nothing is added until then.

        A time in the past: something holds jobs back that are due, look again after a while. None:
        there is no job, or the queue is paused.
        """
        due_at: datetime | None = await self._value(datetime, "next_due", queue=queue, label=label)
        return due_at

    async def next_poll(self, topic: str, consumer_group: str) -> datetime | None:
        """When a poll of the group may next find messages, if nothing is published until then.

        A time in the past: an open transaction holds messages back, look again after a while. None:
        the group has read everything.
        """
        due_at: datetime | None = await self._value(
            datetime, "next_poll", topic=topic, consumer_group=consumer_group
        )
        return due_at
