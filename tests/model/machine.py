"""A database and the model, taking the same steps; what the database answers must be right."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import psycopg
from hypothesis.stateful import RuleBasedStateMachine

from model.access import MEMBER, ROLES
from model.broker import Broker
from model.content import Content
from model.drawn import KEYS
from model.groups import Shown
from model.key_limits import Rooms
from model.subscriptions import Seen
from model.topics import Tips
from pgq import Client
from support.client import method
from support.clock import Clock

__all__ = ["BEGIN", "Machine", "Run"]

BEGIN = datetime(2030, 1, 1, tzinfo=timezone.utc)

READING = ("poll", "consume", "claim_offsets", "nack_offsets")
"""What may give messages up."""

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class Run:
    """A database and two members, used for one example after the other."""

    def __init__(self, dsn: str) -> None:
        clock = Clock(dsn)
        clock.install()
        self.bystander = psycopg.connect(dsn)
        self.connections = [psycopg.connect(dsn, autocommit=True) for _ in range(2)]
        for connection in self.connections:
            connection.execute("set time zone 'UTC'")
        self.clients = [Client(connection) for connection in self.connections]
        first = self.connections[0]
        # the clock stands still unless a step moves it, so every time can be foretold
        first.execute(
            f"""
            create or replace function pgq._clock()
            returns timestamptz language sql volatile parallel safe
            as $$
            select timestamptz '{BEGIN.isoformat()}' + '1 microsecond'::interval
                * pg_sequence_last_value('public.clock_offset')
            $$
            """
        )
        tables = first.execute(
            "select string_agg(format('pgq.%I', relname), ', ') from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'p')"
            " and not relispartition and relname not in ('leaf', 'view_key', 'access_change')"
        ).fetchone()
        assert tables is not None
        self._empty = (
            f"truncate {tables[0]} restart identity; update pgq.leaf set free = true where not free"
        )
        for role in (*ROLES, MEMBER):
            first.execute(
                f"do $$ begin create role {role}; exception when duplicate_object then end $$"
            )
            first.execute(f"grant usage on schema pgq to {role}")
            first.execute(f"grant execute on all functions in schema pgq to {role}")
        first.execute(f"grant {ROLES[0]} to {MEMBER}")
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
        self.forget_rooms()
        self.set_clock(BEGIN)

    def forget_rooms(self) -> None:
        """What was counted of queues with a max_unfinished; it would be right a bit later."""
        self.connections[0].execute("delete from pgq.room_count")

    def set_clock(self, moment: datetime) -> None:
        self.connections[0].execute(
            "select setval('public.clock_offset', %s)",
            [(moment - BEGIN) // timedelta(microseconds=1)],
        )

    def tips(self, member: int) -> Tips:
        """The newest offsets as a member sees them."""
        rows = self.connections[member].execute(
            "select t.topic, o.partition, o.last_offset from pgq.topic as t"
            " cross join lateral pgq.list_offsets(t.topic) as o where t.deferred"
        )
        return {(topic, partition): last for topic, partition, last in rows}

    def holders(self, member: int) -> frozenset[int]:
        """The jobs that have a place of a limited key, as a member sees them."""
        rows = self.connections[member].execute(
            "select j.job_id from ("
            "select distinct on (queue_id, limited_key) * from pgq.limited_key"
            " order by queue_id, limited_key, seq desc) as k"
            " inner join pgq.job as j on j.job_id = any(k.job_ids)"
            " where j.ordered_key = k.limited_key and j.due_at is null"
        )
        return frozenset(job_id for (job_id,) in rows)

    def left(self, member: int) -> frozenset[int]:
        """The jobs that have not ended, and the dead letters, as a member sees them."""
        rows = self.connections[member].execute(
            "select job_id from pgq.job union all select job_id from pgq.dead_job"
        )
        return frozenset(job_id for (job_id,) in rows)

    def parked(self, member: int) -> dict[int, datetime]:
        """Since when the jobs are due that wait for room in their keys."""
        rows = self.connections[member].execute(
            "select job_id, due_at from pgq.job where due_at is not null"
        )
        return dict(rows.fetchall())

    def shown(self, member: int) -> Shown:
        """How groups stand, and all dead letters of theirs, in order, as a member sees them."""
        letters = self.connections[member].execute(
            "select p.topic, p.partition,"
            " case when m.partition_id = p.partition_id then m.log_offset end,"
            " m.payload, m.body, m.key, m.headers"
            " from pgq.message as m inner join pgq.partition as p"
            " on p.partition_id in (m.partition_id, (m.partition_id >> 27) + 68719476736)"
            " where m.headers ? 'pgq_group' order by m.partition_id, m.log_offset"
        )
        return Shown(
            {
                (row.topic, row.consumer_group, row.partition): (
                    row.committed_offset,
                    row.attempt,
                    row.last_error,
                )
                for row in self.clients[member].monitor.group_lag()
            },
            [(*row[:3], Content(*row[3:])) for row in letters],
        )

    def jobs(self, member: int) -> Seen:
        """All jobs as a member sees them, finished ones too."""
        rows = self.connections[member].execute(
            "select q.queue, j.job_id, m.payload, m.body, m.key, m.headers from ("
            " select queue_id, job_id, segment, partition_id, log_offset from pgq.job"
            " union all select queue_id, job_id, segment, partition_id, log_offset"
            " from pgq.job_archive) as j inner join pgq.queue as q using (queue_id)"
            " left join pgq.message as m on m.segment = j.segment"
            " and m.partition_id = coalesce(j.partition_id, q.partition_id)"
            " and m.log_offset = coalesce(j.log_offset, j.job_id)"
        )
        return [(row[0], row[1], Content(*row[2:])) for row in rows]

    def close(self) -> None:
        self.connections[0].execute("rollback")
        for role in (MEMBER, *ROLES):
            self.connections[0].execute(f"drop owned by {role}")
            self.connections[0].execute(f"drop role {role}")
        for connection in (self.bystander, *self.connections):
            connection.close()


class Machine(RuleBasedStateMachine):
    """Each rule is a step that both take; what the database answers is checked by the model."""

    run: Run

    def __init__(self) -> None:
        super().__init__()
        self.run.reset()
        self.broker = Broker(now=BEGIN, homes=self.run.homes)
        self.tokens: list[tuple[UUID, Any]] = []
        self.seen: Seen = []
        self.tips: Tips = {}
        self.rooms = Rooms()
        self.left: frozenset[int] = frozenset()
        self.shown = Shown()
        self.number = 0

    # -- taking a step -------------------------------------------------------------------------

    def ask(self, member: int, function: str, /, *arguments: Any, **options: Any) -> Any:
        """What the database answers: a value, or the class of the error."""
        claims = function in ("claim_job", "finish_and_claim")
        queues = self.broker.queues.values()
        rooms = claims and any(q.max_leased_per_key is not None for q in queues)
        holders = self.run.holders(member) if rooms else frozenset()
        try:
            got = method(self.run.clients[member], function)(*arguments, **options)
        except psycopg.Error as error:
            return type(error)
        if self.broker.subscriptions or any(q.pending for q in queues):
            self.seen = self.run.jobs(member)
        if claims and any(q.on_duplicate != "keep" for q in queues):
            self.left = self.run.left(member)
        if rooms:
            self.rooms = Rooms(holders, self.run.parked(member))
        if any(topic.deferred for topic in self.broker.topics.values()):
            self.tips = self.run.tips(member)
        if function in READING and any(
            group.max_attempts is not None
            for topic in self.broker.topics.values()
            for group in topic.groups.values()
        ):
            self.shown = self.run.shown(member)
        else:
            self.shown = Shown()
        return got

    def check(
        self, broker: Broker, function: str, /, got: Any, *arguments: Any, **options: Any
    ) -> None:
        expected: type[BaseException] | None = None
        seen = [] if isinstance(got, type) else self.seen
        tips = {} if isinstance(got, type) else self.tips
        broker.shown = Shown() if isinstance(got, type) else self.shown
        broker.assign(tips)
        broker.tips = tips
        broker.rooms = self.rooms
        broker.left = self.left
        broker.adopt(seen)
        try:
            getattr(broker, function)(got, *arguments, **options)
        except psycopg.Error as error:
            expected = type(error)
        except Exception:
            # the model has stumbled over an error that it did not expect
            if not isinstance(got, type):
                raise
        broker.adopt(seen)
        broker.settled()
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

    def side_by_side(
        self, keep: bool, first: Call, second: Call, changed: Callable[[Broker, Broker], set[int]]
    ) -> None:
        """The second member calls while the transaction of the first is open."""
        function, arguments, options = first
        other_function, other_arguments, other_options = second
        connection = self.run.connections[0]
        broker = copy.deepcopy(self.broker)
        connection.execute("begin")
        try:
            got = self.ask(0, function, *arguments, **options)
            told = self.seen, self.tips, self.shown, self.left
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
            self.seen, self.tips, self.shown, self.left = told
            self.check(self.broker, function, got, *arguments, **options)

    def move_clock(self, by: int) -> None:
        """Let so many seconds pass."""
        self.broker.now += timedelta(seconds=by)
        self.run.set_clock(self.broker.now)

    # -- contents ------------------------------------------------------------------------------

    def content(self, key: str | None = None) -> Content:
        """Something that was never sent before."""
        self.number += 1
        headers = self.headers()
        if self.number % 5 == 0:
            return Content(body=bytes([0, 255, self.number % 256]), key=key, headers=headers)
        return Content(payload={"n": self.number}, key=key, headers=headers)

    def headers(self) -> dict[str, Any] | None:
        """Something that filters ask for."""
        kind = ["odd", "even", 1][self.number % 3]
        routing_key = ["orders.new.eu", "orders.new", "orders", "bills.new.eu"][self.number % 4]
        some = [{"kind": kind}, {"routing_key": routing_key}, None, {"routing_key": routing_key}]
        found = some[self.number // 3 % 4]
        return found if found is None else {"kind": kind, **found}

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
                    headers=self.headers(),
                )
            )
        arrays: dict[str, Any] = {"headers": [c.headers for c in contents]}
        arrays["bodies" if raw else "payloads"] = [c.body if raw else c.payload for c in contents]
        if keyed:
            arrays["keys"] = keys
        return contents, arrays
