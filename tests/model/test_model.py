"""Random operations on a real database and on the model in memory: both must always agree.

``PGQ_MODEL=long`` runs many more, and others each time; by default it is the same every time.
What a failure prints is the shortest way to it that was found.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from model.broker import Broker, Content, Position
from pgq import Client, OffsetRange
from support import Clock

BEGIN = datetime(2030, 1, 1, tzinfo=timezone.utc)
TOPICS = ["blue", "red"]
GROUPS = ["even", "odd"]
QUEUES = ["mail", "work"]
KEYS = ["a", "b", "c", "d"]
LABELS = ["rare", "usual"]

seconds = st.sampled_from([1, 10, 60]).map(lambda n: timedelta(seconds=n))
retentions = st.sampled_from([timedelta(minutes=10), timedelta(hours=1), None])
sizes = st.sampled_from([1, 2, 3, 100])
members = st.sampled_from([0, 1])
topics = st.sampled_from(TOPICS)
groups = st.sampled_from(GROUPS)
queues = st.sampled_from(QUEUES)
labels = st.sampled_from([None, None, *LABELS])
partitions = st.sampled_from([None, None, None, 0, 1, 2])
seldom = st.sampled_from([False] * 7 + [True])
steps = st.sampled_from([0, 0, 0, -1, 1, -5, 5])
# which of several things that only the run knows: what is drawn must not depend on the database
choices = st.integers(0, 11)


class Run:
    """A database and two members, used for one example after the other."""

    def __init__(self, dsn: str) -> None:
        clock = Clock(dsn)
        clock.install()
        self.bystander = psycopg.connect(dsn)
        self.connections = [psycopg.connect(dsn, autocommit=True) for _ in range(2)]
        self.clients = [Client(connection) for connection in self.connections]
        first = self.connections[0]
        # the clock stands still unless a step moves it, so every time can be foretold
        first.execute(
            f"""
            create or replace function pgq._clock()
            returns timestamptz language sql volatile parallel safe
            as $$
            select timestamptz '{BEGIN.isoformat()}' + '1 microsecond'::interval
                * (select last_value from public.clock_offset)
            $$
            """
        )
        tables = first.execute(
            "select string_agg(format('pgq.%I', relname), ', ') from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'p')"
            " and not relispartition and relname not in ('leaf', 'view_key')"
        ).fetchone()
        assert tables is not None
        self._empty = (
            f"truncate {tables[0]} restart identity; update pgq.leaf set free = true where not free"
        )
        self.homes: dict[tuple[str, int], int] = {}
        for count in (1, 2, 3, 4):
            for key in KEYS:
                row = first.execute(
                    "select (hashtextextended(%(key)s, 0) %% %(count)s + %(count)s) %% %(count)s",
                    {"key": key, "count": count},
                ).fetchone()
                assert row is not None
                self.homes[key, count] = row[0]

    def reset(self) -> None:
        """Back to an empty broker at the begin of time."""
        self.bystander.rollback()
        for connection in self.connections:
            connection.execute("rollback") if connection.info.transaction_status else None
        self.connections[0].execute(self._empty)
        self.set_clock(BEGIN)

    def set_clock(self, moment: datetime) -> None:
        self.connections[0].execute(
            "select setval('public.clock_offset', %s)",
            [(moment - BEGIN) // timedelta(microseconds=1)],
        )

    def close(self) -> None:
        for connection in (self.bystander, *self.connections):
            connection.close()


class Comparison(RuleBasedStateMachine):
    """Each rule is a step that both take; what the database answers is checked by the model."""

    run: Run

    def __init__(self) -> None:
        super().__init__()
        self.run.reset()
        self.broker = Broker(BEGIN, self.run.homes)
        self.tokens: list[tuple[UUID, Any]] = []
        self.number = 0

    # -- taking a step -------------------------------------------------------------------------

    def ask(self, member: int, function: str, /, *arguments: Any, **options: Any) -> Any:
        """What the database answers: a value, or the class of the error."""
        try:
            return getattr(self.run.clients[member], function)(*arguments, **options)
        except psycopg.Error as error:
            return type(error)

    def check(
        self, broker: Broker, function: str, /, got: Any, *arguments: Any, **options: Any
    ) -> None:
        expected: type[BaseException] | None = None
        try:
            getattr(broker, function)(got, *arguments, **options)
        except psycopg.Error as error:
            expected = type(error)
        except Exception:
            # the model has stumbled over an error that it did not expect
            if not isinstance(got, type):
                raise
        raised = got if isinstance(got, type) else None
        assert raised is expected, f"{function} raised {raised} instead of {expected}"

    def step(
        self,
        member: int,
        function: str,
        /,
        *arguments: Any,
        undo: bool = False,
        model: tuple[Any, ...] | None = None,
        extra: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Take a step with one member; with ``undo`` in a transaction that is rolled back.

        ``model`` and ``extra`` are the arguments for the model where it takes others.
        """
        broker = copy.deepcopy(self.broker) if undo else self.broker
        with self.transaction(member, undo):
            got = self.ask(member, function, *arguments, **options)
        self.check(broker, function, got, *(model or arguments), **(extra or options))
        return None if undo else got

    @contextmanager
    def transaction(self, member: int, undo: bool) -> Iterator[None]:
        connection = self.run.connections[member]
        if undo:
            connection.execute("begin")
        yield
        if undo:
            connection.execute("rollback")

    def content(self, key: str | None = None) -> Content:
        """Something that was never sent before."""
        self.number += 1
        headers = {"number": self.number} if self.number % 3 == 0 else None
        if self.number % 5 == 0:
            return Content(body=bytes([0, 255, self.number % 256]), key=key, headers=headers)
        return Content(payload={"n": self.number}, key=key, headers=headers)

    # -- topics and groups ---------------------------------------------------------------------

    @initialize(first=st.sampled_from([1, 2, 3]), keep=retentions, skip=seldom, data=st.data())
    def begin(self, first: int, keep: timedelta | None, skip: bool, data: st.DataObject) -> None:
        self.step(0, "create_topic", "blue", partitions=first, retention=keep)
        self.step(0, "create_topic", "red", partitions=2, retention=timedelta(minutes=10))
        for topic in TOPICS:
            out_of_range = "skip" if skip or topic == "red" else "error"
            self.step(0, "create_group", topic, "even", start="earliest", out_of_range=out_of_range)
        self.make_queue("work", data.draw(st.sampled_from([None, 1, 2, 5])), keep, True)
        self.make_queue("mail", 3, timedelta(minutes=10), False)

    def make_queue(
        self, queue: str, max_attempts: int | None, retention: timedelta | None, archive: bool
    ) -> None:
        self.step(
            0,
            "create_queue",
            queue,
            lease=timedelta(seconds=30),
            max_attempts=max_attempts,
            delay=timedelta(0),
            retention=retention,
            backoff=timedelta(seconds=1),
            backoff_max=timedelta(seconds=5),
            backoff_jitter=0.0,
            archive=archive,
        )

    @rule(member=members, topic=topics, group=groups, undo=seldom, data=st.data())
    def rearrange_topics(
        self, member: int, topic: str, group: str, undo: bool, data: st.DataObject
    ) -> None:
        what = data.draw(st.sampled_from(["group", "group", "drop group", "create", "drop topic"]))
        count = data.draw(st.sampled_from([1, 2, 3]))
        keep = data.draw(retentions)
        if what == "group":
            self.step(
                member,
                "create_group",
                topic,
                group,
                start=data.draw(st.sampled_from(["earliest", "latest"])),
                out_of_range=data.draw(st.sampled_from(["error", "skip"])),
                undo=undo,
            )
        elif what == "drop group":
            self.step(member, "drop_group", topic, group, undo=undo)
        elif what == "create":
            self.step(member, "create_topic", topic, partitions=count, retention=keep, undo=undo)
        else:
            self.step(member, "drop_topic", topic, undo=undo)

    @rule(member=members, topic=topics, keep=retentions, more=seldom, undo=seldom)
    def alter_topic(
        self, member: int, topic: str, keep: timedelta | None, more: bool, undo: bool
    ) -> None:
        known = self.broker.topics.get(topic)
        count = len(known.partitions) if known else 1
        self.step(
            member,
            "alter_topic",
            topic,
            partitions=min(count + more, 4),
            retention=keep,
            no_limit=["retention"] if keep is None else [],
            undo=undo,
        )

    # -- publishing ----------------------------------------------------------------------------

    @rule(
        member=members,
        topic=topics,
        key=st.sampled_from([None, None, *KEYS]),
        partition=partitions,
        undo=seldom,
    )
    def publish(
        self, member: int, topic: str, key: str | None, partition: int | None, undo: bool
    ) -> None:
        content = self.content(key)
        self.step(
            member,
            "publish",
            topic,
            **vars(content),
            partition=partition,
            undo=undo,
            model=(topic, content),
            extra={"partition": partition},
        )

    @rule(
        member=members,
        topic=topics,
        keys=st.lists(st.sampled_from([None, *KEYS]), max_size=12),
        keyed=st.booleans(),
        partition=partitions,
        undo=seldom,
    )
    def publish_batch(
        self,
        member: int,
        topic: str,
        keys: list[str | None],
        keyed: bool,
        partition: int | None,
        undo: bool,
    ) -> None:
        contents, arrays = self.batch(keys, keyed)
        self.step(
            member,
            "publish_batch",
            topic,
            **arrays,
            partition=partition,
            undo=undo,
            model=(topic, contents),
            extra={"partition": partition},
        )

    def batch(self, keys: list[str | None], keyed: bool) -> tuple[list[Content], dict[str, Any]]:
        """Contents, and the arrays that say the same: all payloads or all bodies."""
        self.number += 1
        raw = self.number % 4 == 0
        contents = []
        for key in keys:
            self.number += 1
            value = {"n": self.number}
            contents.append(
                Content(
                    payload=None if raw else value,
                    body=str(value).encode() if raw else None,
                    key=key if keyed else None,
                    headers=value if self.number % 3 == 0 else None,
                )
            )
        arrays: dict[str, Any] = {"headers": [c.headers for c in contents]}
        arrays["bodies" if raw else "payloads"] = [c.body if raw else c.payload for c in contents]
        if keyed:
            arrays["keys"] = keys
        return contents, arrays

    # -- consuming -----------------------------------------------------------------------------

    @rule(member=members, topic=topics, group=groups, size=sizes, partition=partitions, undo=seldom)
    def consume(
        self, member: int, topic: str, group: str, size: int, partition: int | None, undo: bool
    ) -> None:
        self.step(
            member, "consume", topic, group, max_messages=size, partition=partition, undo=undo
        )

    @rule(member=members, topic=topics, group=groups, size=sizes, partition=partitions, undo=seldom)
    def claim_and_fetch(
        self, member: int, topic: str, group: str, size: int, partition: int | None, undo: bool
    ) -> None:
        taken = self.step(
            member, "claim_offsets", topic, group, max_messages=size, partition=partition, undo=undo
        )
        if isinstance(taken, OffsetRange):
            found = self.step(
                1 - member,
                "fetch_range",
                topic,
                taken.partition,
                taken.first_offset,
                taken.last_offset,
            )
            assert len(found) == len(taken)

    @rule(member=members, topic=topics, group=groups, size=sizes, partition=partitions)
    def fetch(self, member: int, topic: str, group: str, size: int, partition: int | None) -> None:
        self.step(member, "fetch", topic, group, max_messages=size, partition=partition)

    @rule(
        member=members,
        topic=topics,
        partition=st.sampled_from([0, 0, 0, 1, 1, 7]),
        first=st.integers(-1, 12),
        length=st.integers(0, 12),
    )
    def fetch_range(self, member: int, topic: str, partition: int, first: int, length: int) -> None:
        self.step(member, "fetch_range", topic, partition, first, first + length - 1)

    @rule(
        member=members,
        topic=topics,
        group=groups,
        size=sizes,
        lease=seconds,
        partition=partitions,
        undo=seldom,
    )
    def poll(
        self,
        member: int,
        topic: str,
        group: str,
        size: int,
        lease: timedelta,
        partition: int | None,
        undo: bool,
    ) -> None:
        got = self.step(
            member,
            "poll",
            topic,
            group,
            max_messages=size,
            lease=lease,
            partition=partition,
            undo=undo,
        )
        if isinstance(got, list) and got:
            self.tokens.append((got[0].lease_token, (topic, group, got[0].partition)))

    @rule(
        member=members,
        which=choices,
        stale=seldom,
        what=st.sampled_from(["commit", "commit", "commit", "extend", "release"]),
        ahead=steps,
        lease=seconds,
        undo=seldom,
    )
    def use_partition_lease(
        self,
        member: int,
        which: int,
        stale: bool,
        what: str,
        ahead: int,
        lease: timedelta,
        undo: bool,
    ) -> None:
        leases = [(token, place) for token, place in self.tokens if isinstance(place, tuple)][-4:]
        if not leases:
            return
        token, (topic, group, partition) = leases[which % len(leases)]
        if stale:
            token = uuid4()
        if what == "commit":
            self.commit(member, topic, group, partition, token, ahead, undo)
        elif what == "extend":
            self.step(member, "extend_poll", topic, group, partition, token, lease=lease, undo=undo)
        else:
            self.step(member, "release", topic, group, partition, token, undo=undo)

    @rule(
        member=members,
        topic=topics,
        group=groups,
        partition=st.sampled_from([0, 0, 1, 1, 7]),
        ahead=steps,
        undo=seldom,
    )
    def commit_offset(
        self, member: int, topic: str, group: str, partition: int, ahead: int, undo: bool
    ) -> None:
        self.commit(member, topic, group, partition, None, ahead, undo)

    def commit(
        self,
        member: int,
        topic: str,
        group: str,
        partition: int,
        token: UUID | None,
        ahead: int,
        undo: bool,
    ) -> None:
        position = self.position(topic, group, partition)
        last = 0 if position is None else position.lease_last_offset or position.next_offset
        offset = max(0, last + ahead)
        self.step(
            member, "commit_offset", topic, group, partition, offset, lease_token=token, undo=undo
        )

    def position(self, topic: str, group: str, partition: int) -> Position | None:
        known = self.broker.topics.get(topic)
        if known is None or group not in known.groups or partition >= len(known.partitions):
            return None
        return known.groups[group].positions[partition]

    @rule(member=members, topic=topics, group=groups, undo=seldom, data=st.data())
    def seek(self, member: int, topic: str, group: str, undo: bool, data: st.DataObject) -> None:
        target: dict[str, Any] = data.draw(
            st.one_of(
                st.sampled_from(["earliest", "latest"]).map(lambda start: {"start": start}),
                st.integers(0, 8).map(lambda n: {"log_offset": n}),
                st.integers(-900, 60).map(
                    lambda n: {"published_at": self.broker.now + timedelta(seconds=n)}
                ),
            )
        )
        where = st.sampled_from([0, 1]) if "log_offset" in target else partitions
        self.step(member, "seek", topic, group, partition=data.draw(where), **target, undo=undo)

    # -- the queue -----------------------------------------------------------------------------

    @rule(
        member=members,
        queue=queues,
        label=labels,
        priority=st.sampled_from([0, 0, 0, 1, 9]),
        delay=st.one_of(st.none(), st.none(), seconds),
        undo=seldom,
    )
    def enqueue(
        self,
        member: int,
        queue: str,
        label: str | None,
        priority: int,
        delay: timedelta | None,
        undo: bool,
    ) -> None:
        content = self.content("k" if label else None)
        options = {"label": label, "priority": priority, "delay": delay}
        self.step(
            member,
            "enqueue",
            queue,
            **vars(content),
            **options,
            undo=undo,
            model=(queue, content),
            extra=options,
        )

    @rule(
        member=members,
        queue=queues,
        names=st.lists(labels, max_size=8),
        priority=st.sampled_from([0, 0, 0, 1, 9]),
        delay=st.one_of(st.none(), st.none(), seconds),
        undo=seldom,
    )
    def enqueue_batch(
        self,
        member: int,
        queue: str,
        names: list[str | None],
        priority: int,
        delay: timedelta | None,
        undo: bool,
    ) -> None:
        contents, arrays = self.batch([None] * len(names), True)
        options = {"labels": names, "priority": priority, "delay": delay}
        self.step(
            member,
            "enqueue_batch",
            queue,
            **arrays,
            **options,
            undo=undo,
            model=(queue, contents),
            extra=options,
        )

    @rule(
        member=members,
        queue=queues,
        size=sizes,
        lease=st.one_of(st.none(), seconds),
        label=labels,
        undo=seldom,
    )
    def claim_job(
        self,
        member: int,
        queue: str,
        size: int,
        lease: timedelta | None,
        label: str | None,
        undo: bool,
    ) -> None:
        got = self.step(
            member, "claim_job", queue, max_jobs=size, lease=lease, label=label, undo=undo
        )
        if isinstance(got, list) and got:
            self.tokens.append((got[0].lease_token, [job.job_id for job in got]))

    @rule(member=members, which=choices, stale=seldom, undo=seldom, data=st.data())
    def end_jobs(
        self, member: int, which: int, stale: bool, undo: bool, data: st.DataObject
    ) -> None:
        what = data.draw(st.sampled_from(["ack", "ack", "nack", "nack", "archive_job", "extend"]))
        options: dict[str, Any] = {}
        if what == "nack":
            options["delay"] = data.draw(st.one_of(st.none(), st.just(timedelta(0)), seconds))
            options["error"] = data.draw(st.sampled_from([None, "out of order", "no answer"]))
        elif what == "archive_job":
            options["outcome"] = data.draw(st.sampled_from(["done", "refused"]))
            options["result"] = data.draw(st.sampled_from([{"sum": 3}, [1, 2], "ok"]))
        elif what == "extend":
            what = "extend_lease"
            options["lease"] = data.draw(st.one_of(st.none(), seconds))
        batch = data.draw(st.booleans())
        number = data.draw(choices)

        claims = [(token, ids) for token, ids in self.tokens if isinstance(ids, list)][-4:]
        if not claims:
            return
        token, ids = claims[which % len(claims)]
        if stale:
            token = uuid4()
        if batch:
            self.step(member, f"{what}_batch", ids[: number + 1], token, **options, undo=undo)
        else:
            self.step(member, what, ids[number % len(ids)], token, **options, undo=undo)

    @rule(member=members, queue=queues, which=choices, undo=seldom, data=st.data())
    def look_after_queue(
        self, member: int, queue: str, which: int, undo: bool, data: st.DataObject
    ) -> None:
        what = data.draw(
            st.sampled_from(
                ["redrive", "redrive", "redrive", "pause", "resume", "purge", "alter", "drop"]
            )
        )
        if what == "redrive":
            known = self.broker.queues.get(queue)
            dead = [None, None, 0, *(known.dead if known else ())]
            self.step(member, "redrive", queue, job_id=dead[which % len(dead)], undo=undo)
        elif what == "pause":
            # a queue that stays paused would show little
            self.step(member, "pause_queue", queue, undo=undo)
            self.step(member, "claim_job", queue, max_jobs=1, lease=None, label=None)
            self.step(member, "resume_queue", queue)
        elif what == "resume":
            self.step(member, "resume_queue", queue, undo=undo)
        elif what == "purge":
            self.step(member, "purge_queue", queue, dead_only=data.draw(st.booleans()), undo=undo)
        elif what == "alter":
            self.step(
                member,
                "alter_queue",
                queue,
                lease=data.draw(seconds),
                max_attempts=data.draw(st.sampled_from([1, 2, 5])),
                delay=data.draw(st.sampled_from([timedelta(0), timedelta(seconds=10)])),
                archive=data.draw(st.booleans()),
                undo=undo,
            )
        else:
            keep = data.draw(retentions)
            self.step(member, "drop_queue", queue, undo=undo)
            self.step(member, "resume_queue", queue)
            if queue not in self.broker.queues:
                self.make_queue(queue, 3, keep, True)

    # -- side by side --------------------------------------------------------------------------

    @rule(
        topic=topics,
        group=groups,
        sizes=st.tuples(sizes, sizes),
        keep=st.booleans(),
        data=st.data(),
    )
    def consume_side_by_side(
        self,
        topic: str,
        group: str,
        sizes: tuple[int, int],
        keep: bool,
        data: st.DataObject,
    ) -> None:
        """Another member reads while the transaction of the first is open."""
        calls: list[tuple[str, dict[str, Any]]] = []
        for size in sizes:
            options: dict[str, Any] = {"max_messages": size, "partition": None}
            function = data.draw(st.sampled_from(["consume", "poll", "claim_offsets"]))
            if function == "poll":
                options["lease"] = timedelta(seconds=10)
            calls.append((function, options))
        (first, options), (second, other_options) = calls

        def positions(broker: Broker) -> list[Position]:
            known = broker.topics.get(topic)
            return known.groups[group].positions if known and group in known.groups else []

        self.side_by_side(
            keep,
            (first, (topic, group), options),
            (second, (topic, group), other_options),
            lambda before, after: {
                n
                for n, (old, new) in enumerate(
                    zip(positions(before), positions(after), strict=True)
                )
                if old != new
            },
        )

    @rule(queue=queues, sizes=st.tuples(sizes, sizes), label=labels, keep=st.booleans())
    def claim_side_by_side(
        self, queue: str, sizes: tuple[int, int], label: str | None, keep: bool
    ) -> None:
        """Another worker claims while the transaction of the first is open."""
        one, other = (
            {"max_jobs": size, "lease": None, "label": name}
            for size, name in zip(sizes, (label, None), strict=True)
        )

        def changed(before: Broker, after: Broker) -> set[int]:
            old, new = before.queues[queue].jobs, after.queues[queue].jobs
            return {n for n in old if new.get(n) != old[n]}

        if queue in self.broker.queues:
            self.side_by_side(
                keep, ("claim_job", (queue,), one), ("claim_job", (queue,), other), changed
            )

    def side_by_side(
        self,
        keep: bool,
        first: tuple[str, tuple[Any, ...], dict[str, Any]],
        second: tuple[str, tuple[Any, ...], dict[str, Any]],
        changed: Callable[[Broker, Broker], set[int]],
    ) -> None:
        function, arguments, options = first
        other_function, other_arguments, other_options = second
        connection = self.run.connections[0]
        broker = copy.deepcopy(self.broker)
        connection.execute("begin")
        try:
            got = self.ask(0, function, *arguments, **options)
            failed = isinstance(got, type)
            self.check(broker, function, got, *arguments, **options)
            held = set() if failed else changed(self.broker, broker)
            if failed:
                connection.execute("rollback")
                connection.execute("begin")
            other = self.ask(1, other_function, *other_arguments, **other_options)
            self.check(
                self.broker,
                other_function,
                other,
                *other_arguments,
                **other_options,
                **({} if isinstance(other, type) else {"held": held}),
            )
        finally:
            connection.execute("commit" if keep else "rollback")
        if keep and not failed:
            self.check(self.broker, function, got, *arguments, **options)

    @rule(topic=topics, keep=st.booleans())
    def publish_side_by_side(self, topic: str, keep: bool) -> None:
        """Two publishers without keys do not wait for each other."""
        known = self.broker.topics.get(topic)
        if known is None or len(known.partitions) < 2:
            return
        contents = [self.content(), self.content()]
        broker = copy.deepcopy(self.broker)
        connection = self.run.connections[0]
        connection.execute("begin")
        try:
            got = self.ask(0, "publish", topic, **vars(contents[0]))
            self.check(broker, "publish", got, topic, contents[0], partition=None)
            other = self.ask(1, "publish", topic, **vars(contents[1]))
            self.check(
                self.broker,
                "publish",
                other,
                topic,
                contents[1],
                partition=None,
                held={got.partition},
            )
        finally:
            connection.execute("commit" if keep else "rollback")
        if keep:
            self.check(self.broker, "publish", got, topic, contents[0], partition=None)

    # -- time, and what goes on beside ---------------------------------------------------------

    @rule(by=st.sampled_from([1, 5, 30, 200, 700]))
    def advance_clock(self, by: int) -> None:
        self.broker.now += timedelta(seconds=by)
        self.run.set_clock(self.broker.now)

    @rule(member=members, times=st.sampled_from([1, 1, 3]), undo=seldom)
    def cleanup(self, member: int, times: int, undo: bool) -> None:
        for _ in range(times):
            self.step(member, "cleanup", undo=undo)
            self.observe_retention()

    @rule(by=st.sampled_from([200, 700, 4000]))
    def let_time_pass(self, by: int) -> None:
        """As in a life with regular cleanups: segments are sealed, closed, truncated."""
        for _ in range(3):
            self.cleanup(0, 2, False)
            self.advance_clock(by)
        self.cleanup(0, 2, False)

    def observe_retention(self) -> None:
        for row in self.run.clients[0].topic_stats():
            known = self.broker.topics[row.topic].partitions[row.partition]
            if row.first_offset != known.first_offset:
                self.broker.forget(row.topic, row.partition, row.first_offset)
        left: dict[str, set[int]] = {queue: set() for queue in self.broker.queues}
        for job in self.run.clients[0].archived_jobs():
            left[job.queue].add(job.job_id)
        for queue, job_ids in left.items():
            self.broker.forget_archived(queue, job_ids)

    @rule()
    def hold_a_snapshot(self) -> None:
        """Somebody's transaction stays open, or ends: the floor and the segments must wait."""
        if self.run.bystander.info.transaction_status:
            self.run.bystander.rollback()
        else:
            self.run.bystander.execute("select pg_current_xact_id()")

    # -- looking -------------------------------------------------------------------------------

    @invariant()
    def lag_is_known(self) -> None:
        lag = self.run.clients[1].group_lag()
        for row in lag:
            if row.topic in self.broker.topics:
                self.broker.skipped(row.topic, row.consumer_group, row.partition, row.position)
        expected = set()
        for name, topic in self.broker.topics.items():
            for group_name, group in topic.groups.items():
                for number, (position, log) in enumerate(
                    zip(group.positions, topic.partitions, strict=True)
                ):
                    first = max(position.next_offset, log.first_offset)
                    oldest = log.times[first - 1] if first <= log.tip else None
                    until = position.leased_until
                    expected.add(
                        (
                            name,
                            group_name,
                            number,
                            position.next_offset - 1,
                            log.tip,
                            log.tip - position.next_offset + 1,
                            oldest,
                            until if until is not None and until > self.broker.now else None,
                        )
                    )
        assert {
            (
                row.topic,
                row.consumer_group,
                row.partition,
                row.position,
                row.tip,
                row.lag,
                row.oldest_published_at,
                row.leased_until,
            )
            for row in lag
        } == expected

    @rule()
    def look(self) -> None:
        """Everything that can be seen is as the model has it."""
        self.look_at_topics(self.run.clients[0])
        self.look_at_queues(self.run.clients[1])

    def look_at_topics(self, client: Client) -> None:
        assert [topic.topic for topic in client.list_topics()] == sorted(self.broker.topics)
        assert [(g.topic, g.consumer_group) for g in client.list_groups()] == [
            (topic, group)
            for topic, known in sorted(self.broker.topics.items())
            for group in sorted(known.groups)
        ]
        minute_ago = self.broker.now - timedelta(minutes=1)
        expected = [
            (
                name,
                n,
                p.first_offset,
                p.tip,
                p.tip - p.first_offset + 1,
                p.tip + 1 - p.offset_at(minute_ago),
            )
            for name, topic in sorted(self.broker.topics.items())
            for n, p in enumerate(topic.partitions)
        ]
        assert expected == sorted(
            (
                row.topic,
                row.partition,
                row.first_offset,
                row.tip,
                row.messages,
                row.published_last_minute,
            )
            for row in client.topic_stats()
        )
        for name, number, first, tip, *_ in expected:
            self.step(0, "fetch_range", name, number, first, tip)

    def look_at_queues(self, client: Client) -> None:
        now = self.broker.now
        for row in client.queue_stats():
            queue = self.broker.queues[row.queue]
            due = self.broker.due(queue)
            leased = [
                job for job in queue.jobs.values() if job.visible_at > now and job.lease_token
            ]
            expired = [
                job
                for job in queue.jobs.values()
                if job.expires_at is not None and job.expires_at <= now and job not in leased
            ]
            rest = len(queue.jobs) - len(due) - len(leased) - len(expired)
            assert (row.ready, row.leased, row.delayed, row.expired, row.dead) == (
                len(due),
                len(leased),
                rest,
                len(expired),
                len(queue.dead),
            )
            oldest = min((job.visible_at for job in due), default=now)
            assert row.oldest_ready_seconds == (now - oldest).total_seconds()
            assert row.paused is queue.paused
        assert {row.queue for row in client.queue_stats()} == set(self.broker.queues)

        assert {
            (
                d.queue,
                d.job_id,
                d.attempt,
                d.last_error,
                d.died_at,
                d.priority,
                d.label,
                str(Content(d.payload, d.body, d.key, d.headers)),
            )
            for d in client.dead_letters()
        } == {
            (
                name,
                n,
                e.attempt,
                e.last_error,
                e.ended_at,
                e.job.priority,
                e.job.label,
                str(e.job.content),
            )
            for name, queue in self.broker.queues.items()
            for n, e in queue.dead.items()
        }
        assert {
            (
                a.queue,
                a.job_id,
                a.outcome,
                a.attempt,
                a.enqueued_at,
                a.ended_at,
                str(a.result),
                a.last_error,
                a.label,
                str(Content(a.payload, a.body, a.key, a.headers)),
            )
            for a in client.archived_jobs()
        } == {
            (
                name,
                n,
                e.outcome,
                e.attempt,
                e.job.enqueued_at,
                e.ended_at,
                str(e.result),
                e.last_error,
                e.job.label,
                str(e.job.content),
            )
            for name, queue in self.broker.queues.items()
            for n, e in queue.archived.items()
        }

    def teardown(self) -> None:
        self.run.bystander.rollback()
        self.look()


@pytest.fixture
def run(dsn: str) -> Iterator[Run]:
    run = Run(dsn)
    yield run
    run.close()


def test_database_and_model_agree(run: Run) -> None:
    class Machine(Comparison):
        pass

    Machine.run = run
    long = os.environ.get("PGQ_MODEL") == "long"
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=1000 if long else 60,
            stateful_step_count=80 if long else 50,
            derandomize=not long,
            print_blob=False,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
