"""Measure today's SQL beside that of an earlier revision: is anything slower, and by how much?

Every rate is measured in rounds. Both versions run in each round, one right after the other, and
the one that runs first changes from round to round. The ratio within a round is what counts. How
far the ratios of the rounds are apart says how far their mean can be trusted.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import random
import re
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.cells import CELLS, Length  # noqa: E402
from benchmarks.cells.timed import Timed  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, commit_of  # noqa: E402
from benchmarks.report import plain_table  # noqa: E402
from benchmarks.revisions import Installed, installed  # noqa: E402
from benchmarks.systems import SYSTEMS, System, install_script  # noqa: E402

from pgq.embedded import EmbeddedServerError  # noqa: E402

__all__ = ["BEFORE", "COMPARED", "Comparison", "Trust", "lacking", "main", "trust"]

BEFORE = "fda3290"
"""The revision to compare with, unless another one is asked for: the SQL before its rebuild."""

COMPARED: Sequence[Timed] = [
    cell for cell in CELLS if isinstance(cell, Timed) and "pgq" in cell.task.scripts
]

STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
"""Student's t for 95%, by degrees of freedom from 1."""


FEWEST = 3


@dataclass(frozen=True, kw_only=True)
class Trust:
    """A ratio, and how far the truth may be from it: 95% of such ranges hold it."""

    ratio: float
    low: float
    high: float

    @property
    def noise(self) -> float:
        """Half the range, as a share."""
        return (self.high - self.low) / 2

    @property
    def verdict(self) -> str:
        """What can be said."""
        if self.low <= 1 <= self.high:
            return "within noise"
        return "slower" if self.high < 1 else "faster"


def trust(cells: Sequence[Sequence[float]]) -> Trust | None:
    """The geometric mean of the ratios of cells, from those of their rounds; each weighs the same.

    None with fewer than three rounds in one of them: then nothing is known about the noise.
    """
    if not cells or min(len(ratios) for ratios in cells) < FEWEST:
        return None
    logs = [[math.log(ratio) for ratio in ratios] for ratios in cells]
    middle = statistics.fmean(statistics.fmean(found) for found in logs)
    variances = [statistics.variance(found) / len(found) for found in logs]
    total = sum(variances)
    if total == 0:
        return Trust(ratio=math.exp(middle), low=math.exp(middle), high=math.exp(middle))
    # Welch and Satterthwaite: cells differ in how far their rounds are apart.
    freedom = total**2 / sum(
        own**2 / (len(found) - 1) for own, found in zip(variances, logs, strict=True)
    )
    reach = STUDENT[min(int(freedom), len(STUDENT)) - 1] * math.sqrt(total) / len(cells)
    return Trust(
        ratio=math.exp(middle), low=math.exp(middle - reach), high=math.exp(middle + reach)
    )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The rounds of one cell."""

    cell: str
    title: str
    unit: str
    before: Sequence[float]
    now: Sequence[float]

    @property
    def ratios(self) -> Sequence[float]:
        """Of each round."""
        return [now / before for before, now in zip(self.before, self.now, strict=True)]

    def row(self) -> list[str]:
        """A line of the table."""
        return [
            self.title,
            f"{statistics.median(self.before):,.0f}",
            f"{statistics.median(self.now):,.0f}",
            self.unit,
            *_judged(trust([self.ratios])),
            f"{len(self.ratios)}: {min(self.ratios):.2f} to {max(self.ratios):.2f}",
        ]

    def figures(self) -> Mapping[str, object]:
        """All of it."""
        return {
            "cell": self.cell,
            "title": self.title,
            "unit": self.unit,
            "before": self.before,
            "now": self.now,
            **_figures(trust([self.ratios])),
        }


def _judged(found: Trust | None) -> list[str]:
    if found is None:
        return ["", "", "too few rounds"]
    return [f"{found.ratio:.3f}", f"± {found.noise:.3f}", found.verdict]


def _figures(found: Trust | None) -> Mapping[str, object]:
    if found is None:
        return {"ratio": None, "noise": None, "verdict": None}
    return {"ratio": found.ratio, "noise": found.noise, "verdict": found.verdict}


def rows(compared: Sequence[Comparison]) -> list[list[str]]:
    """The table, with what all cells together say."""
    heading = ["cell", "before", "now", "unit", "ratio", "noise", "verdict", "rounds"]
    together = trust([one.ratios for one in compared])
    return [
        heading,
        *(one.row() for one in compared),
        ["all of them", "", "", "", *_judged(together), ""],
    ]


def measure(
    bench: Bench, cell: Timed, systems: Sequence[System], chosen: argparse.Namespace, most: float
) -> Comparison:
    """The rounds of one cell, before and now: as many as there may be in so many seconds."""
    before, now = systems
    found: dict[str, list[float]] = {system.name: [] for system in systems}
    order = random.sample([before, now], 2)
    length = Length(seconds=chosen.seconds)
    taken, started = 0.0, time.monotonic()
    for number in range(1, chosen.rounds + 1):
        start = time.monotonic()
        if number > FEWEST and start - started + taken > most:
            break
        for system in order:
            found[system.name].append(cell.measure(bench, system, length)["rate"])
        order.reverse()
        ratio = found[now.name][-1] / found[before.name][-1]
        taken = time.monotonic() - start
        print(f"  {cell.name} round {number}: {ratio:.3f} ({taken:.0f} s)", file=sys.stderr)
    return Comparison(
        cell=cell.name,
        title=cell.title,
        unit=cell.quantities[0].unit,
        before=found[before.name],
        now=found[now.name],
    )


def lacking(cell: Timed, script: str) -> list[str]:
    """The functions that a cell calls and an install script does not have."""
    text = SYSTEMS["pgq"].script(cell.task.scripts["pgq"]).read_text()
    called = set(re.findall(r"pgq\.(\w+)\(", text))
    return sorted(name for name in called if f"create function pgq.{name}(" not in script)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="compare.py", description=__doc__)
    parser.add_argument(
        "--cell", action="append", metavar="NAME", help="only these cells; wildcards; repeatable"
    )
    parser.add_argument(
        "--rounds", type=int, default=12, help="rounds per cell at most (default 12)"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=14,
        help=f"for all cells together (default 14); each has {FEWEST} rounds in any case",
    )
    parser.add_argument("--seconds", type=int, default=3, help="length of a run (default 3)")
    parser.add_argument("--list", action="store_true", help="list the cells and stop")
    parser.add_argument(
        "--before",
        default=BEFORE,
        metavar="REVISION-OR-FILE",
        help=f"compare with this revision, or this install script (default {BEFORE})",
    )
    parser.add_argument(
        "--sql",
        metavar="REVISION-OR-FILE",
        help="measure this in place of what `make build` has left",
    )
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--wal", type=int, default=4, help="GB of WAL kept ready (default 4)")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    chosen = parser.parse_args(arguments)
    if min(chosen.rounds, chosen.seconds, chosen.wal) < 1:
        parser.error("rounds, seconds and wal start at 1")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the cells asked for; 0 when every run was sound, whatever the ratios."""
    chosen = options(arguments)
    patterns = chosen.cell or ["*"]
    cells = [cell for cell in COMPARED if any(fnmatch.fnmatch(cell.name, p) for p in patterns)]
    if chosen.list or not cells:
        for cell in COMPARED:
            print(f"{cell.name:22} {cell.title}")
        return 0 if chosen.list else 2
    try:
        with ExitStack() as stack:
            before = stack.enter_context(installed(chosen.before))
            now = Installed(name="this checkout", script=install_script())
            if chosen.sql is not None:
                now = stack.enter_context(installed(chosen.sql))
            return compare(cells, before, now, chosen)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2


def compare(
    cells: Sequence[Timed], before: Installed, now: Installed, chosen: argparse.Namespace
) -> int:
    """Measure the cells that both versions can do, and print the table."""
    pgq = SYSTEMS["pgq"]
    systems = (
        replace(pgq, name="before", version_of=pgq.name, installed_from=before.script),
        replace(pgq, installed_from=now.script),
    )
    texts = [one.script.read_text() for one in (before, now)]
    missing = {
        cell.name: names
        for cell in cells
        if (names := sorted({name for text in texts for name in lacking(cell, text)}))
    }
    compared: list[Comparison] = []
    notes = [f"left out: {name}: no {', '.join(names)}" for name, names in missing.items()]
    failed = False
    measured = [cell for cell in cells if cell.name not in missing]
    with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=chosen.wal) as bench:
        machine = {
            "revision": commit_of(HERE),
            "before": before.name,
            "now": now.name,
            **bench.description(),
            "runs": f"at most {chosen.rounds} rounds of {chosen.seconds} s",
        }
        for system in systems:
            bench.install(f"template_{system.name}", system.schema)
        end = time.monotonic() + 60 * chosen.minutes
        for done, cell in enumerate(measured):
            most = (end - time.monotonic()) / (len(measured) - done)
            try:
                compared.append(measure(bench, cell, systems, chosen, most))
            except (BenchmarkError, EmbeddedServerError, psycopg.Error) as error:
                print(f"  {cell.name} failed: {error}", file=sys.stderr)
                notes.append(f"failed: {cell.name}: {error}")
                failed = True
            finally:
                cell.finish(bench)
            if chosen.json is not None:  # a run that is ended early keeps its cells
                chosen.json.write_text(written(machine, compared, notes))
    print(*(f"- {name}: {value}" for name, value in machine.items()), "", sep="\n")
    print(plain_table(rows(compared), numbers={1, 2, 4, 5}), *notes, sep="\n")
    return 1 if failed else 0


def written(
    machine: Mapping[str, str], compared: Sequence[Comparison], notes: Sequence[str]
) -> str:
    """Everything, as JSON."""
    found = {
        "machine": machine,
        "notes": list(notes),
        "figures": [one.figures() for one in compared],
        "all": _figures(trust([one.ratios for one in compared])),
    }
    return json.dumps(found, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
