"""Count the instructions of one call, by callgrind on a single-user backend.

A clock tells little on a busy machine; a count of instructions is the same to about 2%.

    python benchmarks/instructions.py                                  # all calls, after make build
    python benchmarks/instructions.py --sql sketch.sql --call publish --call enqueue
    python benchmarks/instructions.py --sql fda3290                  # of another revision
    python benchmarks/instructions.py --setup tables.sql --statement "select f(1)" --statement "…"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "python" / "src")]

from benchmarks.calls import BASE, CALLS  # noqa: E402
from benchmarks.counting import Call, Counter, CountError  # noqa: E402
from benchmarks.pgbench import BenchmarkError  # noqa: E402
from benchmarks.revisions import Installed, installed  # noqa: E402
from benchmarks.systems import install_script  # noqa: E402

from pgq.embedded import EmbeddedServerError  # noqa: E402

__all__ = ["main"]

DEFAULT_BIN = Path("/usr/lib/postgresql/15/bin")


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="instructions.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--sql",
        metavar="REVISION-OR-FILE",
        help="count these functions (default: those that `make build` has left)",
    )
    parser.add_argument("--bare", action="store_true", help="install nothing but --setup")
    parser.add_argument(
        "--call", action="append", default=[], help="only these; repeatable; see --list"
    )
    parser.add_argument(
        "--setup",
        type=Path,
        action="append",
        default=[],
        help="psql script to run when the data of the calls is there; repeatable",
    )
    parser.add_argument(
        "--statement", action="append", default=[], help="count this statement; repeatable"
    )
    parser.add_argument(
        "--clock",
        choices=["frozen", "real"],
        default="frozen",
        help="frozen (default): no floor is raised in what is counted; real: one in most claims",
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
    failed = False
    try:
        with ExitStack() as stack:
            pgq = Installed(name="this checkout", script=install_script())
            if chosen.sql is not None:
                pgq = stack.enter_context(installed(chosen.sql))
            script, name = (None, "nothing installed") if chosen.bare else (pgq.script, pgq.name)
            counter = stack.enter_context(
                Counter(
                    bin_dir=chosen.pg_bin,
                    script=script,
                    clock=chosen.clock,
                    profiles=chosen.profiles,
                )
            )
            print(f"# {counter.version}; {name}; clock {chosen.clock}")
            ready = counter.prepare(wanted, chosen.setup)
            for name, reason in counter.missing.items():
                print(f"{name:22} {reason}")
                failed = True
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
    except (BenchmarkError, CountError, EmbeddedServerError, psycopg.Error) as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
