"""Topics with dead-letter topics, and members that cannot process some of the messages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from support.log import new_topic
from support.session import Session, new_name

__all__ = ["dead_letters", "new_pair", "work"]


def new_pair(
    log: Session,
    *,
    partitions: int = 1,
    dead_partitions: int = 1,
    messages: int = 0,
    max_attempts: int | None = None,
    deferred: bool = False,
    dead_deferred: bool = False,
    **settings: Any,
) -> tuple[str, str]:
    """A new topic and one for the dead letters of its group readers."""
    topic = new_topic(log, partitions=partitions, messages=messages, groups=(), deferred=deferred)
    dead = new_name("dead")
    log.create_topic(topic=dead, partitions=dead_partitions, deferred=dead_deferred)
    if max_attempts is not None:
        settings |= {"max_attempts": max_attempts, "dead_letter_topic": dead}
    log.create_group(topic=topic, consumer_group="readers", **settings)
    return topic, dead


def dead_letters(log: Session, dead: str) -> list[Any]:
    """What stands in a dead-letter topic, in order."""
    log.assign_offsets(topic=dead)  # if it is a deferred one
    return [
        message
        for place in log.list_offsets(topic=dead)
        for message in log.fetch_range(
            topic=dead,
            partition=place.partition,
            first_offset=place.first_offset,
            last_offset=place.last_offset,
        )
    ]


def work(
    log: Session,
    topic: str,
    *,
    poison: Collection[int],
    max_messages: int = 100,
    commit_before: bool = True,
    sizes: list[tuple[int, int]] | None = None,
) -> list[int]:
    """Process all there is, and return the offsets of what was finished, in order.

    With ``commit_before`` what comes before a message that fails is committed; else the batch
    fails as a whole.
    """
    done: list[int] = []
    while rows := log.poll(topic=topic, consumer_group="readers", max_messages=max_messages):
        if sizes is not None:
            sizes.append((rows[0].log_offset, len(rows)))
        held = {
            "topic": topic,
            "consumer_group": "readers",
            "partition": rows[0].partition,
            "lease_token": rows[0].lease_token,
        }
        finished: list[int] = []
        failed = None
        for message in rows:
            if message.log_offset in poison:
                failed = message.log_offset
                break
            finished.append(message.log_offset)
        if finished and (failed is None or commit_before):
            log.commit_offset(committed_offset=finished[-1], **held)
            done += finished
        if failed is not None:
            assert log.nack_offsets(error=f"{failed} is bad", **held) is True
    return done
