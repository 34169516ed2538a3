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

from model.broker import Broker
from model.content import Content
from model.drawn import KEYS
from pgq import Client
from support.clock import Clock

__all__ = ["BEGIN", "Machine", "Run"]

BEGIN = datetime(2030, 1, 1, tzinfo=timezone.utc)

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


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


class Machine(RuleBasedStateMachine):
    """Each rule is a step that both take; what the database answers is checked by the model."""

    run: Run

    def __init__(self) -> None:
        super().__init__()
        self.run.reset()
        self.broker = Broker(now=BEGIN, homes=self.run.homes)
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

    def move_clock(self, by: int) -> None:
        """Let so many seconds pass."""
        self.broker.now += timedelta(seconds=by)
        self.run.set_clock(self.broker.now)

    # -- contents ------------------------------------------------------------------------------

    def content(self, key: str | None = None) -> Content:
        """Something that was never sent before."""
        self.number += 1
        headers = {"number": self.number} if self.number % 3 == 0 else None
        if self.number % 5 == 0:
            return Content(body=bytes([0, 255, self.number % 256]), key=key, headers=headers)
        return Content(payload={"n": self.number}, key=key, headers=headers)

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
