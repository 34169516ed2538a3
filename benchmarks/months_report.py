"""What a run of months showed: each series judged in each phase, tables, and a picture."""

from __future__ import annotations

import bisect
import fnmatch
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.judging import Judgement, Limit, judge, judge_peak, judge_return
from benchmarks.months_actors import PACE

__all__ = ["LIMITS", "Phase", "Report", "limit_of", "picture"]

SMOOTH = 8
"""Samples on either side by which the pace of the machine is told."""

Series = Mapping[str, Sequence[tuple[float, float]]]

LIMITS: Mapping[str, Limit] = {
    # Ids are given out all the time; vacuum makes a table young again when it is as old as that.
    "age: oldest transaction id": Limit(most=130_000),
    "age: oldest multixact": Limit(most=13_000),
    "seconds: *": Limit(most=10),
    "MB: database": Limit(0.1, 3),
    # A session plans a statement once for each of the first 16 leaves that it meets.
    "MB: private memory*": Limit(0.1, 10, fills=True),
    "MB: memory contexts*": Limit(0.1, 1, fills=True),
    "MB: *": Limit(0.15, 1.5),
    "dead rows: *": Limit(0.5, 1500),
    "rows: pg_class": Limit(0.02, 30),
    "rows: *": Limit(0.15, 150),
    "segments": Limit(0.1, 4),
    "ms: *, p50": Limit(0.5, 1),
    "ms: *, p95": Limit(1, 10),
    "ms: *, p99": Limit(1.5, 30),
}
"""What is still flat, by the first pattern that a series' name matches."""

BESIDE: Mapping[str, Limit] = {
    # What was sealed while a transaction with an id was open is closed when that has ended.
    "seconds: a segment is sealed*": Limit(0.25, 10),
    "age: *": Limit(most=200_000),
    # As many leaves as segments: 11 tables and indexes each.
    "rows: pg_class": Limit(0.1, 44),
}
"""The same for phases in which old transactions are open, where it is different."""

HIGH_WATER = (
    # Leaves are made when all are in use, and kept for the next time; sessions know all of them.
    *("rows: pg_class", "rows: leaf", "MB: private memory*", "MB: memory contexts*"),
    # Vacuum gives pages back only at the end of a file; the others are used again.
    "MB: *",
)
"""What keeps the most that it ever had."""

SHOWN = (
    "MB: database",
    "MB: tables of pgq",
    "MB: message_[*]",
    "MB: job",
    "MB: group_position",
    "dead rows: tables of pgq",
    "dead rows: job",
    "segments",
    "seconds: *",
    "rows: all but messages",
    "rows: pg_class",
    "MB: pg_class",
    "MB: pg_attribute",
    "dead rows: pg_class",
    "dead rows: pg_attribute",
    "age: *",
    "MB: private memory*",
    "MB: memory contexts*",
    f"ms: {PACE}, p*",
    "ms: publish, p*",
    "ms: consume, p*",
    "ms: enqueue, p*",
    "ms: claim, p*",
    "ms: ack, p*",
    "ms: archive, p*",
    "ms: cleanup, p*",
)
"""What the table shows in any case; of all else only what is not flat."""


@dataclass(frozen=True)
class Phase:
    """A part of the run, from one second of it to another."""

    name: str
    begin: float
    end: float

    def of(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """The points that belong to it."""
        return [point for point in points if self.begin <= point[0] < self.end]


def limit_of(name: str, phase: str) -> Limit:
    """What is still flat for a series in a phase."""
    tables = (BESIDE, LIMITS) if phase in ("snapshots", "ids") else (LIMITS,)
    for table in tables:
        for pattern, limit in table.items():
            if fnmatch.fnmatchcase(name, pattern):
                return limit
    raise KeyError(name)


@dataclass(frozen=True)
class Report:
    """All that a run showed."""

    phases: Sequence[Phase]
    series: Series
    done: Mapping[str, float]
    troubles: Sequence[str]
    settings: Mapping[str, str]

    def judged(self, name: str) -> dict[str, Judgement]:
        """What each phase says of a series."""
        points = self.series[name]
        timed = name.startswith("ms: ")
        if not timed:
            return {phase.name: self._judge(name, phase, points) for phase in self.phases}
        shown = {phase.name: self._judge(name, phase, points) for phase in self.phases}
        if name.startswith(f"ms: {PACE}"):
            return {phase: replace(one, verdict="—") for phase, one in shown.items()}
        paced = self._paced(points)
        return {
            phase.name: replace(shown[phase.name], verdict=self._judge(name, phase, paced).verdict)
            for phase in self.phases
        }

    def _judge(self, name: str, phase: Phase, points: Sequence[tuple[float, float]]) -> Judgement:
        limit = limit_of(name, phase.name)
        calm, mine = self.phases[0].of(points), phase.of(points)
        if phase.name == "calm":
            return judge(mine, limit)
        if phase.name != "after":
            return judge(mine, limit, parts=3, peaks=not name.startswith("ms: "))
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in HIGH_WATER):
            before = [value for moment, value in points if moment < phase.begin]
            return judge_peak(before, mine, limit)
        return judge_return(calm, mine, limit)

    def _paced(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Latencies, as they would be if the machine had been as fast all the time."""
        pace = self.series.get(f"ms: {PACE}, p50", ())
        if not pace:
            return list(points)
        usual = statistics.median(value for _, value in pace)
        moments = [moment for moment, _ in pace]
        found = []
        for moment, value in points:
            place = bisect.bisect(moments, moment)
            around = [near for _, near in pace[max(place - SMOOTH, 0) : place + SMOOTH]]
            found.append((moment, value * usual / statistics.median(around)))
        return found

    def growing(self) -> dict[str, dict[str, Judgement]]:
        """The series that are not flat in one of the phases."""
        found = {name: self.judged(name) for name in sorted(self.series)}
        return {
            name: phases
            for name, phases in found.items()
            if any(one.verdict in ("grows", "creeps") for one in phases.values())
        }

    @property
    def good(self) -> bool:
        """Whether nothing grew, and all that was written came once."""
        return not self.troubles and not self.growing()

    def shown(self) -> Iterator[str]:
        """The names of the series of the table."""
        growing = self.growing()
        listed = set()
        for pattern in SHOWN:
            for name in self.series:
                if fnmatch.fnmatchcase(name, pattern) and name not in listed:
                    listed.add(name)
                    yield name
        yield from (name for name in growing if name not in listed)

    def rows(self) -> list[list[str]]:
        """The table: for each series the levels that are compared, and the verdict."""
        rows = [["", *(heading for phase in self.phases for heading in (phase.name, ""))]]
        for name in self.shown():
            row = [name]
            for phase in self.judged(name).values():
                row += [f"{_number(phase.first)} → {_number(phase.last)}", phase.verdict]
            rows.append(row)
        return rows

    def markdown(self, machine: Mapping[str, str]) -> str:
        """All of it as text."""
        heading, *rows = self.rows()
        table = [heading, ["---"] * len(heading), *rows]
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        growing = self.growing()
        lines = [
            *(f"- {name}: {value}" for name, value in machine.items()),
            f"- beside these: {settings}",
            "",
            *(["| what happened | how often |", "| --- | ---: |"]),
            *(f"| {name} | {value:,} |" for name, value in self.done.items()),
            "",
            *("| " + " | ".join(row) + " |" for row in table),
            "",
            f"{len(self.series)} series were judged; "
            + (f"not flat: {', '.join(growing)}." if growing else "all are flat.")
            + ("" if not self.troubles else f" Broken promises: {'; '.join(self.troubles[:10])}."),
        ]
        return "\n".join(lines) + "\n"

    def written(self, machine: Mapping[str, str]) -> dict[str, object]:
        """All of it for JSON."""
        return {
            "machine": machine,
            "settings": self.settings,
            "done": self.done,
            "troubles": list(self.troubles),
            "phases": [vars(phase) for phase in self.phases],
            "judgements": {
                name: {phase: vars(one) for phase, one in self.judged(name).items()}
                for name in sorted(self.series)
            },
            "series": {
                name: [(round(moment, 1), round(value, 3)) for moment, value in points]
                for name, points in sorted(self.series.items())
            },
        }

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Report:
        """One that was written by :meth:`written`, to be judged once more."""
        return cls(
            [Phase(**phase) for phase in written["phases"]],
            {name: [tuple(point) for point in one] for name, one in written["series"].items()},
            *(written[what] for what in ("done", "troubles", "settings")),
        )


def _number(value: float) -> str:
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


DRAWN = 120

PANELS: Sequence[tuple[str, str, Sequence[str], bool]] = (
    ("size", "MB", ("MB: database", "MB: tables of pgq", "MB: message_[*]", "MB: job"), False),
    ("dead rows", "rows", ("dead rows: tables of pgq", "dead rows: job"), False),
    ("segments", "segments", ("segments",), False),
    ("rows", "rows", ("rows: all but messages", "rows: pg_class"), False),
    ("catalogs", "MB", ("MB: pg_class", "MB: pg_attribute", "MB: pg_statistic"), False),
    ("oldest ids", "ids", ("age: oldest transaction id", "age: oldest multixact"), False),
    ("memory", "MB", ("MB: private memory*", "MB: memory contexts*"), False),
    ("median latency", "ms", tuple(f"ms: {n}, p50" for n in (
        "publish", "consume", "claim", "archive", "cleanup", PACE)), True),
    ("p99 latency", "ms", tuple(f"ms: {n}, p99" for n in (
        "publish", "consume", "claim", "archive", "cleanup", PACE)), True),
)  # fmt: skip


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """No more than so many points: of neighbours the one in the middle."""
    size = -(-len(points) // DRAWN)
    groups = (sorted(points[n : n + size], key=lambda p: p[1]) for n in range(0, len(points), size))
    return [(min(p[0] for p in group), group[len(group) // 2][1]) for group in groups]


def picture(path: Path, report: Report) -> None:
    """Draw the most telling series over the minutes of the run."""
    # here, since without this picture a run needs no matplotlib
    from benchmarks.plots import Panel, draw

    panels = []
    for title, unit, patterns, log in PANELS:
        lines = {
            name.split(": ")[-1].removesuffix(", p50").removesuffix(", p99"): [
                (round(moment / 60, 2), round(value, 2))
                for moment, value in _thinned(report.series[name])
            ]
            for pattern in patterns
            for name in report.series
            if fnmatch.fnmatchcase(name, pattern)
        }
        panels.append(Panel(title, "minutes", unit, lines, log_y=log))
    phases = ", ".join(f"{one.name} from {one.begin / 60:.1f}" for one in report.phases[1:])
    draw(path, f"months in minutes: {phases}", panels, columns=3)
