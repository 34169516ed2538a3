"""A database with pgq for trials, and connections to it that do not wait for their answers."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from explorer.access_calls import HEIR, ROLES
from explorer.gates import install_gates
from support.clock import Clock
from support.house import install_script

__all__ = ["Answer", "Database", "Link"]

Row = dict[str, Any]

_INTEGERS = {20, 21, 23}
_BOOLEAN = 16

# Two ways to more than a thousand rows in a group's journal: leases that are extended, where there
# is something to read, and else seeks, which end where the group stood, or at the earliest.
_HELPERS = """
create function public.fill_journal(topic text, consumer_group text, partition integer)
returns text language plpgsql as $$
declare
    token uuid;
begin
    select lease_token into token
    from pgq.poll(topic, consumer_group, 1, partition, '1 minute') limit 1;
    if token is not null then
        for n in 1 .. 1005 loop
            perform pgq.extend_poll(topic, consumer_group, partition, token);
        end loop;
        perform pgq.release_poll(topic, consumer_group, partition, token);
        return 'polled';
    end if;
    for n in 1 .. 1006 loop
        perform pgq.seek(topic, consumer_group, partition, start => 'earliest');
    end loop;
    return 'earliest';
end
$$;
"""


class Answer:
    """What a statement returned: its rows, or the code and the text of its error."""

    def __init__(self, rows: list[Row], code: str | None = None, message: str = "") -> None:
        self.rows = rows
        self.code = code
        self.message = message

    def __str__(self) -> str:
        if self.code is not None:
            return f"{self.code} {self.message}"
        return "; ".join(" ".join(f"{k}={v}" for k, v in row.items()) for row in self.rows[:8])


class Link:
    """A connection whose statements are sent and then looked after."""

    def __init__(self, dsn: str) -> None:
        self.connection = pq.PGconn.connect(dsn.encode())
        if self.connection.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(self.connection.error_message.decode())
        self.connection.nonblocking = 1
        self.pid = self.connection.backend_pid
        self.fileno = self.connection.socket

    def send(self, statement: str) -> None:
        self.connection.send_query(statement.encode())
        while self.connection.flush():
            select.select([], [self.fileno], [])

    def ready(self) -> bool:
        """Whether the answer is there."""
        self.connection.consume_input()
        return not self.connection.is_busy()

    def receive(self) -> Answer:
        """The answer of the last statement that was sent, or the first error."""
        answer = Answer([])
        while (result := self.connection.get_result()) is not None:
            if result.status == pq.ExecStatus.TUPLES_OK:
                answer = Answer(_rows(result)) if answer.code is None else answer
            elif result.status == pq.ExecStatus.FATAL_ERROR:
                code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"?").decode()
                text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
                detail = (result.error_field(pq.DiagnosticField.MESSAGE_DETAIL) or b"").decode()
                answer = Answer([], code, f"{text} {detail}".strip())
        return answer

    def ask(self, statement: str) -> Answer:
        """Send a statement and wait for its answer."""
        self.send(statement)
        while not self.ready():
            select.select([self.fileno], [], [], 60)
        return self.receive()

    def set_clock(self, seconds: int) -> None:
        """Let the clock of pgq be ahead by so many seconds."""
        self.rows(f"select setval('public.clock_offset', {seconds} * 1000000::bigint)")

    def rows(self, statement: str) -> list[Row]:
        """The rows of a statement that must not fail."""
        answer = self.ask(statement)
        if answer.code is not None:
            raise RuntimeError(f"{statement}: {answer}")
        return answer.rows

    @property
    def within(self) -> bool:
        """Whether a transaction is open, a failed one too."""
        return self.connection.transaction_status != pq.TransactionStatus.IDLE

    def close(self) -> None:
        self.connection.finish()


def _rows(result: Any) -> list[Row]:
    names = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
    types = [result.ftype(n) for n in range(result.nfields)]
    return [
        {name: _value(result.get_value(row, n), types[n]) for n, name in enumerate(names)}
        for row in range(result.ntuples)
    ]


def _value(raw: bytes | None, oid: int) -> Any:
    if raw is None:
        return None
    if oid in _INTEGERS:
        return int(raw)
    if oid == _BOOLEAN:
        return raw == b"t"
    return raw.decode()


class Database:
    """A database of its own on a server, emptied for each trial instead of made anew."""

    def __init__(
        self, dsn: str, name: str, *, statement_timeout: str = "20s", gates: bool = False
    ) -> None:
        self._server_dsn = dsn
        self._gates = gates
        self.name = name
        self.dsn = make_conninfo(dsn, dbname=name)
        self._statement_timeout = statement_timeout
        self.create()

    def create(self) -> None:
        """Make it, or make it anew."""
        with psycopg.connect(self._server_dsn, autocommit=True) as connection:
            self._drop(connection)
            connection.execute(
                sql.SQL("create database {} template template0").format(sql.Identifier(self.name))
            )
            for setting, value in (
                ("statement_timeout", self._statement_timeout),
                ("deadlock_timeout", "10ms"),
                ("client_min_messages", "error"),
                ("synchronous_commit", "off"),
                ("timezone", "UTC"),
            ):
                connection.execute(
                    sql.SQL("alter database {} set {} = {}").format(
                        sql.Identifier(self.name), sql.SQL(setting), sql.Literal(value)
                    )
                )
        with psycopg.connect(self.dsn) as connection:
            connection.execute(_with_short_runs(install_script()))
            connection.execute(_HELPERS)
            _admit_roles(connection)
        Clock(self.dsn).install()
        with psycopg.connect(self.dsn) as connection:
            # how long cleanup waits is up to the trial
            connection.execute("alter routine pgq.cleanup reset lock_timeout")
            self._make_emptying(connection)
        self.house = Link(self.dsn)
        # a session of its own: each change of the setting makes a session forget its plans
        self._broom = Link(self.dsn)
        self._broom.rows("set session_replication_role = replica")
        if self._gates:
            install_gates(self.house)

    def _make_emptying(self, connection: psycopg.Connection[Any]) -> None:
        """A function that brings every table back to what it held when it was installed."""
        connection.execute("create schema explorer")
        lines = ["perform setval('public.clock_offset', 0)"]
        tables = connection.execute(
            "select c.oid::regclass::text, c.relname from pg_class as c"
            " where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p')"
            " and not c.relispartition order by 2"
        ).fetchall()
        for table, name in tables:
            lines.append(f"delete from {table}")
            held = connection.execute(f"select count(*) from {table}").fetchone()
            if held is not None and held[0]:
                connection.execute(f"create table explorer.{name} as table {table}")
                lines.append(f"insert into {table} overriding system value table explorer.{name}")
        sequences = connection.execute(
            "select oid::regclass::text from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind = 'S' order by 1"
        ).fetchall()
        # numbers of one trial must not look like those of another
        lines += [f"perform setval('{sequence}', 1, false)" for (sequence,) in sequences]
        body = ";\n".join(lines)
        connection.execute(
            "create function explorer.empty() returns void language plpgsql"
            f" as $$ begin {body}; end $$".encode()
        )

    def empty(self) -> None:
        """Make it as it was when it was new; nobody else may be within a transaction."""
        self._broom.rows("select explorer.empty()")

    def vacuum(self) -> None:
        """Remove what earlier trials left behind."""
        self.house.rows("vacuum")

    def blockers(self, pids: Sequence[int]) -> dict[int, list[int]]:
        """By whom each of these processes is blocked now."""
        listed = ",".join(str(pid) for pid in pids)
        rows = self.house.rows(
            "select p.pid, b.by from unnest(array[" + listed + "]) as p (pid)"
            " left join unnest(pg_blocking_pids(p.pid)) as b (by) on true"
        )
        found: dict[int, list[int]] = {pid: [] for pid in pids}
        for row in rows:
            if row["by"] is not None:
                found[row["pid"]].append(row["by"])
        return found

    def _drop(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(self.name))
        )

    def close(self) -> None:
        """End its own sessions."""
        self.house.close()
        self._broom.close()

    def drop(self) -> None:
        """Remove it."""
        self.close()
        with psycopg.connect(self._server_dsn, autocommit=True) as connection:
            self._drop(connection)
            for role in (HEIR, *ROLES):
                # another database may still have them
                with suppress(psycopg.errors.DependentObjectsStillExist):
                    connection.execute(f"drop role if exists {role}")


def _admit_roles(connection: psycopg.Connection[Any]) -> None:
    """Roles that may call everything, as far as EXECUTE goes."""
    for role in (*ROLES, HEIR):
        with suppress(psycopg.errors.DuplicateObject), connection.transaction():
            connection.execute(f"create role {role}")
        connection.execute(f"grant usage on schema pgq, public to {role}")
        connection.execute(f"grant execute on all functions in schema pgq to {role}")
    connection.execute(f"grant {ROLES[0]} to {HEIR}")


def wait_for(links: Sequence[Link], seconds: float) -> None:
    """Return when one of the links has something to say, or after this time."""
    select.select([link.fileno for link in links], [], [], seconds)


def now() -> float:
    return time.monotonic()


def _with_short_runs(script: str) -> str:
    """So that the few messages of a trial are taken into the log as runs, and not copied."""
    usual = "least_messages constant integer := 500;"
    assert usual in script
    return script.replace(usual, "least_messages constant integer := 1;")
