"""Measure pgq beside a plain table and beside the published primitives, and print the ratios."""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.cells import CELLS, SYSTEMS, Cell, Length, Quantity  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, commit_of  # noqa: E402

__all__ = ["main"]

Samples = Mapping[str, Sequence[Mapping[str, float]]]


@dataclass(frozen=True)
class Line:
    """One figure of one cell: the medians of all systems, and the verdict on pgq."""

    cell: str
    title: str
    quantity: Quantity
    medians: Mapping[str, float]
    samples: Mapping[str, Sequence[float]]

    @property
    def ratio(self) -> float | None:
        """pgq's share of the reference."""
        reference = self.quantity.reference
        if reference is None or not {"pgq", reference} <= set(self.medians):
            return None
        return self.medians["pgq"] / self.medians[reference]

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target or without pgq."""
        wanted = self.quantity
        found = self.ratio if wanted.reference is not None else self.medians.get("pgq")
        if wanted.target is None or found is None:
            return None
        return found <= wanted.target if wanted.at_most else found >= wanted.target

    def cells(self) -> list[str]:
        """The line as a row of the table."""
        wanted = self.quantity
        title = self.title if wanted.name in ("rate", "wal") else f"{self.title}: {wanted.name}"
        return [
            title,
            *(self._figure(self.medians.get(system)) for system in SYSTEMS),
            wanted.unit,
            *(self._share(system) for system in ("primitives", "pgq")),
            self._target(),
            {None: "", True: "pass", False: "MISS"}[self.met],
        ]

    def _figure(self, value: float | None) -> str:
        if value is None:
            return ""
        if self.quantity.unit == "share":
            return f"{value:.2f}"
        return f"{value:,.0f}"

    def _share(self, system: str) -> str:
        reference = self.quantity.reference
        if reference is None or system == reference or not {system, reference} <= set(self.medians):
            return ""
        return f"{self.medians[system] / self.medians[reference]:.2f}"

    def _target(self) -> str:
        wanted = self.quantity
        if wanted.target is None:
            return ""
        return f"{'<=' if wanted.at_most else '>='} {wanted.target:,g}"


HEADINGS = (
    "cell",
    *SYSTEMS,
    "unit",
    "primitives ratio",
    "pgq ratio",
    "target",
    "",
)


def lines_of(cell: Cell, samples: Samples) -> Iterator[Line]:
    """The figures of a cell from its rounds."""
    for quantity in cell.quantities:
        values = {
            system: [sample[quantity.name] for sample in found]
            for system, found in samples.items()
            if found
        }
        medians = {system: statistics.median(found) for system, found in values.items()}
        yield Line(cell.name, cell.title, quantity, medians, values)


def markdown(lines: Sequence[Line], description: Mapping[str, str]) -> str:
    """Machine and figures as Markdown."""
    rows = [list(HEADINGS), ["---"] * len(HEADINGS), *(line.cells() for line in lines)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    machine = "\n".join(f"- {name}: {value}" for name, value in description.items())
    return f"{machine}\n\n{table}\n"


def plain(lines: Sequence[Line]) -> str:
    """The figures as a table for the terminal."""
    rows = [list(HEADINGS), *(line.cells() for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if 0 < column < 4 or 4 < column < 7 else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def as_json(lines: Sequence[Line], description: Mapping[str, str]) -> str:
    """Everything that was measured."""
    figures = [
        {
            "cell": line.cell,
            "title": line.title,
            **asdict(line.quantity),
            "samples": line.samples,
            "medians": line.medians,
            "ratio": line.ratio,
            "met": line.met,
        }
        for line in lines
    ]
    return json.dumps({"machine": description, "figures": figures}, indent=2) + "\n"


def measure(
    bench: Bench, cell: Cell, systems: Sequence[str], length: Length, rounds: int
) -> tuple[Samples, bool]:
    """All rounds of a cell, each with the systems in a new order; False if a run failed."""
    samples: dict[str, list[Mapping[str, float]]] = {system: [] for system in systems}
    sound = True
    for number in range(1, 1 + (1 if cell.once else rounds)):
        order = list(systems)
        random.shuffle(order)
        for name in order:
            print(f"  {cell.name} round {number}: {name} … ", end="", file=sys.stderr, flush=True)
            start = time.monotonic()
            try:
                found = cell.measure(bench, SYSTEMS[name], length)
            except (BenchmarkError, NotImplementedError, psycopg.Error) as error:
                print(f"failed: {error}", file=sys.stderr, flush=True)
                sound = False
                continue
            samples[name].append(found)
            shown = ", ".join(f"{key} {value:,.2f}" for key, value in found.items())
            print(f"{shown} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)
    cell.finish(bench)
    return samples, sound


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument(
        "--cell", action="append", metavar="NAME", help="only these cells; wildcards; repeatable"
    )
    parser.add_argument(
        "--system", action="append", choices=list(SYSTEMS), help="only these systems; repeatable"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds per cell (default 3)")
    parser.add_argument("--seconds", type=int, default=10, help="length of a run (default 10)")
    parser.add_argument(
        "--snapshot-seconds",
        type=int,
        default=180,
        help="length of a run beside a held snapshot (default 180)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round: shows that all works, not how fast"
    )
    parser.add_argument("--list", action="store_true", help="list the cells and stop")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--sql", type=Path, help="install pgq from this script, not from sql/")
    parser.add_argument("--wal", type=int, default=4, help="GB of WAL kept ready (default 4)")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.rounds, chosen.seconds, chosen.snapshot_seconds, chosen.wal = 1, 2, 9, 1
    if min(chosen.rounds, chosen.seconds, chosen.wal) < 1 or chosen.snapshot_seconds < 3:
        parser.error("rounds, seconds and wal start at 1, snapshot-seconds at 3")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells asked for; 0 when every run was sound, whatever the targets."""
    chosen = options(arguments)
    patterns = chosen.cell or ["*"]
    cells = [cell for cell in CELLS if any(fnmatch.fnmatch(cell.name, p) for p in patterns)]
    if chosen.list or not cells:
        for cell in CELLS:
            print(f"{cell.name:18} {cell.title}")
        return 0 if chosen.list else 2
    length = Length(seconds=chosen.seconds, snapshot_seconds=chosen.snapshot_seconds)
    lines: list[Line] = []
    sound = True
    with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=chosen.wal) as bench:
        description = {
            "revision": commit_of(HERE),
            **bench.description(),
            "runs": f"median of {chosen.rounds} rounds of {chosen.seconds} s,"
            f" held snapshots once for {chosen.snapshot_seconds} s",
        }
        for name, value in description.items():
            print(f"{name}: {value}", file=sys.stderr)
        for cell in cells:
            # A cell that compares fewer systems can be asked for more of those it has scripts for.
            systems = [name for name in chosen.system or cell.systems if cell.runs(name)]
            for name in systems:
                script = chosen.sql if name == "pgq" and chosen.sql else SYSTEMS[name].schema
                bench.install(f"template_{name}", script)
            samples, well = measure(bench, cell, systems, length, chosen.rounds)
            sound = sound and well
            lines += lines_of(cell, samples)
    print(plain(lines))
    if chosen.json is not None:
        chosen.json.write_text(as_json(lines, description))
    if chosen.markdown is not None:
        chosen.markdown.write_text(markdown(lines, description))
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
