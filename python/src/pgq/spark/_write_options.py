"""The options of a write to the data source ``pgq``, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg

from pgq.spark._bounds import refused
from pgq.spark._options import count, name_of
from pgq.spark._place import WRITING, connect, conninfo_of, known, retry_of, urls_of
from pgq.spark._retry import RETRY

__all__ = ["Attempt", "WriterOptions", "parse_writer_options"]


class Attempt(NamedTuple):
    """An attempt to run a job, as begin_write and abort_write know it."""

    owner: str
    """The job, the same in all attempts to run it."""
    seq: int
    """Larger for a later attempt."""


@dataclass(frozen=True)
class WriterOptions:
    """The options of a write; the repr has no credentials."""

    conninfos: tuple[str, ...] = field(repr=False)
    """Of each database that is written to."""
    is_spread: bool = False
    """Whether the topic, or the queue, is spread over these, as shards."""
    topic: str | None = None
    queue: str | None = None
    producer: str | None = None
    seq: int | None = None
    value_is_json: bool = False
    delay: str | None = None
    priority: int | None = None
    timeout: str | None = None
    chunk_rows: int = 5000
    chunk_bytes: int = 4 << 20
    expected_messages: int | None = None
    check_repeated: bool = True
    bad_rows_topic: str | None = None
    retry: float = RETRY

    def attempt(self, started: int) -> Attempt | None:
        """The attempt to write a batch, if that has a name."""
        if self.producer is None:
            return None
        # producer and seq name one write for each target
        return Attempt(f"{self.producer} {self.seq} {self.topic or self.queue}", started)

    def connect(self, shard: int, retry: float | None = None) -> psycopg.Connection[Any]:
        """A connection for transactions as commit_write needs them, whatever the default is."""
        connection = connect(self.conninfos[shard], self.retry if retry is None else retry)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection


# Spark's own, which it hands on to sinks.
_OF_SPARK = ("checkpointlocation", "queryname")


def parse_writer_options(options: Mapping[str, str], *, streaming: bool) -> WriterOptions:
    """Check the options of a write; their names are not case sensitive, as everywhere in Spark."""
    given = known(
        {name: value for name, value in options.items() if name.lower() not in _OF_SPARK}, WRITING
    )
    topic, queue = name_of(given, "topic"), name_of(given, "queue")
    if topic is not None and queue is not None:
        raise refused("topic", "and 'queue' are both given: a write goes to one of them")
    if queue is None:
        for name in ("delay", "priority"):
            if name in given:
                raise refused(name, "is for jobs: it needs 'queue'")
    producer, seq = name_of(given, "producer"), _integer(given, "seq")
    if streaming:
        for name in ("seq", "expectedMessages"):
            if name.lower() in given:
                raise refused(name, "is for batches: in a stream each micro-batch has its own")
    elif (producer is None) != (seq is None):
        raise refused("producer", "and 'seq' name a write together: give both, or neither")
    bad_rows_topic = name_of(given, "badRowsTopic")
    if bad_rows_topic is not None and bad_rows_topic in (topic, queue):
        raise refused("badRowsTopic", "is where all rows go: give another topic")
    urls = urls_of(given)
    return WriterOptions(
        conninfos=tuple(conninfo_of(given, url) for url in urls),
        is_spread=len(urls) > 1,
        topic=topic,
        queue=queue,
        producer=producer,
        seq=seq,
        value_is_json=_is_json(given),
        delay=name_of(given, "delay"),
        priority=_integer(given, "priority"),
        timeout=name_of(given, "timeout"),
        chunk_rows=count(given, "chunkRows") or WriterOptions.chunk_rows,
        chunk_bytes=count(given, "chunkBytes") or WriterOptions.chunk_bytes,
        expected_messages=_integer(given, "expectedMessages"),
        check_repeated=_is_true(given, "checkRepeated"),
        bad_rows_topic=bad_rows_topic,
        retry=retry_of(given),
    )


def _integer(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise refused(name, f"is {text!r}; it must be a whole number from 0 on")
    return int(text)


def _is_true(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "true").strip().lower()
    if text not in ("true", "false"):
        raise refused(name, f"is {text!r}; it must be true or false")
    return text == "true"


def _is_json(given: Mapping[str, str]) -> bool:
    form = given.get("valueformat", "bytes").strip().lower()
    if form not in ("bytes", "json"):
        raise refused("valueFormat", f"is {form!r}; it must be bytes or json")
    return form == "json"
