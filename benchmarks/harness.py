"""The server a benchmark runs on, its databases, and one run of pgbench."""

from __future__ import annotations

import os
import platform
import random
import re
import statistics
import string
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import psycopg
from psycopg import sql

from pgq.embedded import Server

__all__ = [
    "SETTINGS",
    "Bench",
    "BenchmarkError",
    "Database",
    "Load",
    "Outcome",
    "body_of",
    "commit_of",
]

HERE = Path(__file__).resolve().parent

SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "max_connections": "64",
}
SEGMENT_MEGABYTES = 16


class BenchmarkError(RuntimeError):
    """A run failed, or what it left behind is not what it should have left."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What pgbench is to do: one script, by so many clients, for a time or a number of calls."""

    script: Path
    clients: int = 1
    body: int = 1024
    batch: int = 1
    seconds: int | None = None
    transactions: int | None = None
    variables: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What pgbench did."""

    transactions: int
    seconds: float
    timeline: Sequence[float]

    def average(self, start: int, stop: int) -> float:
        """The mean rate of the seconds from start to stop."""
        return statistics.fmean(self.timeline[start:stop])


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


def body_of(size: int) -> str:
    """Bytes of a payload, as text: the same letters in every run, and nothing to compress."""
    return "".join(random.Random(size).choices(string.ascii_letters, k=size))


class Bench:
    """A private server with settled write-ahead log, and the systems installed as templates."""

    def __init__(self, *, bin_dir: Path | None = None, wal_gigabytes: int = 4) -> None:
        self._wal_gigabytes = wal_gigabytes
        self._installed: set[str] = set()
        self._server = Server(
            bin_dir=bin_dir, settings={**SETTINGS, "min_wal_size": f"{wal_gigabytes}GB"}
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
        self._installed.add(name)
        main = self.database("postgres")
        with main.connect() as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        self._server.run(
            "psql",
            "--no-psqlrc",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            f"--file={script}",
            "--dbname",
            name,
        )

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
        """Run a load and read what pgbench says about it."""
        if (load.seconds is None) == (load.transactions is None):
            raise BenchmarkError("a load has either seconds or transactions")
        length = (
            [f"--time={load.seconds}"]
            if load.seconds is not None
            else [f"--transactions={load.transactions}"]
        )
        variables = {
            "body": body_of(load.body),
            "batch": load.batch,
            "clients": load.clients,
            "step": 0,
            "group": 1,
            **(load.variables or {}),
        }
        result = self._server.run(
            "pgbench",
            "--no-vacuum",
            "--protocol=prepared",
            f"--client={load.clients}",
            f"--jobs={min(load.clients, os.cpu_count() or 1)}",
            "--progress=1",
            *length,
            *(f"--define={name}={value}" for name, value in variables.items()),
            f"--file={load.script}",
            database.name,
            check=False,
        )
        name = load.script.relative_to(HERE)
        rate = re.search(r"^tps = ([0-9.]+)", result.stdout, re.MULTILINE)
        count = re.search(r"actually processed: (\d+)", result.stdout)
        if result.returncode != 0 or rate is None or count is None:
            trouble = [line for line in result.stderr.splitlines() if "progress:" not in line]
            raise BenchmarkError(f"pgbench failed on {name}: {' '.join(trouble)[-600:]}")
        transactions = int(count[1])
        if transactions == 0:
            raise BenchmarkError(f"pgbench did nothing on {name}")
        timeline = re.findall(r"^progress: [0-9.]+ s, ([0-9.]+) tps", result.stderr, re.MULTILINE)
        return Outcome(
            transactions=transactions,
            seconds=transactions / float(rate[1]),
            timeline=tuple(float(value) for value in timeline),
        )

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
    result = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.strip() or "unknown"
