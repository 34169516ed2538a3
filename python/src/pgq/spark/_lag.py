"""How far a stream is behind, by what its progress says of the data source pgq."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from pgq.spark._bounds import ID, SHARDS
from pgq.spark._spread import HAS_LIMITS, NOTHING
from pgq.spark._topics import Topics

__all__ = ["Lag", "LagListener", "PartitionLag", "lag"]

_log = logging.getLogger("pgq.spark")


class PartitionLag(NamedTuple):
    """How many messages of a partition wait."""

    topic: str
    partition: int
    messages: int
    shard: int | None = None


@dataclass(frozen=True)
class Lag:
    """What was there, but not in the batch, when the batch was planned."""

    partitions: tuple[PartitionLag, ...]

    @property
    def messages(self) -> int:
        """How many in all."""
        return sum(part.messages for part in self.partitions)


def lag(progress: StreamingQueryProgress | Mapping[str, Any] | str) -> Lag:
    """How many messages lie between the end of a batch and the latest offsets.

    ``progress`` is that of a query, its JSON, or that parsed. Sources other than pgq are left out.
    Spark before 4.2 does not tell the latest offsets, which is an error.
    """
    text = getattr(progress, "json", progress)
    found = json.loads(text) if isinstance(text, str) else text
    return Lag(tuple(part for source in found["sources"] for part in _of_source(source)))


def _of_source(source: Mapping[str, Any]) -> Iterator[PartitionLag]:
    end, latest = source["endOffset"], source.get("latestOffset")
    if not isinstance(end, dict) or not end.keys() & {ID, SHARDS}:
        return
    if latest is None:
        raise ValueError("the progress has no latestOffset, which Spark tells from 4.2 on")
    ends = end.get(SHARDS, [end])
    for shard, part in enumerate(latest.get(SHARDS, [latest])):
        # A database that was added has no end yet.
        done = Topics(pattern=".*").from_json(ends[shard] if shard < len(ends) else NOTHING)
        for topic, position in Topics(pattern=".*").from_json(part).items():
            for partition, after in position.offsets.items():
                # A topic that came after the batch is counted from its first offset.
                first = done[topic][partition] if topic in done else 1
                number = shard if SHARDS in latest else None
                yield PartitionLag(topic, partition, max(after - first, 0), number)


Report = Callable[[StreamingQueryProgress, Lag], object]


def _log_lag(progress: StreamingQueryProgress, found: Lag) -> None:
    name, batch = progress.name or progress.id, progress.batchId
    _log.info("query %s, batch %s: %s messages wait", name, batch, found.messages)


class LagListener(StreamingQueryListener):
    """Calls ``report`` with each progress and its lag; without one it logs, to ``pgq.spark``.

    ``spark.streams.addListener(LagListener())`` is for all queries that read from pgq.
    """

    def __init__(self, report: Report = _log_lag) -> None:
        if not HAS_LIMITS:
            raise NotImplementedError("the lag of a stream is known from Spark 4.2 on")
        self._report = report

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is done, or the query has told for a while that it waits."""
        found = lag(event.progress)
        if found.partitions:
            self._report(event.progress, found)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The query says no more."""
