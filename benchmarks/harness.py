"""The server a benchmark runs on, and its databases."""

from __future__ import annotations

import os
import platform
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import psycopg
from benchmarks import pgbench
from benchmarks.pgbench import BenchmarkError, Latency, Load, Outcome
from psycopg import sql

from pgq.embedded import Server

__all__ = [
    "SETTINGS",
    "Bench",
    "BenchmarkError",
    "Database",
    "commit_of",
]

SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "max_connections": "100",
}
SEGMENT_MEGABYTES = 16


@dataclass(frozen=True)
class Database:
    """One database of the server, made for one measurement."""

    name: str
    dsn: str

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection in autocommit mode."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            yield connection

    def run(self, *statements: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Execute statements one after the other, with the same named arguments."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode(), arguments)

    def row(self, statement: str, arguments: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """The first row of a query."""
        with self.connect() as connection:
            found = connection.execute(statement.encode(), arguments).fetchone()
        if found is None:
            raise BenchmarkError(f"no row from: {statement}")
        return cast("tuple[Any, ...]", found)

    def expect(self, what: str, statement: str, *expected: Any) -> None:
        """Fail unless the query's first row is the expected one."""
        found = self.row(statement)
        if found != expected:
            raise BenchmarkError(f"{what}: expected {expected}, found {found}")


class Bench:
    """A private server with settled write-ahead log, and the systems installed as templates."""

    def __init__(
        self,
        *,
        bin_dir: Path | None = None,
        wal_gigabytes: int = 4,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._wal_gigabytes = wal_gigabytes
        self._installed: dict[str, Path] = {}
        self._server = Server(
            bin_dir=bin_dir,
            settings={**SETTINGS, "min_wal_size": f"{wal_gigabytes}GB", **(settings or {})},
        )

    def __enter__(self) -> Bench:
        self._server.start()
        self._settle_wal()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop()

    def _settle_wal(self) -> None:
        # New WAL files cost whoever needs them first; afterwards they are only renamed.
        main = self.database("postgres")
        files = self._wal_gigabytes * 1024 // SEGMENT_MEGABYTES
        with main.connect() as connection:
            for _ in range(files):
                connection.execute("select pg_logical_emit_message(false, 'bench', '')")
                connection.execute("select pg_switch_wal()")
            connection.execute("checkpoint")
            connection.execute("checkpoint")

    def database(self, name: str) -> Database:
        """A database of this server by name."""
        return Database(name, self._server.dsn_for(name))

    def install(self, name: str, script: Path) -> None:
        """Make the template of a system from its SQL script, once."""
        if name in self._installed:
            return
        self._installed[name] = script
        main = self.database("postgres")
        with main.connect() as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        self.psql(self.database(name), script)

    def script_of(self, name: str, otherwise: Path) -> Path:
        """What a template was made from."""
        return self._installed.get(name, otherwise)

    def fresh(self, name: str, *, template: str) -> Database:
        """Drop the database if it is there and make it again."""
        self.drop(name)
        with self.database("postgres").connect() as connection:
            connection.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        return self.database(name)

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected."""
        with self.database("postgres").connect() as connection:
            connection.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
            )

    def checkpoint(self) -> None:
        """Write everything out, so that no run pays for the one before."""
        self.database("postgres").run("checkpoint")

    def wal_position(self) -> int:
        """Bytes of WAL written since the cluster began."""
        return int(self.database("postgres").row("select pg_current_wal_insert_lsn() - '0/0'")[0])

    def pgbench(self, database: Database, load: Load) -> Outcome:
        """Run a load."""
        return pgbench.run(self._server, database.name, load)

    def latencies(self, database: Database, load: Load, *, most_seconds: int) -> list[Latency]:
        """Run a load until somebody terminates its sessions."""
        return pgbench.run_until_terminated(
            self._server, database.name, load, most_seconds=most_seconds
        )

    def psql(self, database: Database, script: Path, **variables: int | str) -> str:
        """Run a script and return what it printed: rows, without headings."""
        result = self._server.run(
            "psql",
            *("--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"),
            *(f"--set={name}={value}" for name, value in variables.items()),
            f"--file={script}",
            "--dbname",
            database.name,
        )
        return result.stdout.strip()

    @property
    def server_process(self) -> int:
        """The process id of the server."""
        found = self._server.pid
        if found is None:
            raise BenchmarkError("the server does not run")
        return found

    @property
    def bin_dir(self) -> Path:
        """The folder with the server's programs."""
        return self._server.bin_dir

    def description(self) -> dict[str, str]:
        """The machine and the server, as far as they matter."""
        version = str(self.database("postgres").row("show server_version")[0])
        return {
            "PostgreSQL": version,
            "processor": f"{os.cpu_count()} x {_processor()}",
            "memory": _memory(),
            "system": f"{platform.system()} {platform.release()}",
            "flush of 8 kB": f"{_flush_microseconds():.0f} µs (median of fdatasync)",
            "settings": ", ".join(
                f"{name} {self.database('postgres').row(f'show {name}')[0]}"
                for name in (
                    "shared_buffers",
                    "min_wal_size",
                    "max_wal_size",
                    "fsync",
                    "synchronous_commit",
                    "autovacuum",
                )
            ),
        }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return "unknown"
    return f"{size / 2**30:.0f} GB"


def _flush_microseconds(times: int = 200) -> float:
    # The folder of temporary files is where a server without a directory of its own has its data.
    flush: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(times):
            file.seek(0)
            file.write(b"\0" * 8192)
            file.flush()
            start = time.perf_counter()
            flush(file.fileno())
            taken.append((time.perf_counter() - start) * 1e6)
    return statistics.median(taken)


def commit_of(folder: Path) -> str:
    """The revision that was measured, or 'unknown'."""
    if shutil.which("git") is None:
        return "unknown"
    result = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.strip() or "unknown"
