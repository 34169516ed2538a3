"""What holds old rows back: a snapshot, a transaction id, a prepared transaction, a slot.

A replication slot holds rows of ordinary tables only by its xmin, which a standby with
hot_standby_feedback names; here a connection takes the place of the standby and sends that one
message, so the slot is left with it as if the standby had gone away in a long query. A logical slot
has a catalog_xmin, which holds rows of catalogs alone.
"""

from __future__ import annotations

import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Any

import psycopg
from benchmarks.harness import Bench, Database
from benchmarks.pgbench import BenchmarkError
from psycopg import pq

__all__ = ["HOLDS", "Hold", "Overlapping"]

PATIENCE = 10.0


class Hold(ABC):
    """Something that is held in some databases of a server as long as the block lasts."""

    title: str
    settings: Mapping[str, str] = {}
    """What the server needs for it."""

    def __init__(self, bench: Bench, databases: Sequence[Database]) -> None:
        self.bench = bench
        self.databases = databases
        self.stack = ExitStack()

    @abstractmethod
    def begin(self) -> None:
        """Hold it."""

    def __enter__(self) -> None:
        try:
            self.begin()
        except BaseException:
            self.stack.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stack.close()


class Nothing(Hold):
    """What the others are compared with."""

    title = "nothing held"

    def begin(self) -> None:
        return


class OldSnapshot(Hold):
    """A session in each database, idle in a transaction that has looked at something."""

    title = "idle in transaction, with a snapshot"

    def begin(self) -> None:
        for database in self.databases:
            session = self.stack.enter_context(database.connect())
            session.execute("begin isolation level repeatable read")
            session.execute("select count(*) from pg_class")


class OldId(Hold):
    """A session in each database, idle in a transaction that has an id, as if it had written."""

    title = "idle in transaction, with an id"

    def begin(self) -> None:
        for database in self.databases:
            session = self.stack.enter_context(database.connect())
            session.execute("begin")
            session.execute("select pg_current_xact_id()")


class Prepared(Hold):
    """A prepared transaction in each database that nobody ends."""

    title = "a prepared transaction"
    settings: Mapping[str, str] = {"max_prepared_transactions": "10"}

    def begin(self) -> None:
        for number, database in enumerate(self.databases):
            with database.connect() as session:
                session.execute("begin")
                session.execute("select pg_current_xact_id()")
                session.execute(f"prepare transaction 'held {number}'".encode())
            self.stack.callback(database.run, f"rollback prepared 'held {number}'")


class Standby(Hold):
    """The physical slot of a standby that went away in a query."""

    title = "a slot with xmin (hot_standby_feedback)"

    def begin(self) -> None:
        main = self.bench.database("postgres")
        main.run("select pg_create_physical_replication_slot('held', true)")
        self.stack.callback(main.run, "select pg_drop_replication_slot('held')")
        _feed_back(main, "held")
        _wait(main, "held", "not active")


class Logical(Hold):
    """A logical slot in each database that nobody reads from."""

    title = "a logical slot (catalog_xmin)"
    settings: Mapping[str, str] = {"wal_level": "logical"}

    def begin(self) -> None:
        for number, database in enumerate(self.databases):
            database.run(f"select pg_create_logical_replication_slot('held_{number}', 'pgoutput')")
            self.stack.callback(database.run, f"select pg_drop_replication_slot('held_{number}')")


HOLDS: Mapping[str, type[Hold]] = {
    "nothing": Nothing,
    "snapshot": OldSnapshot,
    "id": OldId,
    "standby": Standby,
    "logical": Logical,
    "prepared": Prepared,
}


def _feed_back(main: Database, slot: str) -> None:
    """Say to a slot, as a standby does, that the oldest row needed is that of now."""
    xid = int(main.row("select pg_current_xact_id()::text")[0])
    lsn = main.row("select pg_current_wal_lsn()::text")[0]
    # not ended by a commit, which it would not take
    with closing(psycopg.connect(main.dsn, replication="yes", autocommit=True)) as standby:
        wire = standby.pgconn
        result = wire.exec_(f"START_REPLICATION SLOT {slot} PHYSICAL {lsn}".encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise BenchmarkError(f"no replication: {wire.error_message.decode()}")
        # 'h': when, the oldest id and its epoch, the same for catalogs, of which there is none
        message = struct.pack("!cqIIII", b"h", 0, xid & 0xFFFFFFFF, xid >> 32, 0, 0)
        wire.put_copy_data(message)
        wire.flush()
        _wait(main, slot, "xmin is not null")


def _wait(main: Database, slot: str, state: str) -> None:
    end = time.monotonic() + PATIENCE
    query = f"select {state} from pg_replication_slots where slot_name = '{slot}'"
    while not main.row(query)[0]:
        if time.monotonic() > end:
            raise BenchmarkError(f"the slot {slot} is not yet: {state}")
        time.sleep(0.05)


class Overlapping:
    """Two sessions whose long transactions overlap, so that at any time one is open at least."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.open: dict[tuple[bool, int], psycopg.Connection[Any]] = {}

    def __enter__(self) -> Overlapping:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def keep(self, now: float, hold: float, *, with_id: bool) -> None:
        """Begin the transactions that belong to this moment, and end those that do not.

        One begins every half of their length, so two are open from the first half on.
        """
        newest = int(now / (hold / 2))
        if (with_id, newest) not in self.open:
            session = psycopg.connect(self.dsn, autocommit=True)
            self.open[with_id, newest] = session
            session.execute("begin isolation level repeatable read")
            session.execute("select count(*) from pg_class")
            if with_id:
                session.execute("select pg_current_xact_id()")
        wanted = {(with_id, newest), (with_id, newest - 1)}
        for which in set(self.open) - wanted:
            self.open.pop(which).close()

    def end(self) -> None:
        """End all of them."""
        for which in list(self.open):
            self.open.pop(which).close()
