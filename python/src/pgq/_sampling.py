"""Looks at a whole database, and the rates between two of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg

from pgq._sync import Client
from pgq.messages import QueueStats

__all__ = ["Sample", "figures", "permitted", "queue_figures", "sample"]

_STATES = ("ready", "leased", "delayed", "waiting", "expired")

MOST_OF_ONE = 100_000
MOST_OF_ALL = 10_000
"""Jobs, or dead letters, of a queue that are counted for a role that may not call `metrics`."""


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
    queues: dict[str, QueueStats] = field(default_factory=dict)
    estimated: dict[str, str] = field(default_factory=dict)
    """The queues whose jobs were too many to count: their figures are ≈, or ≥."""
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
        measured = _measured(client)
        rows, found.estimated = queue_figures(client, measured=measured)
        found.queues = {row.queue: row for row in rows}
    found.finished = {
        queue: round(values["finished_last_minute"] / 60, 1) for queue, values in measured.items()
    }
    return found


def queue_figures(
    client: Client, queue: str | None = None, *, measured: dict[str, Any] | None = None
) -> tuple[list[QueueStats], dict[str, str]]:
    """The figures of one queue or all, and which of them are estimates (≈) or lower bounds (≥).

    The view `queue_stats` counts every job, which takes seconds where there are millions. There
    these are the estimates of `metrics`, without its rate limit. For a role that may not call it,
    the counts stop at a limit.
    """
    if measured is None:
        measured = _measured(client)
    if not measured:
        return _bounded(client, queue)
    estimated = {
        name: "≈"
        for name, values in measured.items()
        if values["jobs_estimated"] and queue in (None, name)
    }
    if not estimated:
        return client.monitor.queue_stats(queue), estimated
    moment = datetime.now(timezone.utc)
    found = []
    for one in client.admin.list_queues():
        values = measured.get(one.queue)
        if values is None or queue not in (None, one.queue):
            continue
        counts = {state: int(values[state]) for state in _STATES}
        full = one.max_leased is not None and counts["leased"] >= one.max_leased
        seconds = values["oldest_ready_seconds"]
        found.append(
            QueueStats(
                queue=one.queue,
                **counts,
                dead=int(values["dead_letters"]),
                oldest_ready_at=moment - timedelta(seconds=seconds) if seconds else None,
                paused=one.paused,
                held_by="paused" if one.paused else "max_leased" if full else None,
                is_full=one.max_unfinished is not None
                and sum(counts.values()) >= one.max_unfinished,
            )
        )
    return found, estimated


def _bounded(client: Client, queue: str | None) -> tuple[list[QueueStats], dict[str, str]]:
    most = MOST_OF_ALL if queue is None else MOST_OF_ONE
    limit = "select set_config('pgq.count_at_most', %s, true)"
    with client.connection.transaction():
        client.connection.execute(limit, [str(most)])
        found = client.monitor.queue_stats(queue)
        client.connection.execute(limit, [""])
    counted = {one.queue: sum(getattr(one, state) for state in _STATES) for one in found}
    return found, {one.queue: "≥" for one in found if max(counted[one.queue], one.dead) >= most}


@contextmanager
def permitted(client: Client) -> Iterator[None]:
    """Leave out what the role may not do; a savepoint keeps the transaction."""
    with suppress(psycopg.errors.InsufficientPrivilege), client.connection.transaction():
        yield


def _measured(client: Client) -> dict[str, dict[str, float]]:
    """Of each queue the metrics and the jobs by state; empty where the role may not ask."""
    found: dict[str, dict[str, float]] = {}
    with permitted(client):
        for one in client.monitor.metrics():
            if one.name.startswith("pgq_queue_") and one.value is not None:
                labels = json.loads(str(one.labels)) if isinstance(one.labels, str) else one.labels
                name = labels.get("state") or one.name.removeprefix("pgq_queue_")
                found.setdefault(labels["queue"], {})[name] = one.value
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
                "estimated": now.estimated.get(name),
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
