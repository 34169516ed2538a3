"""A client of a fault run.

It does the work of its role, transaction by transaction, until it is killed, and writes down
before each what it is about to do, and behind it what it was told. SIGTERM asks one that produces
to end what it has begun, and no more; it ends by itself then.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from fault_runs.journal import Entry, Journal

__all__ = ["LEVELS", "Client", "Role", "RollBack"]

LEVELS = ["read committed"] * 3 + ["repeatable read", "serializable"]

UNSYNCED = "synchronous replication"
"""In the warning of a commit that a cancel kept from waiting for the standby: nothing is sure."""


class RollBack(Exception):
    """Raised in a transaction to give it up."""


class Client:
    """A session, and the journal of what is done in it; it connects again when it has lost it."""

    def __init__(self, name: str, dsn: str, path: Path, seed: str, enough: Path | None) -> None:
        self.name = name
        self.rng = random.Random(seed)
        self.journal = Journal(path)
        self.path = path
        self.ending = False
        self._enough = enough
        self.dsn = dsn
        self._units = itertools.count()
        self._numbers = itertools.count()
        self._unsynced = False
        self.connection: psycopg.Connection[Any]

    def connect(self) -> psycopg.Connection[Any]:
        """Another session."""
        connection = psycopg.connect(
            self.dsn,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=5,
            application_name="pgq_fault_run",
        )
        connection.add_notice_handler(self._noticed)
        return connection

    def _noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        self._unsynced = self._unsynced or UNSYNCED in (notice.message_primary or "")

    def new_name(self) -> str:
        """One that no other message or job has."""
        return f"{self.name}.{next(self._numbers)}"

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        return self.connection.execute(query.encode(), values).fetchall()

    @contextlib.contextmanager
    def unit(self, role: str, *, level: str = "", single: bool = False, **about: Any) -> Any:
        """A transaction, or with ``single`` one statement that is committed by itself.

        What is put into the dictionary that it gives is written down once it has committed.
        """
        number = f"{self.name}/{next(self._units)}"
        self.journal.note("begin", unit=number, role=role, **about)
        told: Entry = {}
        self._unsynced = False
        try:
            if single:
                yield told
            else:
                with self.connection.transaction():
                    self._begin(level)
                    yield told
        except RollBack:
            self.journal.note("failed", unit=number, code="rolled back", sure=True)
            return
        except psycopg.Error as error:
            code = error.sqlstate or ""
            lost = self.connection.closed or code[:2] in ("", "08") or code[:3] == "57P"
            self.journal.note("failed", unit=number, code=code, sure=not lost, error=str(error))
            # a cancel may have met the rollback
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                self.connection.close()
            raise
        if self._unsynced:
            self.journal.note("failed", unit=number, code="unsynced", sure=False)
        else:
            self.journal.note("done", unit=number, **told)

    def _begin(self, level: str) -> None:
        if level:
            self.ask_nothing(f"set transaction isolation level {level}")
        if self.rng.random() < 0.02:
            which = self.rng.choice(["statement_timeout", "lock_timeout"])
            self.ask_nothing(f"set local {which} = {self.rng.choice([1, 2, 5, 20])}")
        elif self.rng.random() < 0.01 and not self.ending:
            # with an id that is old when it calls pgq, and a snapshot too above READ COMMITTED
            self.ask("select pg_current_xact_id()")
            time.sleep(self.rng.random() * 3)

    def ask_nothing(self, command: str) -> None:
        """Run what gives no rows."""
        self.connection.execute(command.encode())

    def work(self, role: Role) -> None:
        """Do one step after the other, over lost connections, until it is told to end."""
        while not (self.ending and role.idle()):
            try:
                with self.connect() as self.connection:
                    while not (self.connection.closed or (self.ending and role.idle())):
                        if self._enough and not self.ending and self._enough.exists():
                            role.rest()
                            continue
                        try:
                            role.step()
                        except psycopg.Error:
                            time.sleep(self.rng.random() * 0.05)
            except psycopg.Error:
                time.sleep(0.05)


class Role:
    """What a client does."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.rng = client.rng

    def step(self) -> None:
        """Do something; an error of the database may come out."""
        raise NotImplementedError

    def rest(self) -> None:
        """Wait a little, where there was nothing to do."""
        time.sleep(0.02 + self.rng.random() * 0.1)

    def idle(self) -> bool:
        """Whether nothing is left half done."""
        return True
