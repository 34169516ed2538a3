"""Held snapshots and their relatives: what an operator's accident costs, minute by minute.

For each of them (holding.py) a server of its own has the same databases: pgq and the published
primitives, each with a log that is published to and consumed, and a queue whose jobs are enqueued,
claimed and archived. Both loads are offered at a fixed rate to one system at a time; the systems
take turns of some seconds, so a machine that gets slower hurts both. All the time something is held
in all the databases. Once in each turn pgq's cleanup is called, as it is every minute elsewhere.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import psycopg  # noqa: E402
from benchmarks.cells.base import JOB_BODY, LOG_BODY, settle  # noqa: E402
from benchmarks.cells.tasks import Place  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, commit_of  # noqa: E402
from benchmarks.holding import HOLDS  # noqa: E402
from benchmarks.judging import Limit, judge, percentile  # noqa: E402
from benchmarks.pgbench import Load  # noqa: E402
from benchmarks.systems import SYSTEMS  # noqa: E402

from pgq.embedded import EmbeddedServerError  # noqa: E402

__all__ = ["Course", "main", "options", "rows"]

COMPARED = ("pgq", "primitives")
SCRIPTS = {"log": "publish_consume", "queue": "enqueue_work"}
TITLES = {"log": "publish, consume", "queue": "enqueue, claim, archive"}
BODIES = {"log": LOG_BODY, "queue": JOB_BODY}
CLIENTS = 4
BATCH = 100
WAITING = 1000
"""Jobs that are there all the time, so that whoever claims one finds one."""
SLICE = 10
FLAT = Limit(0.5, 1.0)
"""What the median latency of a slice may rise by, in ms, and is still called flat."""

DEAD = "select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables"
SIZE = "select pg_database_size(current_database())"


@dataclass(kw_only=True)
class Course:
    """One load on one system while something was held: a figure for each slice."""

    held: str
    system: str
    load: str
    offered: int
    minutes: list[float] = field(default_factory=list)
    """Of each slice: when it began, counted from when the hold began."""
    reached: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    dead: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def ends(self, figures: Sequence[float]) -> tuple[float, float]:
        """The medians of the first and of the last fifth of the slices."""
        width = max(len(figures) // 5, 1)
        return statistics.median(figures[:width]), statistics.median(figures[-width:])

    @property
    def verdict(self) -> str:
        """Whether the median latency stays as it is."""
        points = list(zip(self.minutes, self.p50, strict=True))
        return judge(points, FLAT, parts=min(10, len(points))).verdict if len(points) > 2 else "—"

    def row(self) -> list[str]:
        """A line of the table."""
        first, last = self.ends(self.reached)
        median, tail = self.ends(self.p50), self.ends(self.p99)
        return [
            HOLDS[self.held].title,
            TITLES[self.load],
            self.system,
            f"{first:.0f} → {last:.0f}",
            f"{median[0]:.2f} → {median[1]:.2f}",
            f"{tail[0]:.1f} → {tail[1]:.1f}",
            f"{self.dead[-1]:,.0f}",
            f"{self.megabytes[0]:.0f} → {self.megabytes[-1]:.0f}",
            self.verdict,
        ]

    def written(self) -> Mapping[str, object]:
        """For JSON."""
        return {**vars(self), "verdict": self.verdict}


HEADINGS = [
    *("held", "load", "system", "reached per second", "p50, ms", "p99, ms"),
    *("dead rows", "MB", "p50 is"),
]


def rows(courses: Sequence[Course]) -> list[list[str]]:
    """The table."""
    return [HEADINGS, *(course.row() for course in courses)]


def measure(name: str, chosen: argparse.Namespace) -> list[Course]:
    """The loads on both systems while one thing is held."""
    settings = {**HOLDS[name].settings, "checkpoint_timeout": "5min"}
    with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=1, settings=settings) as bench:
        places = {
            (system, load): _place(bench, system, load) for system in COMPARED for load in SCRIPTS
        }
        courses = {
            (system, load): Course(
                held=name, system=system, load=load, offered=getattr(chosen, f"{load}_rate")
            )
            for system, load in places
        }
        with HOLDS[name](bench, [place.database for place in places.values()]):
            _take_turns(places, courses, chosen.seconds)
        for (_, load), place in places.items():
            if load == "log":
                place.check("log", messages=place.done)
            else:
                place.check("queue", waiting=WAITING, finished=place.done)
    return list(courses.values())


def _place(bench: Bench, system: str, load: str) -> Place:
    template = f"template_{system}"
    bench.install(template, SYSTEMS[system].schema)
    place = Place(bench, SYSTEMS[system], bench.fresh(f"{system}_{load}", template=template))
    if load == "log":
        place.do("create_topic", partitions=8)
        place.do("create_groups", groups=1)
    else:
        place.do("create_queue")
        place.fill("jobs", WAITING, JOB_BODY)
    settle(bench, place.database)
    return place


def _take_turns(
    places: Mapping[tuple[str, str], Place],
    courses: Mapping[tuple[str, str], Course],
    seconds: int,
) -> None:
    length = max(min(SLICE, seconds // 12), 1)
    begun = time.monotonic()
    with ThreadPoolExecutor(len(SCRIPTS)) as pool:
        while time.monotonic() < begun + seconds or not courses["pgq", "log"].reached:
            for system in random.sample(COMPARED, len(COMPARED)):
                turn = [(system, load) for load in SCRIPTS]
                minute = (time.monotonic() - begun) / 60
                tasks = [
                    pool.submit(_slice, places[which], courses[which], length, minute)
                    for which in turn
                ]
                for task in tasks:
                    task.result()
    shown = ", ".join(
        f"{one.system} {one.load} {one.reached[-1]:.0f}/s {one.p50[-1]:.1f} ms"
        for one in courses.values()
    )
    print(f"  at the end: {shown}", file=sys.stderr)


def _slice(place: Place, course: Course, length: int, minute: float) -> None:
    if course.system == "pgq":
        place.database.run("select count(*) from pgq.cleanup()")
    found = place.bench.latencies(
        place.database,
        Load(
            script=place.system.script(SCRIPTS[course.load]),
            clients=CLIENTS,
            body=BODIES[course.load],
            batch=BATCH,
            rate=course.offered,
        ),
        most_seconds=length,
    )
    place.done += len(found)
    taken = [one.milliseconds for one in found]
    course.minutes.append(minute)
    course.reached.append(len(taken) / length)
    course.p50.append(percentile(taken, 0.5))
    course.p99.append(percentile(taken, 0.99))
    course.dead.append(float(place.database.row(DEAD)[0]))
    course.megabytes.append(float(place.database.row(SIZE)[0]) / (1 << 20))


def picture(path: Path, courses: Sequence[Course]) -> None:
    """Latencies and dead rows over the minutes: a column for each system and load."""
    # here, since without this picture a run needs no matplotlib
    from benchmarks.plots import Panel, draw

    panels = []
    for title, unit, figure in (
        ("p50", "ms", "p50"),
        ("p99", "ms", "p99"),
        ("dead rows", "rows", "dead"),
    ):
        for load in SCRIPTS:
            for system in COMPARED:
                lines = {
                    one.held: list(zip(one.minutes, getattr(one, figure), strict=True))
                    for one in courses
                    if (one.system, one.load) == (system, load)
                }
                name = f"{system}, {TITLES[load]}: {title}"
                panels.append(Panel(name, "minutes", unit, lines, log_y=unit == "ms"))
    draw(path, "what is held, and what it costs", panels, columns=4)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="held.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hold", action="append", choices=list(HOLDS), help="only these")
    parser.add_argument("--seconds", type=int, default=600, help="length of each (default 600)")
    parser.add_argument("--log-rate", type=int, default=200, help="publishes a second offered")
    parser.add_argument("--queue-rate", type=int, default=150, help="jobs a second offered")
    parser.add_argument("--seed", type=int, default=1, help="of the order of turns (default 1)")
    parser.add_argument("--quick", action="store_true", help="a few seconds each: shows it works")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--plot", type=Path, help="draw the figures into this SVG file")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.seconds = 3
    if min(chosen.seconds, chosen.log_rate, chosen.queue_rate) < 1:
        parser.error("seconds and rates start at 1")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 when every run was sound."""
    chosen = options(arguments)
    random.seed(chosen.seed)
    courses: list[Course] = []
    failed = False
    with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=1) as bench:
        machine = {
            "revision": commit_of(HERE),
            **bench.description(),
            "run": f"{chosen.seconds} s each, both systems by turns, {CLIENTS} clients a load;"
            f" offered {chosen.log_rate} and {chosen.queue_rate} a second, seed {chosen.seed}",
        }
    for name in chosen.hold or HOLDS:
        print(HOLDS[name].title, file=sys.stderr)
        try:
            courses += measure(name, chosen)
        except (BenchmarkError, EmbeddedServerError, psycopg.Error) as error:
            print(f"{name} failed: {error}", file=sys.stderr)
            failed = True
    text = _markdown(machine, courses)
    print(text)
    if chosen.json is not None:
        written = {"machine": machine, "courses": [one.written() for one in courses]}
        chosen.json.write_text(json.dumps(written, indent=1) + "\n")
    if chosen.markdown is not None:
        chosen.markdown.write_text(text)
    if chosen.plot is not None and courses:
        picture(chosen.plot, courses)
    return 1 if failed else 0


def _markdown(machine: Mapping[str, str], courses: Sequence[Course]) -> str:
    heading, *lines = rows(courses)
    table = [heading, ["---", "---", "---", *["---:"] * 5, "---"], *lines]
    return "\n".join(
        [
            *(f"- {name}: {value}" for name, value in machine.items()),
            "",
            *("| " + " | ".join(row) + " |" for row in table),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
