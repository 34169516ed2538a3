"""The consumer group of a stream: it shows others where the stream stands.

So ``pgq top``, lag, metrics and alerts see a stream as they see any consumer. What the stream reads
is decided by its checkpoint alone, wherever the group is. The group is never moved back.

The position is noted when Spark asks for the next batch, with the end of the last one as its start:
that is done by then. Spark's own ``commit`` tells no more, and comes later: not before there is a
next batch, so a stream at rest would seem to lag.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import psycopg

from pgq.errors import UnknownGroup
from pgq.spark._bounds import refused
from pgq.spark._fetch import Database
from pgq.spark._positions import Checks, Log
from pgq.spark._topics import Positions

__all__ = ["FollowingGroup"]

_log = logging.getLogger("pgq.spark")

# A step of another consumer may lock the group for as long as it works.
_LOCK_TIMEOUT = "set local lock_timeout = '1s'"

_COMMIT = """
select n.after, pgq.commit_offset(%(topic)s, %(consumer_group)s, n.partition, n.after - 1)
from unnest(%(partitions)s::integer[], %(afters)s::bigint[]) as n (partition, after)
"""

_FAULTS = (
    UnknownGroup,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ReadOnlySqlTransaction,
)
"""What ends a stream that starts. Later they are warnings, as is a lease of another member."""

_PAUSE = 10.0
"""After how many seconds the same position is sent again after an error."""


class FollowingGroup:
    """Moves the group to where the stream is, topic by topic."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_begun = False
        self._noted: dict[str, dict[int, int]] = {}
        self._failed: dict[str, tuple[dict[int, int], float]] = {}
        self._told: dict[str, type | None] = {}

    def note(self, done: Positions, logs: Mapping[str, Log]) -> None:
        """Note that all before these positions has been processed."""
        group = self._database.options.consumer_group
        if group is None:
            return
        errors: dict[str, psycopg.Error] = {}
        for topic, position in done.items():
            # A topic that was created again has other offsets.
            if topic not in logs or logs[topic].topic_id != position.topic_id:
                continue
            before = self._noted.setdefault(topic, {})
            moved = {p: after for p, after in position.offsets.items() if before.get(p) != after}
            failed, until = self._failed.get(topic, ({}, 0.0))
            if not moved or (moved == failed and time.monotonic() < until):
                continue
            try:
                is_ahead = self._commit(topic, group, moved)
            except psycopg.Error as error:
                self._failed[topic] = moved, time.monotonic() + _PAUSE
                errors[topic] = error
                self._tell(topic, group, type(error), f"was not moved: {error}")
            else:
                before |= moved
                told = "is ahead of the stream: another consumer moved it, or the stream went back"
                self._tell(topic, group, FollowingGroup if is_ahead else None, told)
        if not self._has_begun:
            self._check(group, errors, len(done))
        self._has_begun = True

    def _check(self, group: str, errors: Mapping[str, psycopg.Error], topics: int) -> None:
        """Refuse to start with a group that cannot be moved."""
        is_somewhere = len(errors) < topics and self._database.options.topics.pattern is not None
        for topic, error in errors.items():
            # Topics that match a pattern come by themselves, without the group.
            if isinstance(error, _FAULTS) and not (is_somewhere and type(error) is UnknownGroup):
                place = self._place(topic)
                raise refused(
                    "consumerGroup", f"is {group!r}, which cannot be moved in {place}: {error}"
                ) from error

    def _commit(self, topic: str, group: str, offsets: Mapping[int, int]) -> bool:
        """Commit offsets, and return whether the group is ahead of them."""
        partitions = sorted(offsets)
        parameters = {
            "topic": topic,
            "consumer_group": group,
            "partitions": partitions,
            "afters": [offsets[partition] for partition in partitions],
        }

        def commit(connection: psycopg.Connection[Any]) -> bool:
            with connection.transaction():
                connection.execute(_LOCK_TIMEOUT)
                rows = connection.execute(_COMMIT, parameters).fetchall()
            return any(committed >= after for after, committed in rows)

        return self._database.ask(commit)

    def _tell(self, topic: str, group: str, kind: type | None, text: str) -> None:
        """Warn of a problem, once as long as it stays the same."""
        if kind is not None and self._told.get(topic) is not kind:
            _log.warning("consumer group %r, %s %s", group, self._place(topic), text)
        self._told[topic] = kind

    def _place(self, topic: str) -> str:
        return Checks(topic, True, self._database.options.shard).place
