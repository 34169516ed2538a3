"""Months in minutes: does anything grow in a database that pgq has been at work in for months?

The clock of pgq runs thousands of times faster (scaled.py), so that minutes hold months of leases,
retries, ticks and retention. Publishers, consumers, workers of whom some die, bulk writers,
schedules and cleanup work at fixed rates, well below what a machine can do. Every few seconds
sizes, dead rows, ages, catalogs, memory of sessions and latencies are sampled. There are four
phases:

calm: nothing else happens;
snapshots: there is always at least one transaction with an old snapshot open;
ids: the same, and those transactions have ids, as if they had written something;
after: nothing of that any more.

Calm is judged by its second tenth and its last one, the two beside it by the peaks of their second
and last third, and after by its last tenth and the second of calm, or, where something keeps the
most that it ever had, by the peaks of the phases before. Latencies are judged as multiples of what
a commit without pgq takes at that time, so a machine that gets slower is not pgq's. At the end all
that was written has to have been consumed once and in order, and each job has to have one end. The
exit status says whether all of this is so and nothing grew.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "python" / "tools")]

import psycopg  # noqa: E402
from benchmarks import months_house as house  # noqa: E402
from benchmarks.harness import Bench, Database, commit_of  # noqa: E402
from benchmarks.holding import Overlapping  # noqa: E402
from benchmarks.judging import percentile  # noqa: E402
from benchmarks.months_actors import Actor, Cleaner, Clock, Pace, World  # noqa: E402
from benchmarks.months_jobs import job_actors  # noqa: E402
from benchmarks.months_ledger import check  # noqa: E402
from benchmarks.months_log import log_actors  # noqa: E402
from benchmarks.months_report import Phase, Report, picture  # noqa: E402
from benchmarks.sampling import (  # noqa: E402
    catalog_figures,
    private_memory,
    segment_figures,
    table_figures,
)
from benchmarks.scaled import scale_clock  # noqa: E402
from benchmarks.systems import SYSTEMS  # noqa: E402

from pgq.embedded import EmbeddedServerError  # noqa: E402

__all__ = ["main", "options", "phases_of"]

SETTINGS = {
    "checkpoint_timeout": "5min",
    "max_wal_size": "1GB",
    # Low enough that tables are frozen within the run, and often enough that what grows between
    # two vacuums does not look like a trend.
    "autovacuum_naptime": "15s",
    "autovacuum_freeze_max_age": "100000",
    "autovacuum_multixact_freeze_max_age": "10000",
}

SHARES = {"calm": 0.45, "snapshots": 0.25, "ids": 0.17, "after": 0.13}
FEWEST = 20
"""Calls that a percentile is taken of, at least."""
DRAIN = 120.0
DAY = 86_400


def phases_of(seconds: int) -> list[Phase]:
    """When each phase begins and ends."""
    found, begin = [], 0.0
    for name, share in SHARES.items():
        found.append(Phase(name, begin, begin + seconds * share))
        begin += seconds * share
    return found


@dataclass
class Sampler:
    """Takes the samples of a run."""

    world: World
    scale: int
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    """How many calls of each kind are in percentiles already."""

    def note(self, name: str, moment: float, value: float) -> None:
        """Add a point to a series."""
        self.series.setdefault(name, []).append((moment, value))

    def sample(self, connection: psycopg.Connection[Any], moment: float) -> None:
        """Look at everything once."""
        figures = {
            **table_figures(connection),
            **catalog_figures(connection),
            **segment_figures(connection, self.scale),
        }
        figures["MB: private memory of sessions"] = private_memory(list(self.world.pids.values()))
        for name, found in list(self.world.recorder.notes.items()):
            figures[f"{name}, largest"] = max(list(found.values()))
        bookkeeping = [v for name, v in figures.items() if name.startswith("rows: ")]
        figures["rows: all but messages"] = sum(bookkeeping)
        for name, value in figures.items():
            self.note(name, moment, value)
        for kind, calls in list(self.world.recorder.calls.items()):
            fresh = calls[self.taken.get(kind, 0) :]
            if len(fresh) < FEWEST:
                continue
            self.taken[kind] = self.taken.get(kind, 0) + len(fresh)
            for share in (50, 95, 99):
                self.note(f"ms: {kind}, p{share}", moment, percentile(fresh, share / 100))


def watch(
    database: Database, sampler: Sampler, phases: Sequence[Phase], chosen: argparse.Namespace
) -> None:
    """Sample through all phases, with old transactions open where they belong."""
    world = sampler.world
    begun = time.monotonic()
    with database.connect() as connection, Overlapping(database.dsn) as open_ones:
        connection.execute("set application_name = 'sampler'")
        due = 0.0
        for phase in phases:
            print(f"{phase.name}: {phase.end - phase.begin:.0f} s", file=sys.stderr)
            held = phase.name in ("snapshots", "ids")
            hold = (phase.end - phase.begin) / 3
            if not held:
                open_ones.end()
            while (now := time.monotonic() - begun) < phase.end and not world.stopped.is_set():
                if held:
                    open_ones.keep(now - phase.begin, hold, with_id=phase.name == "ids")
                if now >= due:
                    sampler.sample(connection, now)
                    due = max(due + chosen.every, now)
                time.sleep(0.1)


def finish(database: Database, world: World, actors: Sequence[Actor]) -> list[str]:
    """Let everything come to its end, and say what is not as it should be."""
    world.producing.clear()
    for actor in actors:
        if actor.produces:
            actor.join(DRAIN)
    end = time.monotonic() + DRAIN
    with database.connect() as connection:
        while time.monotonic() < end and not world.stopped.is_set():
            wrong = check(connection, world.ledger, house.READERS)
            if not wrong:
                break
            time.sleep(2)
        world.stopped.set()
        for actor in actors:
            actor.join(DRAIN)
        if world.errors:
            raise world.errors[0]
        return check(connection, world.ledger, house.READERS)


def play(bench: Bench, chosen: argparse.Namespace) -> Report:
    """All of it; returns what was seen."""
    database = bench.fresh("months", template="template_pgq")
    world = World(database.dsn, chosen.seed)
    with database.connect() as connection:
        scale_clock(connection, chosen.scale)
        house.make(connection)
        first_seq = house.warm_up(connection)
    bench.checkpoint()
    actors = [
        *log_actors(world, first_seq),
        *job_actors(world),
        Cleaner(world, "cleaner"),
        Clock(world, "clock"),
        Pace(world, "pace"),
    ]
    phases = phases_of(chosen.seconds)
    sampler = Sampler(world, chosen.scale)
    world.producing.set()
    for actor in actors:
        actor.start()
    try:
        watch(database, sampler, phases, chosen)
    finally:
        world.producing.clear()
    troubles = finish(database, world, actors)
    recorder = world.recorder
    done: dict[str, float] = {
        "days of pgq's time": round(chosen.seconds * chosen.scale / DAY, 1),
        "calls": sum(map(len, recorder.calls.values())),
        "messages": sum(
            digest.count
            for name, digest in world.ledger.written.items()
            if name not in ("followers", "bulk-jobs")
        ),
        **dict(sorted(world.ledger.done.items())),
        "conflicts, tried again": recorder.retries,
        "seconds behind the offered load": round(recorder.late, 1),
    }
    return Report(phases, sampler.series, done, troubles, SETTINGS)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="months.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seconds", type=int, default=1800, help="length of all phases together (default 1800)"
    )
    parser.add_argument(
        "--scale", type=int, default=6000, help="seconds of pgq's time in one (default 6000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of what is random (default 1)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two samples")
    parser.add_argument(
        "--quick", action="store_true", help="a minute: shows that it works, judges little"
    )
    parser.add_argument("--of", type=Path, help="judge the run of this JSON file once more")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--json", type=Path, help="write all samples and figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    parser.add_argument("--plot", type=Path, help="draw the samples into this SVG file")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.seconds, chosen.every = 60, 0.5
    if min(chosen.seconds, chosen.scale) < 1 or chosen.every <= 0:
        parser.error("seconds and scale start at 1, every is above 0")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, judge, write; 0 when nothing grew, and nothing was lost or came twice."""
    chosen = options(arguments)
    if chosen.of is not None:
        written = json.loads(chosen.of.read_text())
        return tell(Report.read(written), written["machine"], chosen)
    try:
        with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=1, settings=SETTINGS) as bench:
            bench.install("template_pgq", SYSTEMS["pgq"].schema)
            machine: Mapping[str, str] = {
                "revision": commit_of(HERE),
                **bench.description(),
                "run": f"{chosen.seconds} s, {chosen.scale} times as fast, seed {chosen.seed}",
            }
            report = play(bench, chosen)
    except (EmbeddedServerError, psycopg.Error) as error:
        print(f"the run failed: {error}", file=sys.stderr)
        return 1
    return tell(report, machine, chosen)


def tell(report: Report, machine: Mapping[str, str], chosen: argparse.Namespace) -> int:
    """Print and write what was seen; 0 when it is good."""
    print(report.markdown(machine))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(report.written(machine), indent=1) + "\n")
    if chosen.markdown is not None:
        chosen.markdown.write_text(report.markdown(machine))
    if chosen.plot is not None:
        picture(chosen.plot, report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
