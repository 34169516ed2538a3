"""What tests of subscriptions share: topics with queues, and what came to these."""

from __future__ import annotations

from functools import cache
from typing import Any

from support.queue import claim, new_queue
from support.session import Session, new_name, row

__all__ = [
    "delivered",
    "in_runs",
    "new_followed_topic",
    "publish_many",
    "routing_key_matches",
    "subscribe",
]


def subscribe(session: Session, topic: str, queue: str, **options: Any) -> str:
    """Subscribe a queue to a topic, and return the name of the subscription."""
    name = new_name("subscription")
    session.subscribe(subscription=name, topic=topic, queue=queue, **options)
    return name


def new_followed_topic(
    session: Session,
    queues: int = 1,
    partitions: int = 1,
    deferred: bool = False,
    **options: Any,
) -> tuple[str, list[str]]:
    """A topic and queues that are subscribed to it."""
    topic = new_name("topic")
    session.create_topic(topic=topic, partitions=partitions, deferred=deferred)
    made = [new_queue(session) for _ in range(queues)]
    for queue in made:
        subscribe(session, topic, queue, **options)
    return topic, made


def publish_many(session: Session, topic: str, number: int, **options: Any) -> Any:
    """Publish a batch with the payloads 0, 1, 2 …"""
    return session.publish_batch(topic=topic, payloads=list(range(number)), **options)


def delivered(session: Session, queue: str) -> list[Any]:
    """The payloads of all jobs of a queue that are due, claimed in one call."""
    return [job.payload for job in claim(session, queue, 100_000)]


def in_runs(session: Session, queue: str) -> int:
    """How many jobs of a queue have no rows of their own yet."""
    return int(
        row(
            session,
            "select coalesce(sum(r.jobs), 0) from pgq.job_extent as r join pgq.queue as q"
            " using (queue_id) where q.queue = %s",
            [queue],
        )[0]
    )


def routing_key_matches(pattern: str, key: str) -> bool:
    """The rules of AMQP 0-9-1, word by word."""
    wanted, words = (text.split(".") if text else [] for text in (pattern, key))

    @cache
    def match(i: int, j: int) -> bool:
        if i == len(wanted):
            return j == len(words)
        if wanted[i] == "#":
            return match(i + 1, j) or (j < len(words) and match(i, j + 1))
        return j < len(words) and wanted[i] in ("*", words[j]) and match(i + 1, j + 1)

    return match(0, 0)
