"""What users of Spark call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pgq._extras import install
from pgq.messages import OffsetRange
from pgq.spark._bounds import Bound
from pgq.spark._connection import DriverConnection, Location, call, moment, one_connection
from pgq.spark._read import frame_of, ranges_of, view, with_payload
from pgq.spark._redaction import hide_credentials
from pgq.spark._retry import RETRY
from pgq.spark._several import Bounds, read_all, union, write_all
from pgq.spark._write import Target, WriteOptions, WriteResult, write

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
    """The topics and queues of a database, or of several, for DataFrames.

    An optional argument that is None, or not given, takes its default.

    ``url`` is that of the JDBC driver, ``jdbc:postgresql://host:port/database``; ``properties`` are
    the driver's: ``user``, ``password``, ``sslmode`` and so on. The executors connect to the
    database by themselves, with the same URL and properties.

    A server that is away, because it restarts or another one takes over, is waited for:
    ``retry_timeout``, a minute by default. A write is then begun again, a call repeated. Only the
    tasks of a DataFrame that :meth:`read` made, and a step of :meth:`consume`, fail at once.

    A list of URLs is for topics and queues that are spread over several databases, each of which
    has them under the same names. The place of a URL in the list is the number of its shard, so
    keep the order everywhere, and add databases at the end. What is read has a column ``shard``.
    What is written goes to the shard of its key, :func:`pgq.shards.shard_of`, and without a key to
    one by its content; a column ``shard`` that is not null wins.
    """

    def __init__(
        self,
        spark: SparkSession,
        url: str | Sequence[str],
        properties: Mapping[str, str] | None = None,
        *,
        retry_timeout: timedelta | None = None,
    ) -> None:
        if find_spec("pandas") is None:
            # PySpark asks for it on the driver, to exchange rows by Arrow
            raise ModuleNotFoundError(
                f"pgq.spark needs the module pandas on the driver: {install('spark-cluster')}",
                name="pandas",
            )
        self._spark = spark
        self._is_spread = not isinstance(url, str)
        urls = [url] if isinstance(url, str) else list(url)
        if not urls:
            raise ValueError("the list of URLs is empty")
        self._properties = properties
        self._retry_timeout = retry_timeout
        retry = RETRY if retry_timeout is None else retry_timeout.total_seconds()
        self._locations = [Location(one, properties, retry) for one in urls]
        hide_credentials(spark)

    def __repr__(self) -> str:
        places = [location.url.partition("?")[0] for location in self._locations]
        return f"Pgq({places!r})" if self._is_spread else f"Pgq({places[0]!r})"

    @property
    def shards(self) -> list[Pgq]:
        """Each database by itself, by the number of its shard."""
        given, waits = self._properties, self._retry_timeout
        return [
            Pgq(self._spark, location.given, given, retry_timeout=waits)
            for location in self._locations
        ]

    @property
    def _location(self) -> Location:
        """The only database."""
        if self._is_spread:
            raise ValueError("this is done in one database: take one of shards")
        return self._locations[0]

    def _write(self, frame: DataFrame, target: Target, options: WriteOptions) -> WriteResult:
        if self._is_spread:
            return write_all(frame, self._locations, target, options)
        return write(frame, self._location, target, options)

    # ------------------------------------------------------------------------ writing

    def publish(
        self,
        frame: DataFrame,
        *,
        topic: str,
        producer: str | None = None,
        seq: int | None = None,
        atomic: bool | None = None,
        chunk_rows: int | None = None,
        chunk_bytes: int | None = None,
        expected_messages: int | None = None,
        timeout: timedelta | None = None,
        check_repeated: bool | None = None,
    ) -> WriteResult:
        """Publish the rows of a DataFrame to a topic.

        Columns: ``value`` (binary or string: raw bytes) or ``payload`` (a struct, a map, an array,
        or a string with JSON); and, where wanted, ``key``, ``headers`` (a map, an array of key and
        value, or a string with a JSON object) and ``partition``.

        An atomic write, the default, is staged and then published in one transaction: others see
        all rows at once, or none, whatever fails on the way. The partitions written to are locked
        while that transaction runs. With ``atomic=False`` each chunk is published when it comes, so
        others see a part before the end, and a failed job leaves a part. Then a repeated task must
        make the same rows in the same order, and a repeated job the same tasks, or the write fails.

        With ``producer`` and ``seq`` the database knows the write again: repeating it, after it was
        committed, writes nothing and returns ``duplicate``; with other contents than then it is an
        error, unless ``check_repeated`` is False. When the write is not atomic they also let a job
        that failed go on where it was; without them its rows are published once more when it is
        run again.

        ``chunk_rows`` (5000) and ``chunk_bytes`` (4 MB) bound the chunks in which rows travel. Give
        ``expected_messages`` where you know the number, and another one is refused. A write that is
        not committed within ``timeout``, a day by default, is forgotten by ``cleanup``; the time of
        an atomic one starts again with each task that was staged.
        """
        options = WriteOptions.given(
            atomic=atomic,
            chunk_rows=chunk_rows,
            chunk_bytes=chunk_bytes,
            expected_messages=expected_messages,
            timeout=timeout,
            check_repeated=check_repeated,
        )
        target = Target(topic=topic, producer=producer, seq=seq)
        return self._write(frame, target, options)

    def enqueue(
        self,
        frame: DataFrame,
        *,
        queue: str,
        producer: str | None = None,
        seq: int | None = None,
        atomic: bool | None = None,
        delay: timedelta | None = None,
        priority: int | None = None,
        chunk_rows: int | None = None,
        chunk_bytes: int | None = None,
        expected_messages: int | None = None,
        timeout: timedelta | None = None,
        check_repeated: bool | None = None,
    ) -> WriteResult:
        """Make a job of each row of a DataFrame; the rest is as in :meth:`publish`.

        Columns: ``value`` or ``payload``; and, where wanted, ``key``, ``headers`` and ``label``.
        ``delay`` (by default the queue's) and ``priority`` (0 by default) are those of all.
        """
        options = WriteOptions.given(
            atomic=atomic,
            delay=delay,
            priority=priority,
            chunk_rows=chunk_rows,
            chunk_bytes=chunk_bytes,
            expected_messages=expected_messages,
            timeout=timeout,
            check_repeated=check_repeated,
        )
        target = Target(queue=queue, producer=producer, seq=seq)
        return self._write(frame, target, options)

    def sink(
        self,
        *,
        topic: str | None = None,
        queue: str | None = None,
        producer: str,
        atomic: bool | None = None,
        transform: Callable[[DataFrame], DataFrame] | None = None,
        chunk_rows: int | None = None,
        chunk_bytes: int | None = None,
        timeout: timedelta | None = None,
        check_repeated: bool | None = None,
    ) -> Callable[[DataFrame, int], None]:
        """The function for ``writeStream.foreachBatch`` that writes each micro-batch exactly once.

        The batch's number is the ``seq`` of the write, so a batch that Spark runs again after a
        crash is written once. ``producer`` names the query: another one for each checkpoint, since
        a new checkpoint counts its batches from 0 again. With ``atomic=False`` a batch must come
        out the same whenever it is computed, so not after a shuffle. ``transform`` is applied to
        the rows of a batch first. A batch that comes again with other contents is an error: an
        older checkpoint was restored, or another query has the same ``producer``. With
        ``check_repeated=False`` it is left out, for transformations that never make the same twice.
        """
        locations, is_spread = self._locations, self._is_spread
        target = Target(topic, queue, producer, 0)
        options = WriteOptions.given(
            atomic=atomic,
            chunk_rows=chunk_rows,
            chunk_bytes=chunk_bytes,
            timeout=timeout,
            check_repeated=check_repeated,
        )

        # Nothing here refers to the session: Spark Connect sends this function to the server.
        def write_batch(frame: DataFrame, batch_id: int) -> None:
            rows = frame if transform is None else transform(frame)
            named = replace(target, seq=batch_id)
            if is_spread:
                write_all(rows, locations, named, options)
            else:
                write(rows, locations[0], named, options)

        return write_batch

    # ------------------------------------------------------------------------ reading

    def read(
        self,
        *,
        topic: str,
        start: Bounds | None = None,
        end: Bounds | None = None,
        min_partitions: int | None = None,
        fail_on_data_loss: bool | None = None,
        payload_schema: str | StructType | None = None,
    ) -> DataFrame:
        """The messages of a topic, with the columns of Spark's Kafka source.

        ``key``, ``value`` (the body, or the payload as JSON text), ``topic``, ``partition``,
        ``offset``, ``timestamp`` and ``headers``. Which messages is decided here: what is published
        later is not in the DataFrame, however often it is used.

        ``start`` and ``end`` are ``"earliest"`` (the default of the start, and for it alone),
        ``"latest"`` (likewise of the end), a time (a datetime with a time zone), or an offset for
        each partition: ``{0: 15, 1: -2}`` or JSON as Kafka's source takes it, with -2 for the
        earliest and -1 for the latest. The end is not included: a time stands for the first message
        that was published then or later. Of several databases, a list has a bound for each.

        At least ``min_partitions`` tasks read. Each reads 250,000 messages or about 128 MB at most,
        of one partition or of many.

        Where retention has removed a part of what is to be read, this or the task that meets it
        fails; with ``fail_on_data_loss=False`` reading goes on with what is there.

        With ``payload_schema`` a column ``payload`` stands beside ``value``: JSON read by a schema
        of Spark (``"id bigint, name string"``), or ``"variant"``; null where it is not such JSON.
        """
        first: Any = "earliest" if start is None else start
        last: Any = "latest" if end is None else end
        complete = fail_on_data_loss is None or fail_on_data_loss
        chosen: Any = {"min_partitions": min_partitions, "fail_on_data_loss": complete}
        if self._is_spread:
            frame = read_all(self._spark, self._locations, topic, first, last, **chosen)
        else:
            with one_connection(self._spark, self._location):
                ranges, topic_id = ranges_of(
                    self._spark,
                    self._location,
                    topic,
                    Bound.start("start", topic, first).of_batch("start"),
                    Bound.end("end", topic, last),
                    fail_on_data_loss=complete,
                )
                place = self._spark, self._location, topic, ranges
                frame = frame_of(*place, topic_id=topic_id, **chosen)
        return frame if payload_schema is None else with_payload(frame, payload_schema)

    def watermark(self, *, topic: str) -> datetime:
        """A time before which nothing more will be published to a topic.

        As the end of :meth:`read` it makes windows that lose no message: one that was published by
        a transaction that is still open may have an earlier time than others that are seen.
        """
        arguments = {"topic": ("text", topic)}
        found = [
            call(self._spark, location, "watermark", arguments)[0] for location in self._locations
        ]
        return min(map(moment, found))

    def read_archived_jobs(self, *, queue: str, num_partitions: int | None = None) -> DataFrame:
        """The finished jobs of a queue, with the columns of the view ``pgq.archived_jobs``."""
        return self._view("archived_jobs", queue, num_partitions)

    def read_dead_letters(self, *, queue: str, num_partitions: int | None = None) -> DataFrame:
        """The dead letters of a queue, with the columns of the view ``pgq.dead_letters``."""
        return self._view("dead_letters", queue, num_partitions)

    def _view(self, name: str, queue: str, num_partitions: int | None) -> DataFrame:
        frames = [
            view(self._spark, location, name, queue, num_partitions) for location in self._locations
        ]
        return union(frames) if self._is_spread else frames[0]

    # ------------------------------------------------------------------------ both in one

    def consume(
        self,
        transform: Callable[[DataFrame], DataFrame | None],
        *,
        topic: str,
        consumer_group: str,
        to_topic: str | None = None,
        to_queue: str | None = None,
        max_messages: int | None = None,
        min_partitions: int | None = None,
        chunk_rows: int | None = None,
        chunk_bytes: int | None = None,
    ) -> Step | None:
        """Take the next messages of a group, transform them, and write what comes out.

        The position of the group and the output are committed in one transaction of the driver, so
        each message has its effect once, whatever fails. ``transform`` gets the messages as
        :meth:`read` returns them, and returns rows for ``to_topic`` or ``to_queue``, or None for
        none. A step takes ``max_messages`` (100,000) at most. Other members of the group pass over
        the partitions that were taken until this step is done. Returns None when there is nothing
        to read.

        Needs a classic session: Spark Connect cannot hold a transaction. A transaction is one of
        one database, so of several take each of :attr:`shards` by itself.
        """
        if to_topic is not None and to_queue is not None:
            raise ValueError("a step writes to a topic or to a queue, not to both")
        location = self._location
        with DriverConnection(self._spark, location, location.retry) as transaction:
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
                if to_topic is None and to_queue is None:
                    raise ValueError("the transformation returned rows, but there is no target")
                written = write(
                    output,
                    self._location,
                    Target(to_topic, to_queue),
                    WriteOptions.given(chunk_rows=chunk_rows, chunk_bytes=chunk_bytes),
                    transaction,
                )
            transaction.commit()
            return Step(ranges, written)

    def _claim(
        self,
        transaction: DriverConnection,
        topic: str,
        consumer_group: str,
        max_messages: int | None,
    ) -> list[OffsetRange]:
        """Take from one partition after the other, of those that nobody has."""
        ranges: list[OffsetRange] = []
        left = 100_000 if max_messages is None else max_messages
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
