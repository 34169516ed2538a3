"""How the cost of a message or a job grows: with topics, messages, jobs, clients and bytes.

Each part makes a database for each of its steps, ten times as many topics in each for example, and
then makes the same calls in all of them. Steps take turns, in a new random order in each round, so
that a slow minute of the machine does not look like growth. A figure is the processor time of a
call, which the server tells: the median over the rounds of the medians of each round. The time that
passes is measured for many clients only.

What is said about a line: it is flat when its last step costs at most 1.3 times its cheapest one,
logarithmic when no doubling adds more than a quarter of the cheapest step, else it grows. Pages are
those that one call touches at the first and the last step, as EXPLAIN counts them; they are the
same on every machine.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.cells.base import settle  # noqa: E402
from benchmarks.crowds import CROWDS  # noqa: E402
from benchmarks.growing import Measured, Part  # noqa: E402
from benchmarks.grown import PARTS  # noqa: E402
from benchmarks.harness import Bench, Database, commit_of  # noqa: E402
from benchmarks.report import plain_table  # noqa: E402
from benchmarks.systems import SYSTEMS  # noqa: E402
from benchmarks.verdicts import Figures, Results, Series  # noqa: E402

__all__ = ["KNOWN", "main", "options", "steps_of"]

OUTPUT = HERE.parent / ".cache" / "growth"
KNOWN: dict[str, Part] = {part.name: part for part in (*PARTS, *CROWDS)}


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="growth.py", description=__doc__)
    parser.add_argument("--part", nargs="+", choices=list(KNOWN), metavar="NAME", help="see --list")
    parser.add_argument("--list", action="store_true", help="the parts and their steps")
    parser.add_argument("--limit", type=int, help="leave out steps above this")
    parser.add_argument("--full", action="store_true", help="with 50 million messages")
    parser.add_argument("--quick", action="store_true", help="shows that it works, not how fast")
    parser.add_argument("--rounds", type=int, help="5 without")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a line, in each round")
    parser.add_argument("--seed", type=int, default=1, help="of the order, and of what is picked")
    parser.add_argument("--json", type=Path, default=OUTPUT / "growth.json")
    parser.add_argument("--markdown", type=Path, default=OUTPUT / "growth.md")
    parser.add_argument("--plot", type=Path, default=OUTPUT, metavar="FOLDER")
    parser.add_argument("--of", type=Path, nargs="+", metavar="JSON", help="measure nothing")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    chosen = parser.parse_args(arguments)
    chosen.rounds = chosen.rounds or (1 if chosen.quick else 5)
    if chosen.rounds < 1 or chosen.seconds <= 0 or (chosen.limit is not None and chosen.limit < 1):
        parser.error("--rounds, --seconds and --limit must be above 0")
    if chosen.quick:
        chosen.seconds = min(chosen.seconds, 0.05)
    return chosen


def steps_of(part: Part, chosen: argparse.Namespace) -> list[int]:
    """The steps that are to be measured."""
    steps = [*part.steps, *(part.full if chosen.full else ())]
    if chosen.quick:
        steps = steps[:2]
    return [step for step in steps if chosen.limit is None or step <= chosen.limit]


def measure(bench: Bench, part: Part, chosen: argparse.Namespace) -> Figures:
    """Build the databases of a part, and let its steps take turns."""
    luck = random.Random(chosen.seed)
    figures = Figures(part.name, part.title, part.axis, part.picture, [])
    known: dict[str, Series] = {}
    databases: dict[int, Database] = {}
    for step in steps_of(part, chosen):
        begun = time.perf_counter()
        name = f"growth_{step if part.apart else 0}"
        if part.apart or not databases:
            databases[step] = bench.fresh(name, template="template_pgq")
            part.build(bench, databases[step], step)
            settle(bench, databases[step])
        databases[step] = bench.database(name)
        _say(f"{part.name} {step:,}: built in {time.perf_counter() - begun:.0f} s")

    def note(step: int, found: Sequence[Measured]) -> None:
        for one in found:
            series = known.setdefault(one.line, Series(one.line, one.unit))
            series.samples.setdefault(step, []).append(one.cost)
            if one.pages is not None:
                series.pages.setdefault(step, []).append(one.pages)

    for number in range(chosen.rounds):
        begun = time.perf_counter()
        for step in luck.sample(list(databases), len(databases)):
            note(step, part.measure(bench, databases[step], step, chosen.seconds, luck))
        _say(f"{part.name}: round {number + 1} took {time.perf_counter() - begun:.0f} s")
    for step, database in databases.items():
        note(step, part.finish(database, step))
    for database in databases.values():
        bench.drop(database.name)
    bench.checkpoint()
    figures.series = list(known.values())
    return figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write(results: Results, chosen: argparse.Namespace) -> None:
    """Write all files; after each part, so that a run that is stopped was not for nothing."""
    for path, text in ((chosen.json, results.json()), (chosen.markdown, results.markdown())):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    results.draw(chosen.plot)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables; 0 when all parts were measured, whatever they say."""
    chosen = options(arguments)
    if chosen.list:
        for part in KNOWN.values():
            print(f"{part.name:12} {part.title}: {', '.join(f'{s:,}' for s in part.steps)}")
        return 0
    if chosen.of:
        results = Results.read(chosen.of)
        write(results, chosen)
        print(results.markdown(), end="")
        return 0
    results = Results()
    with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=1 if chosen.quick else 4) as bench:
        results.machine = {
            "revision": commit_of(HERE),
            **bench.description(),
            "rounds": f"{chosen.rounds}, seed {chosen.seed}, {chosen.seconds:g} s for a line",
        }
        bench.install("template_pgq", SYSTEMS["pgq"].schema)
        for name in chosen.part or KNOWN:
            figures = measure(bench, KNOWN[name], chosen)
            results.parts[name] = figures
            write(results, chosen)
            rows = figures.rows()
            print(plain_table(rows, numbers=set(range(2, len(rows[0]) - 1))), "\n", flush=True)
    print(*(f"- {name}: {value}" for name, value in results.machine.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
