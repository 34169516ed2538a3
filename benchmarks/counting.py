"""Counts instructions: callgrind on a single-user backend, on copies of one data directory.

Each call is executed 30 times in one run and 130 times in another, and a hundredth of the
difference is what one costs with its transaction: parsing the arguments, the work, the commit, and
printing the rows, which the single-user backend does at 15 thousand and more each.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from pgq.embedded import Server

__all__ = ["FEW", "MANY", "Call", "CountError", "Counter"]

FEW, MANY = 30, 130


class CountError(RuntimeError):
    """Nothing could be counted; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A statement to count, and what has to be there before it."""

    name: str
    statement: str
    """May have the parameters $1, $2 … of the types given."""
    types: str = ""
    setup: str = ""
    """Statements that make its data, in a database that has pgq."""
    arguments: str = ""
    """A query whose rows are the arguments of one execution after the other, as literals."""
    constants: str = ""
    """A query whose one row fills {0}, {1} … in the statement."""
    database: str = "postgres"
    """Where: what has many topics of its own stands apart, so that others cost what they did."""
    answer: str = ""
    """What each execution has to print, as a regular expression."""


class Counter:
    """A data directory with everything set up, and counts of calls on copies of it.

    The clock of pgq stands still in what is counted, unless ``clock`` is "real". Under valgrind a
    call takes 20 ms or so, and what is done "at most every 20 ms" (raising the floor of a queue)
    would be counted with each of them, although a busy queue has it once in some sixty claims. With
    a clock that stands still it is done once, before the calls that count.
    """

    def __init__(
        self,
        *,
        bin_dir: Path,
        script: Path | None,
        clock: str = "frozen",
        profiles: Path | None = None,
    ) -> None:
        if shutil.which("valgrind") is None:
            raise CountError("valgrind is not installed (Debian: apt-get install valgrind)")
        self._bin = bin_dir
        self._script = script
        self._clock = clock
        self._profiles = profiles
        self._statements: dict[str, str] = {}
        self._arguments: dict[str, Sequence[Sequence[Any]]] = {}
        self.missing: dict[str, str] = {}
        """The calls that cannot be counted, and why."""
        self._folder = Path(tempfile.mkdtemp(prefix="pgq-count-"))
        self._folder.chmod(0o755)
        self._server = Server(
            self._folder / "server",
            bin_dir=bin_dir,
            settings={"fsync": "off", "autovacuum": "off", "jit": "off"},
        )

    def __enter__(self) -> Counter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def version(self) -> str:
        """What postgres says of itself."""
        shown = subprocess.run(
            [self._bin / "postgres", "--version"], capture_output=True, text=True, check=True
        )
        return shown.stdout.strip()

    def prepare(self, calls: Sequence[Call], setups: Sequence[Path] = ()) -> list[Call]:
        """Make the data of all calls, then run the further scripts; the calls that can be made."""
        ready = []
        with self._server:
            for database in dict.fromkeys(call.database for call in calls):
                if database != "postgres":
                    self._server.run("createdb", database)
                if self._script is not None:
                    self._psql(self._script, database)
                dsn = self._server.dsn_for(database)
                with psycopg.connect(dsn, autocommit=True) as connection:
                    for call in calls:
                        if call.database != database:
                            continue
                        try:
                            self._set_up(connection, call)
                        except psycopg.Error as error:
                            self.missing[call.name] = str(error).partition("\n")[0]
                        else:
                            ready.append(call)
                    for script in setups if database == "postgres" else ():
                        self._psql(script, database)
                    connection.execute("vacuum (analyze)")
                    if self._clock == "frozen" and _has(connection, "pgq._clock"):
                        _freeze(connection)
                    connection.execute("checkpoint")
        return [call for call in ready if call.name not in self.missing]

    def _set_up(self, connection: psycopg.Connection[Any], call: Call) -> None:
        functions = re.findall(r"pgq\.(\w+)\(", f"{call.setup} {call.arguments} {call.statement}")
        for name in functions:
            if call.setup and not _has(connection, f"pgq.{name}"):
                raise psycopg.ProgrammingError(f"there is no function pgq.{name}")
        if call.setup:
            connection.execute(call.setup.encode())
        if call.arguments:
            self._arguments[call.name] = connection.execute(call.arguments.encode()).fetchall()
        self._statements[call.name] = call.statement
        if call.constants:
            constants = connection.execute(call.constants.encode()).fetchone() or ()
            self._statements[call.name] = call.statement.format(*constants)

    def _psql(self, script: Path, database: str) -> None:
        self._server.run(
            "psql",
            *("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null"),
            f"--file={script}",
            f"--dbname={database}",
        )

    def count(self, call: Call) -> float:
        """Thousands of instructions of one call."""
        few, many = self._run(call, FEW), self._run(call, MANY)
        return (many - few) / (MANY - FEW) / 1000

    def _run(self, call: Call, times: int) -> int:
        data = self._folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        subprocess.run(["cp", "-a", self._server.data_directory, data], check=True)
        types = f" ({call.types})" if call.types else ""
        lines = [
            f"prepare counted{types} as {self._statements[call.name]}",
            *self._executions(call, times),
        ]
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={data / 'profile'}",
                self._bin / "postgres",
                *("--single", "-O", "-j", "-D", data),
                call.database,
            ],
            input="".join(f"{line};\n\n" for line in lines),
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
            **_unprivileged(),
        )
        collected = re.search(r"Collected : (\d+)", done.stderr)
        trouble = re.search(r"^.*\b(?:ERROR|FATAL|PANIC): .*$", done.stderr, re.MULTILINE)
        if trouble is not None:
            raise CountError(trouble[0])
        if done.returncode != 0 or collected is None:
            raise CountError(f"{self.version} fails under valgrind: {done.stderr[-600:]}")
        answers = len(re.findall(call.answer, done.stdout)) if call.answer else times
        if answers != times:
            raise CountError(f"{answers} answers to {times} calls: {done.stdout[-300:]}")
        if self._profiles is not None and times == MANY:
            shutil.copy(data / "profile", self._profiles / f"callgrind.out.{call.name}")
        return int(collected[1])

    def _executions(self, call: Call, times: int) -> list[str]:
        if not call.arguments:
            return ["execute counted"] * times
        rows = self._arguments[call.name]
        if len(rows) < times:
            raise CountError(f"arguments for {len(rows)} of {times} executions")
        return [
            f"execute counted ({', '.join(str(value) for value in row)})" for row in rows[:times]
        ]


def _has(connection: psycopg.Connection[Any], function: str) -> bool:
    schema, _, name = function.partition(".")
    found = connection.execute(
        "select exists (select from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace"
        " where n.nspname = %s and p.proname = %s)",
        [schema, name],
    ).fetchone()
    return found is not None and bool(found[0])


def _freeze(connection: psycopg.Connection[Any]) -> None:
    now = connection.execute("select clock_timestamp()::text").fetchone()
    assert now is not None
    connection.execute(
        "create or replace function pgq._clock() returns timestamptz language sql volatile"
        f" parallel safe as $$ select timestamptz '{now[0]}' $$".encode()
    )


def _unprivileged() -> Mapping[str, Any]:
    """PostgreSQL refuses root: then nobody runs it, who owns the data."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))
    }
    options: dict[str, Any] = {"env": {**environment, "LC_ALL": "C", "HOME": "/nonexistent"}}
    if os.geteuid() == 0:
        account = pwd.getpwnam("nobody")
        options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return options
