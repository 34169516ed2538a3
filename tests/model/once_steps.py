"""Steps with the idempotency keys of batches, and with windows that change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import KEYS, members, once, partitions, queues, seldom, topics, windows
from model.house_steps import HouseSteps
from model.queue_steps import QueueSteps
from model.topic_steps import TopicSteps

__all__ = ["OnceSteps"]

# of one message or job after the other: changes of the window, and seconds that pass
between = st.lists(st.one_of(windows, st.sampled_from([5, 30, 300, 4000])), max_size=3)
batches = st.lists(st.tuples(once, st.sampled_from([None, *KEYS])), max_size=6)


class OnceSteps(TopicSteps, QueueSteps, HouseSteps):
    """What is written once, though it is sent again."""

    @rule(
        member=members,
        topic=topics,
        batch=batches,
        keyed=st.booleans(),
        partition=partitions,
        between=between,
        undo=seldom,
    )
    def publish_once(
        self,
        member: int,
        topic: str,
        batch: list[tuple[str | None, str | None]],
        keyed: bool,
        partition: int | None,
        between: list[timedelta | int],
        undo: bool,
    ) -> None:
        """Sent, and sent again after what comes between."""
        for each in (*between, None):
            contents, given = self.batch([key for _, key in batch], keyed)
            options: dict[str, Any] = {
                "partition": partition,
                "idempotency_keys": [key for key, _ in batch],
            }
            self.step(
                member,
                "publish_batch",
                topic,
                **given,
                **options,
                undo=undo,
                model=(topic, contents),
                extra=options,
            )
            if isinstance(each, timedelta):
                self.step(member, "alter_topic", topic, idempotency_window=each)
            elif each is not None:
                self.pass_by(each)

    @rule(
        member=members,
        queue=queues,
        batch=batches,
        delay=st.sampled_from([None, timedelta(seconds=10)]),
        between=between,
        undo=seldom,
    )
    def enqueue_once(
        self,
        member: int,
        queue: str,
        batch: list[tuple[str | None, str | None]],
        delay: timedelta | None,
        between: list[timedelta | int],
        undo: bool,
    ) -> None:
        """Sent, and sent again after what comes between."""
        for each in (*between, None):
            contents, given = self.batch([key for _, key in batch], True)
            options: dict[str, Any] = {
                "idempotency_keys": [key for key, _ in batch],
                "labels": [None] * len(batch),
                "unique_keys": ["one" if n == 3 else None for n in range(len(batch))],
                "delay": delay,
                "priority": None,
                "max_attempts": None,
            }
            self.step(
                member,
                "enqueue_batch",
                queue,
                **given,
                **options,
                undo=undo,
                model=(queue, contents),
                extra=options,
            )
            if isinstance(each, timedelta):
                self.step(member, "alter_queue", queue, idempotency_window=each)
            elif each is not None:
                self.pass_by(each)

    def pass_by(self, seconds: int) -> None:
        """With the cleanups that belong to it: segments of keys are sealed, closed, truncated."""
        self.move_clock(seconds)
        for _ in range(2):
            self.step(0, "cleanup")
            self.observe_retention()
