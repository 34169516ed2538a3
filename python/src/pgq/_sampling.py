"""Looks at a whole database, and the rates between two of them."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import psycopg

from pgq._sync import Client

__all__ = ["Sample", "figures", "sample"]


@dataclass(slots=True)
class Sample:
    """What the database had at one time."""

    taken: float
    moment: datetime
    published: dict[str, int] = field(default_factory=dict)
    """For each topic its newest offsets, added up."""
    kept: dict[str, int] = field(default_factory=dict)
    committed: dict[tuple[str, str], int] = field(default_factory=dict)
    lag: dict[tuple[str, str], int] = field(default_factory=dict)
    oldest: dict[tuple[str, str], datetime] = field(default_factory=dict)
    queues: dict[str, Any] = field(default_factory=dict)
    finished: dict[str, float] = field(default_factory=dict)
    """For each queue how many jobs ended per second, in the last minute; where that is known."""


def sample(client: Client) -> Sample:
    """Look once; all of it in one snapshot."""
    with client.connection.transaction():
        found = Sample(time.monotonic(), datetime.now(timezone.utc))
        for topic in client.monitor.topic_stats():
            found.published[topic.topic] = found.published.get(topic.topic, 0) + topic.last_offset
            found.kept[topic.topic] = found.kept.get(topic.topic, 0) + topic.messages
        for row in client.monitor.group_lag():
            name = row.topic, row.consumer_group
            found.committed[name] = found.committed.get(name, 0) + row.committed_offset
            found.lag[name] = found.lag.get(name, 0) + row.lag
            if row.oldest_published_at is not None:
                known = found.oldest.get(name, row.oldest_published_at)
                found.oldest[name] = min(known, row.oldest_published_at)
        found.queues = {row.queue: row for row in client.monitor.queue_stats()}
    # where the role may not, the rest is shown all the same
    with suppress(psycopg.errors.InsufficientPrivilege):
        found.finished = {
            json.loads(str(one.labels))["queue"]: round(one.value / 60, 1)
            for one in client.monitor.metrics()
            if one.name == "pgq_queue_finished_last_minute" and one.value is not None
        }
    return found


def figures(now: Sample, before: Sample | None) -> dict[str, list[dict[str, Any]]]:
    """What is shown: rows of topics, groups and queues; rates are per second, None at first."""
    old = Sample(now.taken, now.moment) if before is None else before
    seconds = now.taken - old.taken

    def rate(new: dict[Any, int], old: dict[Any, int], name: Any) -> float | None:
        if not seconds or name not in old or name not in new:
            return None
        return max(0.0, round((new[name] - old[name]) / seconds, 1))

    return {
        "topics": [
            {
                "topic": name,
                "published_per_second": rate(now.published, old.published, name),
                "messages": now.kept[name],
            }
            for name in sorted(now.published)
        ],
        "groups": [
            {
                "topic": name[0],
                "consumer_group": name[1],
                "consumed_per_second": rate(now.committed, old.committed, name),
                "lag": now.lag[name],
                "oldest_published_at": now.oldest.get(name),
            }
            for name in sorted(now.committed)
        ],
        "queues": [
            {
                "queue": name,
                "finished_per_second": now.finished.get(name),
                "ready": row.ready,
                "leased": row.leased,
                "delayed": row.delayed,
                "waiting": row.waiting,
                "dead": row.dead,
                "oldest_ready_at": row.oldest_ready_at,
                "held_by": row.held_by,
            }
            for name, row in sorted(now.queues.items())
        ],
    }
