"""Measure pgq beside a plain table and published primitives; print the ratios."""

from __future__ import annotations

import argparse
import fnmatch
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks import plots, report  # noqa: E402
from benchmarks.cells import CELLS, Cell, Length, Skipped  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, commit_of  # noqa: E402
from benchmarks.report import Line, Results, Samples  # noqa: E402
from benchmarks.systems import SYSTEMS, add_peer  # noqa: E402

from pgq.embedded import EmbeddedServerError  # noqa: E402

__all__ = ["main"]


def measure(
    bench: Bench, cell: Cell, systems: Sequence[str], length: Length, rounds: int
) -> tuple[Samples, list[str]]:
    """All rounds of a cell, each with the systems in a new order, and which runs are missing."""
    samples: dict[str, list[Mapping[str, float]]] = {system: [] for system in systems}
    missing: list[str] = []
    for number in range(1, 1 + (1 if cell.once else rounds)):
        order = list(systems)
        random.shuffle(order)
        for name in order:
            print(f"  {cell.name} round {number}: {name} … ", end="", file=sys.stderr, flush=True)
            start = time.monotonic()
            try:
                found = cell.measure(bench, SYSTEMS[name], length)
            except Skipped as error:
                print(f"skipped: {error}", file=sys.stderr, flush=True)
                missing.append(f"skipped: {cell.name}, {name}: {error}")
                continue
            except (BenchmarkError, EmbeddedServerError, psycopg.Error) as error:
                print(f"failed: {error}", file=sys.stderr, flush=True)
                missing.append(f"failed: {cell.name}, {name}: {error}")
                continue
            samples[name].append(found)
            shown = ", ".join(f"{key} {value:,.2f}" for key, value in found.items())
            print(f"{shown} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)
    cell.finish(bench)
    for name in systems:
        bench.drop(f"bench_{name}")
    return samples, missing


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument(
        "--cell", action="append", metavar="NAME", help="only these cells; wildcards; repeatable"
    )
    parser.add_argument(
        "--system", action="append", metavar="NAME", help="only these systems; repeatable"
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="measure another system too, from its folder of SQL files; repeatable",
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds per cell (default 3)")
    parser.add_argument("--seconds", type=int, default=10, help="length of a run (default 10)")
    parser.add_argument(
        "--snapshot-seconds",
        type=int,
        default=180,
        help="seconds of load beside a held snapshot (default 180)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round: shows that all works, not how fast"
    )
    parser.add_argument("--list", action="store_true", help="list the cells and stop")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--sql", type=Path, help="install pgq from this script")
    parser.add_argument("--wal", type=int, default=4, help="GB of WAL kept ready (default 4)")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument(
        "--plot", type=Path, help="draw the ratios of all systems into this SVG file"
    )
    parser.add_argument(
        "--of",
        type=Path,
        nargs="+",
        metavar="JSON",
        help="measure nothing, and show what earlier runs have written by --json",
    )
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.rounds, chosen.seconds, chosen.snapshot_seconds, chosen.wal = 1, 2, 9, 1
    if min(chosen.rounds, chosen.seconds, chosen.wal) < 1 or chosen.snapshot_seconds < 3:
        parser.error("rounds, seconds and wal start at 1, snapshot-seconds at 3")
    for peer in chosen.peer:
        name, _, folder = peer.partition("=")
        try:
            add_peer(name, Path(folder))
        except BenchmarkError as error:
            parser.error(str(error))
    unknown = {*(chosen.system or [])} - {*SYSTEMS}
    if unknown:
        parser.error(f"no system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    return chosen


def systems_of(cell: Cell, wanted: Sequence[str] | None) -> list[str]:
    """The systems that a cell is measured with, the peers that have its scripts among them."""
    peers = [name for name, system in SYSTEMS.items() if system.version_of]
    # A cell that compares fewer systems can be asked for more of those it has scripts for.
    return [
        name
        for name in wanted or [*cell.systems, *peers]
        if cell.runs(SYSTEMS[name].kind)
        and all(SYSTEMS[name].has(script) for script in cell.scripts_of(SYSTEMS[name].kind))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells asked for; 0 when every run was sound, whatever the targets."""
    chosen = options(arguments)
    patterns = chosen.cell or ["*"]
    cells = [cell for cell in CELLS if any(fnmatch.fnmatch(cell.name, p) for p in patterns)]
    if chosen.list or not cells:
        for cell in CELLS:
            print(f"{cell.name:18} {cell.title}")
        return 0 if chosen.list else 2
    if chosen.of:
        results = Results.read(chosen.of)
        write(results, chosen)
        print(results.plain())
        return 0
    length = Length(seconds=chosen.seconds, snapshot_seconds=chosen.snapshot_seconds)
    lines: list[Line] = []
    missing: list[str] = []
    with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=chosen.wal) as bench:
        description = {
            "revision": commit_of(HERE),
            **bench.description(),
            "runs": f"median of {chosen.rounds} rounds of {chosen.seconds} s,"
            f" held snapshots once with {chosen.snapshot_seconds} s of load",
        }
        for name, value in description.items():
            print(f"{name}: {value}", file=sys.stderr)
        results = Results(description, lines, missing)
        for cell in cells:
            systems = systems_of(cell, chosen.system)
            for name in systems:
                script = chosen.sql if name == "pgq" and chosen.sql else SYSTEMS[name].schema
                bench.install(f"template_{name}", script)
            samples, trouble = measure(bench, cell, systems, length, chosen.rounds)
            missing += trouble
            lines += report.lines_of(cell, samples)
            # After each cell: a run that is ended early has not been for nothing.
            write(results, chosen)
    print(results.plain())
    return 1 if any(note.startswith("failed") for note in missing) else 0


def write(results: Results, chosen: argparse.Namespace) -> None:
    """Write the files asked for."""
    if chosen.json is not None:
        chosen.json.write_text(results.json())
    if chosen.markdown is not None:
        chosen.markdown.write_text(results.markdown())
    if chosen.plot is not None and results.ratios():
        plots.draw_ratios(chosen.plot, "Rates beside the reference of each row", results.ratios())


if __name__ == "__main__":
    sys.exit(main())
