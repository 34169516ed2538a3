"""Steps with subscriptions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import members, queues, seldom, sizes, topics
from model.queue_steps import QueueSteps
from model.topic_steps import TopicSteps

__all__ = ["SubscriptionSteps"]

names = st.sampled_from(["here", "there"])
filters = st.sampled_from(
    [
        *(None, None, {}, {"kind": []}, {"kind": ["odd", 1]}),
        {"kind": ["even"], "routing_key": ["orders"]},
    ]
)
patterns = st.sampled_from([None, None, None, "orders.#", "orders.*", "*.new.#", "#.eu", "#"])


class SubscriptionSteps(TopicSteps, QueueSteps):
    """Queues that follow topics."""

    @rule(
        member=members,
        subscription=names,
        topic=topics,
        queue=queues,
        of=filters,
        pattern=patterns,
        size=sizes,
        undo=seldom,
    )
    def subscribe(
        self,
        member: int,
        subscription: str,
        topic: str,
        queue: str,
        of: dict[str, list[Any]] | None,
        pattern: str | None,
        size: int | None,
        undo: bool,
    ) -> None:
        self.step(
            member,
            "subscribe",
            subscription,
            topic,
            queue,
            filter=of,
            routing_key=pattern,
            undo=undo,
        )
        self.fill_topic(topic)
        # so many in one partition that they become jobs later
        self.publish(member, topic, [None] * 7, False, 0, False, False)
        got = self.step(
            member, "claim_job", queue, max_jobs=size, lease=timedelta(minutes=1), label=None
        )
        self.note_claim(got)

    @rule(member=members, subscription=names, undo=seldom)
    def unsubscribe(self, member: int, subscription: str, undo: bool) -> None:
        self.step(member, "unsubscribe", subscription, undo=undo)
