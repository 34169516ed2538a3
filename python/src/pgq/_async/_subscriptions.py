"""Subscriptions: what is published becomes jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgq._async._calling import Calling
from pgq.messages import Subscription

__all__ = ["Subscriptions"]


class Subscriptions(Calling):
    """Queues that get jobs for the messages of topics."""

    async def subscribe(
        self,
        subscription: str,
        topic: str,
        queue: str,
        *,
        filter: Mapping[str, Sequence[Any]] | None = None,  # noqa: A002  as in SQL
        routing_key: str | None = None,
    ) -> Subscription:
        """Subscribe a queue to a topic, or return what is there by that name if it is the same.

        From then on each message that is published adds a job to the queue in the same transaction,
        with the content of the message, which is not copied. `filter` says what values headers must
        have, as in ``{"status": ["processed", "shipped"]}``; `routing_key` is a pattern for the
        header of that name, as in AMQP: 'orders.*.eu', 'orders.#'.

        It waits for open transactions that publish to the topic. Raises AlreadyExists when there is
        one with other settings than those given, or the queue is subscribed to the topic by another
        name.
        """
        return await self._row(
            Subscription,
            "subscribe",
            subscription=subscription,
            topic=topic,
            queue=queue,
            filter=filter,
            routing_key=routing_key,
        )

    async def unsubscribe(self, subscription: str) -> None:
        """End a subscription; the jobs that it has made stay."""
        await self._value(object, "unsubscribe", subscription=subscription)

    async def list_subscriptions(self) -> list[Subscription]:
        """All subscriptions, by name."""
        return await self._rows(Subscription, "list_subscriptions")
