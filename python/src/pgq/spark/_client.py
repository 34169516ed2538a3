"""What users of Spark call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from pgq.spark._connection import DriverConnection, Location, hide_credentials
from pgq.spark._read import OffsetRange, Offsets, frame_of, plan, view
from pgq.spark._write import Mode, Target, WriteOptions, WriteResult, write

__all__ = ["Pgq", "Step"]


@dataclass(frozen=True)
class Step:
    """What one call of :meth:`Pgq.consume` did."""

    ranges: list[OffsetRange]
    """What the consumer group has read, and got past."""
    written: WriteResult | None
    """What was published in the same transaction."""

    @property
    def messages(self) -> int:
        """How many messages were read."""
        return sum(len(part) for part in self.ranges)


class Pgq:
    """The topics and queues of one database, for DataFrames.

    ``url`` is that of the JDBC driver, ``jdbc:postgresql://host:port/database``; ``properties`` are
    the driver's: ``user``, ``password``, ``sslmode`` and so on. The executors connect to the
    database by themselves, with the same URL and properties.
    """

    def __init__(
        self, spark: SparkSession, url: str, properties: Mapping[str, str] | None = None
    ) -> None:
        self._spark = spark
        self._location = Location(url, properties)
        hide_credentials(spark)

    def __repr__(self) -> str:
        return f"Pgq({self._location.url.partition('?')[0]!r})"

    # ------------------------------------------------------------------------ writing

    def publish(
        self,
        frame: DataFrame,
        topic: str,
        *,
        producer: str | None = None,
        seq: int | None = None,
        mode: Mode = "atomic",
        chunk_rows: int = 5000,
        chunk_bytes: int = 4 << 20,
        expected_messages: int | None = None,
        timeout: str = "1 day",
    ) -> WriteResult:
        """Publish the rows of a DataFrame to a topic.

        Columns: ``value`` (binary or string: raw bytes) or ``payload`` (a struct, a map, an array,
        or a string with JSON); and, where wanted, ``key``, ``headers`` (a map, an array of key and
        value, or a string with a JSON object) and ``partition``.

        With ``mode="atomic"`` the rows are staged and then published in one transaction: all are
        seen at once, or none, whatever fails on the way. The partitions written to are locked while
        that transaction runs. With ``mode="fast"`` each chunk is published when it comes, so others
        see a part before the end, and a failed job leaves a part. A repeated task must make the
        same rows in the same order, and a repeated job the same tasks, or the write fails.

        With ``producer`` and ``seq`` the write is known again: repeating it, after it was
        committed, writes nothing and returns ``repeated``. In fast mode they also let a job that
        failed go on where it was; without them its rows are published anew when it is run again.

        ``chunk_rows`` and ``chunk_bytes`` bound the chunks in which rows travel. Give
        ``expected_messages`` where you know the number, and another one is refused. A write that is
        not committed within ``timeout`` (an interval of PostgreSQL) is forgotten by ``cleanup``.
        """
        options = WriteOptions(mode, chunk_rows, chunk_bytes, expected_messages, timeout=timeout)
        return write(frame, self._location, Target(topic, None, producer, seq), options)

    def enqueue(
        self,
        frame: DataFrame,
        queue: str,
        *,
        producer: str | None = None,
        seq: int | None = None,
        mode: Mode = "atomic",
        priority: int = 0,
        delay: str | None = None,
        chunk_rows: int = 5000,
        chunk_bytes: int = 4 << 20,
        expected_messages: int | None = None,
        timeout: str = "1 day",
    ) -> WriteResult:
        """Make a job of each row of a DataFrame; the rest is as in :meth:`publish`.

        Columns: ``value`` or ``payload``; and, where wanted, ``key``, ``headers`` and ``label``.
        ``priority`` and ``delay`` (an interval of PostgreSQL, ``'5 minutes'``) are those of all.
        """
        options = WriteOptions(
            mode, chunk_rows, chunk_bytes, expected_messages, priority, delay, timeout
        )
        return write(frame, self._location, Target(None, queue, producer, seq), options)

    def sink(
        self,
        topic: str | None = None,
        *,
        producer: str,
        queue: str | None = None,
        mode: Mode = "atomic",
        chunk_rows: int = 5000,
        chunk_bytes: int = 4 << 20,
        transform: Callable[[DataFrame], DataFrame] | None = None,
        timeout: str = "1 day",
    ) -> Callable[[DataFrame, int], None]:
        """The function for ``writeStream.foreachBatch`` that writes each micro-batch exactly once.

        The batch's number is the ``seq`` of the write, so a batch that Spark runs again after a
        crash is written once. ``producer`` names the query: another one for each checkpoint, since
        a new checkpoint counts its batches from 0 again. In fast mode a batch must come out the
        same whenever it is computed, so not after a shuffle. ``transform`` is applied to the rows
        of a batch first.
        """
        if (topic is None) == (queue is None):
            raise ValueError("a sink writes to a topic or to a queue")
        location = self._location
        options = WriteOptions(mode, chunk_rows, chunk_bytes, timeout=timeout)

        # Nothing here refers to the session: Spark Connect sends this function to the server.
        def write_batch(frame: DataFrame, batch_id: int) -> None:
            rows = frame if transform is None else transform(frame)
            write(rows, location, Target(topic, queue, producer, batch_id), options)

        return write_batch

    # ------------------------------------------------------------------------ reading

    def read(
        self,
        topic: str,
        *,
        starting_offsets: Offsets = "earliest",
        ending_offsets: Offsets = "latest",
        starting_timestamp: datetime | None = None,
        ending_timestamp: datetime | None = None,
        min_partitions: int | None = None,
        fail_on_data_loss: bool = True,
    ) -> DataFrame:
        """The messages of a topic, with the columns of Spark's Kafka source.

        ``key``, ``value`` (the body, or the payload as JSON text), ``topic``, ``partition``,
        ``offset``, ``timestamp`` and ``headers``. Which messages is decided here: what is published
        later is not in the DataFrame, however often it is used.

        Offsets are ``"earliest"``, ``"latest"``, an offset for each partition, or JSON as Kafka's
        source takes it, with -2 for the earliest and -1 for the latest; the ending ones are not
        included. Timestamps take the place of the offsets: from the first message published then or
        later, up to the last one before. Each range of a partition is read by several tasks:
        at least ``min_partitions`` in all, and one for each 250,000 messages.

        Where retention has removed a part of the range by the time that a task reads it, the task
        fails, or goes on with what is there if ``fail_on_data_loss`` is false.
        """
        ranges = plan(
            self._spark,
            self._location,
            topic,
            starting_offsets=starting_offsets,
            ending_offsets=ending_offsets,
            starting_timestamp=starting_timestamp,
            ending_timestamp=ending_timestamp,
        )
        return frame_of(
            self._spark,
            self._location,
            topic,
            ranges,
            min_partitions=min_partitions,
            fail_on_data_loss=fail_on_data_loss,
        )

    def read_archive(self, queue: str, *, num_partitions: int = 1) -> DataFrame:
        """The finished jobs of a queue, with the columns of the view ``pgq.archived_jobs``."""
        return view(self._spark, self._location, "archived_jobs", queue, num_partitions)

    def read_dead_letters(self, queue: str, *, num_partitions: int = 1) -> DataFrame:
        """The dead letters of a queue, with the columns of the view ``pgq.dead_letters``."""
        return view(self._spark, self._location, "dead_letters", queue, num_partitions)

    # ------------------------------------------------------------------------ both in one

    def consume(
        self,
        topic: str,
        consumer_group: str,
        transform: Callable[[DataFrame], DataFrame | None],
        *,
        to: str | None = None,
        to_queue: str | None = None,
        max_messages: int = 100_000,
        min_partitions: int | None = None,
        chunk_rows: int = 5000,
        chunk_bytes: int = 4 << 20,
    ) -> Step | None:
        """Take the next messages of a group, transform them, and publish what comes out.

        The position of the group and the output are committed in one transaction of the driver, so
        each message has its effect once, whatever fails. ``transform`` gets the messages as
        :meth:`read` returns them, and returns rows for the topic ``to`` or the queue ``to_queue``,
        or None for none. Other members of the group pass over the partitions that were taken until
        this step is done. Returns None when there is nothing to read.

        Needs a classic session: Spark Connect cannot hold a transaction.
        """
        if to is not None and to_queue is not None:
            raise ValueError("a step writes to a topic or to a queue, not to both")
        with DriverConnection(self._spark, self._location) as transaction:
            transaction.begin()
            ranges = self._claim(transaction, topic, consumer_group, max_messages)
            if not ranges:
                return None
            messages = frame_of(
                self._spark, self._location, topic, ranges, min_partitions=min_partitions
            )
            output = transform(messages)
            written = None
            if output is not None:
                if to is None and to_queue is None:
                    raise ValueError("the transformation returned rows, but there is no target")
                written = write(
                    output,
                    self._location,
                    Target(to, to_queue),
                    WriteOptions("atomic", chunk_rows, chunk_bytes),
                    transaction,
                )
            transaction.commit()
            return Step(ranges, written)

    def _claim(
        self, transaction: DriverConnection, topic: str, consumer_group: str, max_messages: int
    ) -> list[OffsetRange]:
        """Take from one partition after the other, of those that nobody has."""
        ranges: list[OffsetRange] = []
        left = max_messages
        while not ranges or left > 0:
            found = transaction.call(
                "claim_offsets",
                {
                    "topic": ("text", topic),
                    "consumer_group": ("text", consumer_group),
                    "max_messages": ("integer", left),
                },
            )
            if not found:
                break
            ranges.append(OffsetRange(**found[0]))
            left -= len(ranges[-1])
        return ranges
