"""Figures of growth: what a call costs at each step, and whether that is flat or logarithmic."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.plots import Panel, draw

__all__ = ["FLAT", "STEEP", "Figures", "Results", "Series", "Verdict", "judge"]

FLAT = 1.3
"""At most so many times the cheapest step, and a line is flat."""
STEEP = 0.25
"""At most so much of the cheapest step more for each doubling, and it is logarithmic."""
LINES = 7
"""So many in one picture."""


@dataclass(frozen=True)
class Verdict:
    """How a line grows, from its cheapest step on."""

    word: str
    times: float
    """The last step, in costs of the cheapest one."""
    doubling: float
    """What the steepest stretch adds for each doubling, in costs of the cheapest step."""


def judge(costs: Mapping[int, float]) -> Verdict | None:
    """Flat, logarithmic or grows; None for less than two steps, or nothing.

    A logarithm adds the same for each doubling, and little; a line that rises with its axis adds
    twice as much for each as for the one before. So the steepest stretch decides. Steps before the
    cheapest one do not count: there a fixed cost is shared by more and more.
    """
    steps = sorted(costs)
    if len(steps) < 2 or min(costs.values()) <= 0:
        return None
    cheapest = min(steps, key=lambda step: costs[step])
    base = costs[cheapest]
    times = costs[steps[-1]] / base
    after = [step for step in steps if step >= cheapest]
    doubling = max(
        (
            (costs[next_step] - costs[step]) / base / math.log2(next_step / step)
            for step, next_step in pairwise(after)
        ),
        default=0.0,
    )
    if times <= FLAT:
        word = "flat"
    elif doubling <= STEEP:
        word = "logarithmic"
    else:
        word = "grows"
    return Verdict(word, times, doubling)


@dataclass
class Series:
    """What one line of a part cost: of each step a figure for each round, and pages of one call."""

    name: str
    unit: str
    samples: dict[int, list[float]] = field(default_factory=dict)
    pages: dict[int, list[float]] = field(default_factory=dict)

    @property
    def costs(self) -> dict[int, float]:
        """The medians of the rounds."""
        return {step: statistics.median(found) for step, found in sorted(self.samples.items())}

    @property
    def read(self) -> dict[int, float]:
        """Pages that a call touches."""
        return {step: statistics.median(found) for step, found in sorted(self.pages.items())}

    def row(self, steps: Sequence[int]) -> list[str]:
        """A line of the table."""
        costs, read, verdict = self.costs, self.read, judge(self.costs)
        touched = [read[step] for step in steps if step in read]
        return [
            self.name,
            self.unit,
            *(_figure(costs.get(step)) for step in steps),
            f"{_figure(touched[0])} → {_figure(touched[-1])}" if touched else "",
            f"{verdict.times:.2f}" if verdict else "",
            f"{verdict.doubling:+.2f}" if verdict else "",
            verdict.word if verdict else "",
        ]


def _written(found: Mapping[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


@dataclass
class Figures:
    """One part: its steps and lines."""

    part: str
    title: str
    axis: str
    picture: str
    series: list[Series]

    @property
    def steps(self) -> list[int]:
        """All steps that any line has."""
        return sorted({step for one in self.series for step in one.samples})

    def rows(self) -> list[list[str]]:
        """The table of the part."""
        heading = [
            self.axis,
            "",
            *(f"{step:,}" for step in self.steps),
            "pages",
            "last / cheapest",
            "per doubling",
            "",
        ]
        return [heading, *(one.row(self.steps) for one in self.series)]

    def panels(self) -> list[Panel]:
        """Its pictures: a few lines in each, those of one unit together."""
        found = []
        units = dict.fromkeys(one.unit for one in self.series)
        for unit in units:
            lines = [one for one in self.series if one.unit == unit]
            for first in range(0, len(lines), LINES):
                shown = lines[first : first + LINES]
                # one that is alone has no legend
                title = f"{self.title}: {shown[0].name}" if len(shown) == 1 else self.title
                found.append(
                    Panel(
                        title=title,
                        x=self.axis,
                        y=unit,
                        lines={one.name: list(one.costs.items()) for one in shown},
                        log_x=True,
                        log_y=True,
                    )
                )
        return found

    def written(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "part": self.part,
            "title": self.title,
            "axis": self.axis,
            "picture": self.picture,
            "lines": [
                {
                    "line": one.name,
                    "unit": one.unit,
                    "samples": one.samples,
                    "pages": one.pages,
                    "costs": one.costs,
                    "verdict": vars(found) if (found := judge(one.costs)) else None,
                }
                for one in self.series
            ],
        }

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Figures:
        """What was written."""

        def steps(samples: Mapping[str, list[float]]) -> dict[int, list[float]]:
            return {int(step): list(values) for step, values in samples.items()}

        series = [
            Series(line["line"], line["unit"], steps(line["samples"]), steps(line["pages"]))
            for line in found["lines"]
        ]
        names = ("part", "title", "axis", "picture")
        return cls(*(found[name] for name in names), series=series)


@dataclass
class Results:
    """All parts that were measured, and where."""

    machine: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Figures] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def json(self) -> str:
        """Everything, with one line of the file for each line of a table."""
        parts = []
        for figures in self.parts.values():
            written = figures.written()
            lines = ",\n".join(_written(line) for line in written.pop("lines"))
            parts.append(f'{_written(written)[:-1]}, "lines": [\n{lines}\n]}}')
        head = _written({"machine": self.machine, "notes": self.notes})
        together = ",\n".join(parts)
        return f'{head[:-1]}, "parts": [\n{together}\n]}}\n'

    @classmethod
    def read(cls, files: Sequence[Path]) -> Results:
        """Several runs in one; of a part that several have, the last one counts."""
        results = cls()
        for file in files:
            found = json.loads(file.read_text())
            for name, value in found["machine"].items():
                known = [results.machine[name]] if name in results.machine else []
                values = "; ".join([*known, value]).split("; ")
                results.machine[name] = "; ".join(dict.fromkeys(values))
            results.notes += [note for note in found["notes"] if note not in results.notes]
            for part in found["parts"]:
                results.parts[part["part"]] = Figures.read(part)
        return results

    def markdown(self) -> str:
        """Facts about the machine, and a table for each part."""
        lines = [f"- {name}: {value}" for name, value in self.machine.items()]
        for figures in self.parts.values():
            heading, *rows = figures.rows()
            ruler = ["---", "---", *["---:"] * (len(heading) - 3), "---"]
            lines += ["", f"**{figures.title}**", ""]
            lines += ["| " + " | ".join(row) + " |" for row in (heading, ruler, *rows)]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"

    def draw(self, folder: Path) -> list[Path]:
        """A picture for each kind of growth."""
        pictures: dict[str, list[Panel]] = {}
        for figures in self.parts.values():
            pictures.setdefault(figures.picture, []).extend(figures.panels())
        paths = []
        for name, panels in pictures.items():
            paths.append(folder / f"growth-{name}.svg")
            draw(paths[-1], f"Growth: {name}", panels, columns=min(3, len(panels)))
        return paths
