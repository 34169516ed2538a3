"""What a batch of the data source ``pgq`` reads: planned once, and read by tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pgq.spark._bounds import Bound
from pgq.spark._fetch import Database
from pgq.spark._options import Options
from pgq.spark._positions import Checks, plan
from pgq.spark._spread import Plan, check_distinct, read_task, tasks_of
from pgq.spark._topics import Bounds, Range

if TYPE_CHECKING:
    import pyarrow

__all__ = ["BatchReader", "planned_ahead"]


class BatchReader(DataSourceReader):
    """Reads what lies between two positions when the query is planned."""

    def __init__(
        self, shards: Sequence[Options], planned: Sequence[InputPartition] | None = None
    ) -> None:
        self._shards = shards
        self._planned = planned

    def partitions(self) -> Sequence[InputPartition]:
        if self._planned is not None:
            return self._planned
        databases = [Database(options) for options in self._shards]
        try:
            if len(databases) > 1:
                check_distinct([database.created() for database in databases])
            return tasks_of([_planned_by(database) for database in databases], self._shards[0])
        finally:
            for database in databases:
                database.close()

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        # Spark makes one task, without a range, where there is nothing to read; before 4.2 even
        # without a partition.
        if partition is None or partition.value is None:
            return iter(())
        return read_task(self._shards, partition.value)


def _planned_by(database: Database) -> Plan:
    """What a batch reads of a database."""
    options = database.options
    start = options.start or Bounds(Bound(earliest=True))
    end = options.end or Bounds(Bound())
    ranges: list[Range] = []
    ids: dict[str, int | None] = {}
    for topic in database.topics():
        checks = Checks(topic, options.fail_on_data_loss, options.shard)
        # Asked first: if another topic takes the name meanwhile, the tasks find that out.
        ids[topic] = database.log(topic).topic_id
        log_at = partial(database.log, topic)
        ranges += [(topic, part) for part in plan(start.of(topic), end.of(topic), log_at, checks)]
    return Plan(database, ranges, ids)


def planned_ahead(shards: Sequence[Options]) -> Sequence[InputPartition] | None:
    """What a batch reads, planned ahead, so that each action reads the same.

    None where there is nothing to plan: nobody knows yet whether a stream is meant, and an error of
    a batch is that of its job, as in other versions.
    """
    try:
        return BatchReader(shards).partitions()
    except (psycopg.Error, ValueError):
        return None
