"""Count the instructions of one call, by callgrind on a single-user backend.

A clock tells little on a busy machine; a count of instructions is the same to about 2%. Each call
is executed 30 times in one run and 130 times in another, on copies of the same data, and a
hundredth of the difference is what one call costs with its transaction: parsing the arguments, the
work, the commit, and printing the rows, which the single-user backend does at 15 thousand each.

    python benchmarks/instructions.py                                  # all calls, sql/install.sql
    python benchmarks/instructions.py --sql sketch.sql --call publish --call enqueue
    python benchmarks/instructions.py --setup tables.sql --statement "select f(1)" --statement "…"
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "python" / "src")]

from pgq.embedded import EmbeddedServerError, Server  # noqa: E402

__all__ = ["BASE", "CALLS", "Call", "CountError", "Counter", "main"]

FEW, MANY = 30, 130
SPARE = 20
DEFAULT_BIN = Path("/usr/lib/postgresql/15/bin")
INSTALL = HERE.parent / "sql" / "install.sql"
ENOUGH = MANY + SPARE


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
    answer: str = ""
    """What each execution has to print, as a regular expression."""
    private: bool = True
    """Whether it calls pgq."""


TOPIC = "select pgq.create_topic('{0}', 8);"
FILLED = (
    TOPIC + "select count(*) from generate_series(0, 7) as number,"
    " pgq.publish_batch('{0}', partition => number,"
    " bodies => array_fill('\\x6162'::bytea, array[{1}]));"
    "select pgq.create_group('{0}', 'g');"
)
QUEUE = "select pgq.create_queue('{0}');"
JOBS = (
    QUEUE + "select count(*) from"
    " pgq.enqueue_batch('{0}', bodies => array_fill('\\x6162'::bytea, array[{1}]));"
)
LEASED = (
    "select job_id, quote_literal(lease_token) from pgq.claim_job('{0}', {1}, lease => '1 day')"
)
LEASED_HUNDREDS = (
    "select quote_literal(array_agg(job_id)), quote_literal(lease_token)"
    " from (select *, row_number() over () / 100 as part from"
    " pgq.claim_job('{0}', {1}, lease => '1 day')) as claimed group by part, lease_token"
)

BASE: Sequence[Call] = (
    Call(
        name="insert",
        statement="insert into plain (payload) select unnest(array['\\x6162'::bytea])",
        setup="create table plain (id bigserial primary key, payload bytea not null);",
        private=False,
    ),
    Call(
        name="insert_100",
        statement="insert into plain_100 (payload)"
        " select unnest(array_fill('\\x6162'::bytea, array[100]))",
        setup="create table plain_100 (id bigserial primary key, payload bytea not null);",
        private=False,
    ),
    Call(
        name="empty_function",
        statement="select empty_function()",
        setup="create function empty_function() returns void language plpgsql volatile"
        " security definer set search_path = pg_catalog, pg_temp as $$ begin end $$;",
        answer="empty_function",
        private=False,
    ),
    Call(
        name="commit",
        # With an id of its own a transaction has something to commit; no row is printed.
        statement="select where pg_current_xact_id() is null",
        private=False,
    ),
)

CALLS: Sequence[Call] = (
    Call(
        name="publish",
        setup=TOPIC.format("publish"),
        statement="select * from pgq.publish('publish', body => '\\x6162'::bytea)",
        answer="log_offset = ",
    ),
    Call(
        name="publish_batch_100",
        setup=TOPIC.format("publish_batch"),
        statement="select * from pgq.publish_batch('publish_batch',"
        " bodies => array_fill('\\x6162'::bytea, array[100]))",
        answer="first_offset = ",
    ),
    Call(
        name="consume",
        setup=FILLED.format("consume", ENOUGH),
        statement="select log_offset, body from pgq.consume('consume', 'g', 1)",
        answer="log_offset = ",
    ),
    Call(
        name="consume_100",
        setup=FILLED.format("consume_100", 100 * (ENOUGH // 8 + 1)),
        statement="select count(*), sum(log_offset) from pgq.consume('consume_100', 'g', 100)",
        answer='count = "100"',
    ),
    Call(
        name="claim_job",
        setup=JOBS.format("claim_job", 2 * ENOUGH),
        statement="select job_id, lease_token, body from pgq.claim_job('claim_job')",
        answer="job_id = ",
    ),
    Call(
        name="claim_job_100",
        setup=JOBS.format("claim_100", 100 * ENOUGH),
        statement="select count(*), sum(job_id) from pgq.claim_job('claim_100', 100)",
        answer='count = "100"',
    ),
    Call(
        name="enqueue",
        setup=QUEUE.format("enqueue"),
        statement="select pgq.enqueue('enqueue', body => '\\x6162'::bytea)",
        answer="enqueue = ",
    ),
    Call(
        name="ack",
        setup=JOBS.format("ack", ENOUGH),
        types="bigint, uuid",
        arguments=LEASED.format("ack", ENOUGH),
        statement="select pgq.ack($1, $2)",
        answer='ack = "t"',
    ),
    Call(
        name="finish_and_claim",
        setup=JOBS.format("finish", 3 * ENOUGH),
        types="bigint, uuid",
        arguments=LEASED.format("finish", ENOUGH),
        statement="select job_id, lease_token, body"
        " from pgq.finish_and_claim('finish', array[$1], $2)",
        answer="job_id = ",
    ),
    Call(
        name="finish_and_claim_100",
        setup=JOBS.format("finish_100", 300 * ENOUGH),
        types="bigint[], uuid",
        arguments=LEASED_HUNDREDS.format("finish_100", 100 * ENOUGH - 1),
        statement="select count(*), sum(job_id)"
        " from pgq.finish_and_claim('finish_100', $1, $2, 100)",
        answer='count = "100"',
    ),
)


class Counter:
    """A data directory with everything set up, and counts of calls on copies of it."""

    def __init__(
        self,
        *,
        bin_dir: Path = DEFAULT_BIN,
        script: Path | None = INSTALL,
        clock: str = "frozen",
        profiles: Path | None = None,
    ) -> None:
        if shutil.which("valgrind") is None:
            raise CountError("valgrind is not installed (apt-get install valgrind)")
        if not (bin_dir / "postgres").exists():
            raise CountError(f"no postgres in {bin_dir}")
        self._bin = bin_dir
        self._script = script
        self._clock = clock
        self._profiles = profiles
        self._folder = Path(tempfile.mkdtemp(prefix="pgq-count-"))
        self._folder.chmod(0o755)
        self._server = Server(
            self._folder / "server",
            bin_dir=bin_dir,
            settings={"fsync": "off", "autovacuum": "off", "jit": "off"},
        )
        self._arguments: dict[str, Sequence[Sequence[Any]]] = {}

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
        """Make the data of all calls; returns those that can be made."""
        ready = []
        with self._server:
            for script in (self._script, *setups):
                if script is not None:
                    self._psql(script)
            with psycopg.connect(self._server.dsn, autocommit=True) as connection:
                for call in calls:
                    if not _known(connection, call):
                        continue
                    if call.setup:
                        connection.execute(call.setup.encode())
                    if call.arguments:
                        found = connection.execute(call.arguments.encode()).fetchall()
                        self._arguments[call.name] = found
                    ready.append(call)
                connection.execute("vacuum (analyze)")
                if self._clock == "frozen" and _has(connection, "pgq._clock"):
                    _freeze(connection)
                connection.execute("checkpoint")
        return ready

    def _psql(self, script: Path) -> None:
        self._server.run(
            "psql",
            *("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null"),
            f"--file={script}",
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
        lines = [f"prepare counted{types} as {call.statement}", *self._executions(call, times)]
        out = Path(os.devnull)
        if self._profiles is not None and times == MANY:
            out = self._folder / "profile"
            out.touch()
            out.chmod(0o666)
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={out}",
                self._bin / "postgres",
                *("--single", "-O", "-j", "-D", data),
                "postgres",
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
            raise CountError(f"{call.name}: {trouble[0]}")
        if done.returncode != 0 or collected is None:
            raise CountError(f"{call.name}: postgres failed under valgrind: {done.stderr[-800:]}")
        answers = len(re.findall(call.answer, done.stdout)) if call.answer else times
        # The first mention is the heading of the columns.
        if answers < times:
            raise CountError(f"{call.name}: {answers} answers of {times}: {done.stdout[-400:]}")
        if out.exists() and out.is_file() and self._profiles is not None:
            shutil.copy(out, self._profiles / f"callgrind.out.{call.name}")
        return int(collected[1])

    def _executions(self, call: Call, times: int) -> list[str]:
        if not call.arguments:
            return ["execute counted"] * times
        rows = self._arguments[call.name]
        if len(rows) < times:
            raise CountError(f"{call.name}: arguments for {len(rows)} of {times} executions")
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


def _known(connection: psycopg.Connection[Any], call: Call) -> bool:
    functions = re.findall(r"pgq\.(\w+)\(", f"{call.setup} {call.arguments} {call.statement}")
    return all(_has(connection, f"pgq.{name}") for name in functions)


def _freeze(connection: psycopg.Connection[Any]) -> None:
    # Under valgrind each call takes 20 ms or so. What is done "at most every 20 ms" (raising the
    # floor of a queue) would be counted with each of them; with a clock that stands still it is
    # done once, in the warm-up.
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


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="instructions.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sql", type=Path, help="install script (default sql/install.sql)")
    parser.add_argument("--bare", action="store_true", help="install nothing but --setup")
    parser.add_argument(
        "--call", action="append", default=[], help="only these; repeatable; see --list"
    )
    parser.add_argument(
        "--setup", type=Path, action="append", default=[], help="psql script to run afterwards"
    )
    parser.add_argument(
        "--statement", action="append", default=[], help="count this statement; repeatable"
    )
    parser.add_argument(
        "--clock",
        choices=["frozen", "real"],
        default="frozen",
        help="frozen (default): floors are not raised in what is counted; real: at most calls",
    )
    parser.add_argument("--pg-bin", type=Path, default=DEFAULT_BIN)
    parser.add_argument(
        "--profiles", type=Path, help="keep callgrind.out.* in this folder, for callgrind_annotate"
    )
    parser.add_argument("--list", action="store_true", help="list the calls and stop")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the calls asked for."""
    chosen = options(arguments)
    if chosen.list:
        for call in (*BASE, *CALLS):
            print(f"{call.name:22} {call.statement}")
        return 0
    unknown = set(chosen.call) - {call.name for call in (*BASE, *CALLS)}
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; see --list", file=sys.stderr)
        return 2
    wanted = [
        call
        for call in (*BASE, *CALLS)
        if call.name == "insert"
        or call.name in chosen.call
        or not (chosen.call or chosen.statement)
    ]
    wanted += [
        Call(name=f"statement {number}", statement=statement.strip().rstrip(";"))
        for number, statement in enumerate(chosen.statement, 1)
    ]
    if chosen.profiles is not None:
        chosen.profiles.mkdir(parents=True, exist_ok=True)
    script = None if chosen.bare else (chosen.sql or INSTALL)
    failed = False
    try:
        with Counter(
            bin_dir=chosen.pg_bin, script=script, clock=chosen.clock, profiles=chosen.profiles
        ) as counter:
            print(f"# {counter.version}; {script or 'nothing installed'}; clock {chosen.clock}")
            ready = counter.prepare(wanted, chosen.setup)
            for call in wanted:
                if call not in ready:
                    print(f"{call.name:22} not there")
            plain = 0.0
            for call in ready:
                try:
                    found = counter.count(call)
                except CountError as error:
                    print(f"{call.name:22} {error}")
                    failed = True
                    continue
                plain = found if call.name == "insert" else plain
                share = f"{found / plain:6.2f} x insert" if plain else ""
                print(f"{call.name:22} {found:8.1f} thousand {share}", flush=True)
    except (CountError, EmbeddedServerError, psycopg.Error) as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
