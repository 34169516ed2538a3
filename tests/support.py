"""What tests share and is no fixture."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import sql

from pgq.embedded._cluster import free_port

__all__ = [
    "MIGRATIONS",
    "ROOT",
    "Clock",
    "Postgrest",
    "backend_pid",
    "install_script",
    "load_pgq",
    "refuse",
    "wait_until",
    "wait_until_blocked",
]

ROOT = Path(__file__).resolve().parents[1]
MIGRATIONS = ROOT / "migrations"

AnyConnection = psycopg.Connection[Any]
Result = TypeVar("Result")


def install_script() -> str:
    """The script for a fresh install, without psql's lines."""
    from build import migration_path  # python/tools is on the path of the tests

    lines = migration_path().read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("\\echo"))


def load_pgq(**parameters: Any) -> None:
    """Install pgq into a database, in one transaction."""
    with psycopg.connect(**parameters) as connection:
        connection.execute(install_script())


def refuse(broken: Iterable[object]) -> None:
    """Fail with all that is broken, one to a line; pass when nothing is."""
    found = [str(entry) for entry in broken]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def wait_until(condition: Callable[[], Result], timeout: float = 10.0, what: str = "") -> Result:
    """Poll until the condition holds and return what it returned; fail after the timeout."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain {what}".rstrip())
        time.sleep(0.005)


def backend_pid(connection: AnyConnection) -> int:
    """The process id of a connection's server process."""
    return connection.info.backend_pid


def wait_until_blocked(observer: AnyConnection, pid: int, timeout: float = 10.0) -> None:
    """Return when the server process waits for a lock, as ``observer`` sees it.

    The observer must be in autocommit: pg_stat_activity is a snapshot within a transaction.
    """

    def blocked() -> bool:
        row = observer.execute(
            "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", [pid]
        ).fetchone()
        return bool(row and row[0])

    wait_until(blocked, timeout, f"for process {pid} to block")


@dataclass(frozen=True)
class Clock:
    """The time by which pgq counts in one database; :meth:`advance` moves it for all sessions.

    The offset is kept in a sequence, so moving it is seen at once by every transaction, whatever
    its snapshot, and is not rolled back.
    """

    dsn: str

    def install(self) -> None:
        """Make ``pgq._clock()`` read the offset."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute(
                """
                create sequence public.clock_offset as bigint minvalue -9223372036854775808;
                select setval('public.clock_offset', 0);
                grant select on public.clock_offset to public;
                create or replace function pgq._clock()
                returns timestamptz language sql volatile parallel safe
                as $$
                select clock_timestamp() + '1 microsecond'::interval
                    * (select last_value from public.clock_offset)
                $$
                """
            )

    def advance(self, by: str | timedelta) -> None:
        """Move the clock ahead, or back with a negative interval."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL(
                    "select setval('public.clock_offset', (select last_value"
                    " + (extract(epoch from {}::interval) * 1e6)::bigint from public.clock_offset))"
                ).format(sql.Literal(by))
            )

    def reset(self) -> None:
        """Return to the real time."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("select setval('public.clock_offset', 0)")


class Postgrest:
    """A PostgREST that serves the schema pgq of one database, as a context manager.

    Every request runs as ``role``, which must be one that ``dsn``'s user may become.
    """

    def __init__(self, dsn: str, *, role: str = "postgres", log: Path | None = None) -> None:
        self._dsn = dsn
        self._role = role
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @staticmethod
    def binary() -> Path | None:
        """PGQ_POSTGREST, what ``make postgrest`` fetched, or what is on the path."""
        named = os.environ.get("PGQ_POSTGREST")
        if named:
            return Path(named)
        fetched = ROOT / ".cache" / "postgrest" / "postgrest"
        if fetched.exists():
            return fetched
        on_path = shutil.which("postgrest")
        return Path(on_path) if on_path else None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Postgrest:
        program = self.binary()
        assert program is not None, "no PostgREST: run make postgrest"
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PGRST_DB_URI": self._dsn,
            "PGRST_DB_SCHEMAS": "pgq",
            "PGRST_DB_EXTRA_SEARCH_PATH": "",
            "PGRST_DB_ANON_ROLE": self._role,
            "PGRST_DB_POOL": "4",
            "PGRST_SERVER_HOST": "127.0.0.1",
            "PGRST_SERVER_PORT": str(self.port),
        }
        output = self._log.open("wb") if self._log else subprocess.DEVNULL
        self._process = subprocess.Popen(
            [program], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        wait_until(self._answers, 30.0, "for PostgREST to answer")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)

    def _answers(self) -> bool:
        # 503 while the schema cache is loading
        assert self._process is not None
        assert self._process.poll() is None, "PostgREST ended"
        try:
            with urllib.request.urlopen(self.url, timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False
