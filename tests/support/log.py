"""What tests of the log share: short ways to make topics and to look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.session import Session, new_name

__all__ = [
    "WAYS_TO_MOVE",
    "WAYS_TO_PUBLISH",
    "committed_offsets",
    "group_settings",
    "new_topic",
    "newest",
    "offsets",
    "ways_to_move",
    "ways_to_publish",
]

WAYS_TO_MOVE = [
    "claim_offsets",
    "claim_offsets of a partition",
    "consume",
    "poll",
    "commit_offset",
    "seek",
]
WAYS_TO_PUBLISH = ["publish", "publish by key", "publish_batch", "publish_batch by key"]


def new_topic(
    log: Session,
    partitions: int = 1,
    *,
    messages: int = 0,
    groups: tuple[str, ...] = ("readers",),
    deferred: bool = False,
) -> str:
    """A new topic with groups; each partition gets messages whose payloads are 1, 2, …"""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=partitions, deferred=deferred)
    for group in groups:
        log.create_group(topic=topic, consumer_group=group)
    if messages:
        for partition in range(partitions):
            log.publish_batch(
                topic=topic, payloads=list(range(1, messages + 1)), partition=partition
            )
    return topic


def offsets(rows: list[Any]) -> list[int]:
    """The offsets of messages, as they came."""
    return [row.log_offset for row in rows]


def newest(log: Session, topic: str, partition: int = 0) -> int:
    """The newest offset of a partition, as the view tells."""
    row = log.execute(
        "select last_offset from pgq.topic_stats where topic = %s and partition = %s",
        [topic, partition],
    ).fetchone()
    assert row is not None
    return int(row[0])


def committed_offsets(log: Session, topic: str, consumer_group: str) -> list[int]:
    """The committed offset of a group in each partition, as the view tells."""
    rows = log.execute(
        "select committed_offset from pgq.group_lag where topic = %s and consumer_group = %s"
        " order by partition",
        [topic, consumer_group],
    ).fetchall()
    return [row[0] for row in rows]


def group_settings(
    log: Session, topic: str, consumer_group: str = "readers"
) -> tuple[str, list[str]] | None:
    """What a group does out of range: as it is listed, and as each of its partitions has it."""
    rows = log.execute(
        "select g.out_of_range, array_agg(l.out_of_range order by l.partition)"
        " from pgq.list_groups(topic => %s) as g"
        " left join pgq.group_partition as l using (topic, consumer_group)"
        " where g.consumer_group = %s group by g.out_of_range",
        [topic, consumer_group],
    ).fetchall()
    return rows[0] if rows else None


# ------------------------------------------------------------- publishers and members of groups

# partitions of 8 that a key belongs to
_KEY_OF = {0: "b", 1: "a", 2: "c"}


def ways_to_publish(log: Session, topic: str, partition: int = 0) -> dict[str, Callable[[], Any]]:
    """The functions that write to one partition of 8; each writes one message."""
    return {
        "publish": lambda: log.publish(topic=topic, payload=7, partition=partition),
        "publish by key": lambda: log.publish(topic=topic, payload=7, key=_KEY_OF[partition]),
        "publish_batch": lambda: log.publish_batch(topic=topic, payloads=[7], partition=partition)[
            0
        ],
        "publish_batch by key": lambda: log.publish_batch(
            topic=topic, payloads=[7], keys=[_KEY_OF[partition]]
        )[0],
    }


def ways_to_move(log: Session, topic: str) -> dict[str, Callable[[], Any]]:
    """What moves a group's position or lease in partition 0, which has ten messages."""
    names = {"topic": topic, "consumer_group": "readers"}
    return {
        "claim_offsets": lambda: log.claim_offsets(max_messages=2, **names),
        "claim_offsets of a partition": lambda: log.claim_offsets(
            max_messages=2, partition=0, **names
        ),
        "consume": lambda: log.consume(max_messages=2, **names),
        "poll": lambda: log.poll(max_messages=2, **names),
        "commit_offset": lambda: log.commit_offset(partition=0, committed_offset=9, **names),
        "seek": lambda: log.seek(start="latest", **names),
    }
