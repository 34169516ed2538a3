"""``pgq consume``, ``pgq tail`` and ``pgq peek``."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

import typer

from pgq import Client, Message, OffsetOutOfRange, UnknownTopic
from pgq._runtime._times import LOOK_FOR, SAY_AGAIN
from pgq.cli._complete import GroupName, TopicName, queue_names
from pgq.cli._errors import CommandError, UsageError, one_line, unknown, warn
from pgq.cli._house import AsJson, Database, Limit, command, connected
from pgq.cli._output import Nowhere, as_json, body, instant, plain, show_rows, write_line
from pgq.cli._values import State, a_moment

__all__ = ["add"]

T = TypeVar("T")

Follow = Annotated[bool, typer.Option("--follow", "-f", help="wait for more, until Ctrl-C")]
Partition = Annotated[int | None, typer.Option(min=0, help="only this partition")]
Contents = Annotated[bool, typer.Option("--payloads", help="only the content of each, a line")]
Since = Annotated[
    datetime | None, a_moment("those published then or later, in place of the last ones")
]
BLOCK = 500
"""Messages that tail reads at a time."""


def _content(message: Any) -> str:
    if message.body is not None:
        return body(message.body)
    # a message that retention emptied meanwhile has neither
    return "" if message.payload is None else plain(str(message.payload))


def _write(message: Message, json: bool, contents: bool) -> None:
    if json:
        write_line(as_json(message))
    elif contents:
        if message.body is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(message.body + b"\n")
        else:
            write_line(str(message.payload))
    else:
        key = "-" if message.key is None else plain(message.key)
        headers = "" if message.headers is None else f"  {plain(str(message.headers))}"
        write_line(
            f"{message.partition}:{message.log_offset}  {instant(message.published_at)}  {key}  "
            f"{_content(message)}{headers}"
        )


def _following(client: Client, topic: str, look: Callable[[Client], T]) -> Iterator[T]:
    """What `look` returns, again and again; between two tries it waits for a publish."""
    while True:
        found = client.wait(look, topic=topic, timeout=timedelta(minutes=5))
        if found:
            yield found


def _wait_for(client: Client, topic: str, group: str) -> None:
    """Wait for a topic and its group."""
    said_at = -math.inf
    while True:
        try:
            if any(one.consumer_group == group for one in client.admin.list_groups(topic)):
                return
            lacks = f'topic "{topic}" has no consumer group "{group}"'
        except UnknownTopic as error:
            lacks = one_line(error)
        if time.monotonic() >= said_at + SAY_AGAIN:
            said_at = time.monotonic()
            warn(f"waits: {lacks}")
        time.sleep(LOOK_FOR)


def add(app: typer.Typer) -> None:
    """Add the commands."""

    @command(
        app,
        "consume",
        examples=[
            "pgq consume orders billing --limit 10",
            "pgq consume orders billing --follow --json >> orders.jsonl",
        ],
    )
    def consume(
        topic: TopicName,
        group: GroupName,
        limit: Limit = None,
        follow: Follow = False,
        strict: Annotated[
            bool, typer.Option("--strict", help="with --follow: do not wait for topic and group")
        ] = False,
        partition: Partition = None,
        batch: Annotated[int, typer.Option(min=1, max=10_000, help="so many at a time")] = 100,
        contents: Contents = False,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Consume messages as a member of a group, until there are no more.

        Each is printed before the transaction that consumes it commits: so none is lost, and when
        something breaks in between the same ones are printed again. With --follow it waits for a
        topic or group that is not there: a line says so at once and each minute.
        """
        if isinstance(sys.stdout, Nowhere):
            raise CommandError("the standard output is closed: nothing was consumed")
        left = limit

        def take(client: Client) -> int:
            wanted = batch if left is None else min(batch, left)
            messages = client.consume(topic, group, max_messages=wanted, partition=partition)
            for message in messages:
                _write(message, json, contents)
            # before the commit: when nobody reads this, the messages stay
            sys.stdout.flush()
            return len(messages)

        with connected(database) as client:
            if follow:
                if not strict:
                    _wait_for(client, topic, group)
                for count in _following(client, topic, take):
                    if left is not None:
                        left -= count
                        if not left:
                            return
                return
            while left is None or left > 0:
                with client.connection.transaction():
                    count = take(client)
                if not count:
                    return
                if left is not None:
                    left -= count

    @command(
        app,
        "tail",
        examples=[
            "pgq tail orders",
            "pgq tail orders -f --key customer-7",
            "pgq tail orders -n 1000 --json | pgq publish copies",
            "pgq tail orders --since '10m ago'",
        ],
    )
    def tail(
        topic: TopicName,
        limit: Annotated[
            int, typer.Option("--limit", "-n", min=0, help="the last messages, this many at most")
        ] = 10,
        follow: Follow = False,
        since: Since = None,
        key: Annotated[str | None, typer.Option(help="only those of this key")] = None,
        partition: Partition = None,
        contents: Contents = False,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Show the last messages of a topic, without any group; nothing is moved."""
        with connected(database) as client:
            reader = _Tail(client, topic, partition, key)
            for message in reader.since(since) if since is not None else reader.last(limit):
                _write(message, json, contents)
            sys.stdout.flush()
            if not follow:
                return
            for messages in _following(client, topic, lambda _: reader.new()):
                for message in messages:
                    if reader.wants(message):
                        _write(message, json, contents)
                sys.stdout.flush()

    @command(
        app,
        "peek",
        examples=[
            "pgq peek mail",
            "pgq peek mail --state leased",
            "pgq peek mail --state dead --json",
            "pgq peek --topic orders --group billing",
        ],
        table=True,
    )
    def peek(
        queue: Annotated[
            str | None, typer.Argument(metavar="QUEUE", autocompletion=queue_names)
        ] = None,
        state: Annotated[State | None, typer.Option(help="default: all unfinished")] = None,
        topic: Annotated[str | None, typer.Option(help="with --group, in place of a queue")] = None,
        group: Annotated[str | None, typer.Option(help="the messages that it reads next")] = None,
        limit: Annotated[
            int, typer.Option("--limit", "-n", min=1, max=10_000, help="this many at most")
        ] = 10,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Look at jobs of a queue, or at the next messages of a group; nothing is claimed."""
        if (queue is None) == (topic is None) or (topic is None) != (group is None):
            raise UsageError("say a QUEUE, or --topic and --group")
        if state is State.finished:
            raise UsageError("finished jobs have no content; HINT: pgq jobs QUEUE --state finished")
        with connected(database, read_only=True) as client:
            rows: list[Any]
            if topic is not None and group is not None:
                rows = client.fetch(topic, group, max_messages=limit)
                names = ["partition", "log_offset", "published_at", "key", "content"]
            elif state is State.dead:
                rows = list(client.jobs.fetch_dead_letters(str(queue), max_jobs=limit))
                names = ["job_id", "attempt", "died_at", "key", "last_error", "content"]
            else:
                rows = list(client.jobs.peek_jobs(str(queue), state=state, max_jobs=limit))
                names = ["job_id", "state", "attempt", "due_at", "leased_until", "key", "content"]
        if json:
            for row in rows:
                write_line(as_json(row))
            return
        shown = [
            {name: _content(row) if name == "content" else getattr(row, name) for name in names}
            for row in rows
        ]
        show_rows(shown, columns=names, nothing="nothing there")


class _Tail:
    """Reads a topic from behind, and goes on where it was."""

    def __init__(self, client: Client, topic: str, partition: int | None, key: str | None) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._key = key
        found = [one for one in client.admin.list_topics() if one.topic == topic]
        if not found:
            raise unknown("topic", topic)
        if partition is not None and partition >= found[0].partitions:
            raise CommandError(f'topic "{topic}" has no partition {partition}')
        self._deferred = found[0].deferred
        self._next: dict[int, int] = {}

    def wants(self, message: Message) -> bool:
        return self._key is None or message.key == self._key

    def _offsets(self, moment: datetime | None = None) -> list[Any]:
        if self._deferred:
            # a message that has no offset yet cannot be read
            self._client.bulk.assign_offsets(self._topic)
        return [
            one
            for one in self._client.bulk.list_offsets(self._topic, published_at=moment)
            if self._partition in (None, one.partition)
        ]

    def last(self, most: int) -> list[Message]:
        """The last ones that are wanted, of all partitions together."""
        found: list[Message] = []
        for place in self._offsets():
            self._next[place.partition] = place.last_offset + 1
            behind = place.last_offset
            mine: list[Message] = []
            while behind >= place.first_offset and len(mine) < most:
                first = max(place.first_offset, behind - BLOCK + 1)
                try:
                    block = self._read(place.partition, first, behind)
                except OffsetOutOfRange:  # retention was here meanwhile
                    break
                mine = [one for one in block if self.wants(one)] + mine
                behind = first - 1
            found += mine[-most:] if most else []
        found.sort(key=lambda one: (one.published_at, one.partition, one.log_offset))
        return found[-most:] if most else []

    def since(self, moment: datetime) -> Iterator[Message]:
        """Those that were published then or later, partition by partition."""
        for place in self._offsets(moment):
            self._next[place.partition] = place.log_offset
        while messages := self.new():
            yield from (one for one in messages if self.wants(one))

    def new(self) -> list[Message]:
        """What came behind the last look, a block of each partition at most."""
        found: list[Message] = []
        for place in self._offsets():
            first = max(self._next.get(place.partition, 1), place.first_offset)
            last = min(place.last_offset, first + BLOCK - 1)
            if last < first:
                continue
            try:
                found += self._read(place.partition, first, last)
            except OffsetOutOfRange:
                continue
            self._next[place.partition] = last + 1
        found.sort(key=lambda one: (one.published_at, one.partition, one.log_offset))
        return found

    def _read(self, partition: int, first: int, last: int) -> list[Message]:
        return self._client.bulk.fetch_range(self._topic, partition, first, last)
