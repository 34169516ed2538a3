"""The figures as a table, for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks.cells import CELLS, Cell, Quantity
from benchmarks.systems import SYSTEMS

__all__ = ["Line", "Results", "Samples", "lines_of", "plain_table"]

Samples = Mapping[str, Sequence[Mapping[str, float]]]

SUBJECT = "pgq"
BOUND = "bound"


def headings() -> tuple[str, ...]:
    """The columns: those of all systems, of peers too."""
    return (
        "cell",
        *SYSTEMS,
        "unit",
        *(f"{name} ratio" for name in _compared()),
        "target",
        "",
    )


def _compared() -> list[str]:
    """The systems whose ratios to the reference are shown: not the bound's."""
    return [name for name in SYSTEMS if name != BOUND]


def _numbers() -> set[int]:
    """The columns that hold numbers."""
    return {*range(1, 1 + len(SYSTEMS)), *range(2 + len(SYSTEMS), len(headings()) - 1)}


@dataclass(frozen=True)
class Line:
    """One figure of one cell: the medians of all systems, and the verdict on pgq."""

    cell: str
    title: str
    quantity: Quantity
    medians: Mapping[str, float]
    samples: Mapping[str, Sequence[float]]

    def ratio(self, system: str, to: str | None) -> float | None:
        """A system's share of another."""
        if to is None or system == to or not {system, to} <= set(self.medians):
            return None
        return self.medians[system] / self.medians[to]

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one, or without the systems it needs."""
        wanted = self.quantity
        reached = (
            self.medians.get(SUBJECT)
            if wanted.reference is None
            else self.ratio(SUBJECT, wanted.reference)
        )
        if wanted.target is None or reached is None:
            return None
        return reached <= wanted.target if wanted.at_most else reached >= wanted.target

    def cells(self) -> list[str]:
        """The line as a row of the table."""
        wanted = self.quantity
        title = self.title if wanted.name in ("rate", "wal") else f"{self.title}: {wanted.name}"
        return [
            title.replace("_", " ") if self.cell == "instructions" else title,
            *(self._figure(self.medians.get(system)) for system in SYSTEMS),
            wanted.unit,
            *(_two_places(self.ratio(system, wanted.reference)) for system in _compared()),
            _target(wanted.target, at_most=wanted.at_most),
            {None: "", True: "pass", False: "MISS"}[self.met],
        ]

    def _figure(self, value: float | None) -> str:
        if value is None:
            return ""
        return _two_places(value) if self.quantity.unit == "share" else f"{value:,.0f}"


def _two_places(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _target(value: float | None, *, at_most: bool) -> str:
    return "" if value is None else f"{'<=' if at_most else '>='} {value:,g}"


def lines_of(cell: Cell, samples: Samples) -> Iterator[Line]:
    """The figures of a cell from its rounds; none when all of them failed or were skipped."""
    for quantity in cell.quantities:
        values = {
            system: [sample[quantity.name] for sample in found if quantity.name in sample]
            for system, found in samples.items()
        }
        values = {system: found for system, found in values.items() if found}
        medians = {system: statistics.median(found) for system, found in values.items()}
        if medians:
            yield Line(cell.name, cell.title, quantity, medians, values)


@dataclass(frozen=True)
class Results:
    """What was measured, on which machine, and what is missing."""

    machine: Mapping[str, str]
    lines: Sequence[Line]
    notes: Sequence[str]

    def rows(self) -> list[list[str]]:
        """The table."""
        return [list(headings()), *(line.cells() for line in self.lines)]

    def plain(self) -> str:
        """The table for the terminal."""
        return "\n".join([plain_table(self.rows(), _numbers()), *self.notes])

    def markdown(self) -> str:
        """Machine and table as Markdown."""
        heading, *lines = self.rows()
        rows = [heading, ["---"] * len(heading), *lines]
        facts = [f"- {name}: {value}" for name, value in self.machine.items()]
        table = ["| " + " | ".join(row) + " |" for row in rows]
        notes = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join([*facts, "", *table, *notes]) + "\n"

    def ratios(self) -> dict[str, dict[str, float]]:
        """The ratios of the rates, by cells and systems: what a plot shows."""
        found: dict[str, dict[str, float]] = {}
        for line in self.lines:
            if line.quantity.name != "rate":
                continue
            ratios = {name: line.ratio(name, line.quantity.reference) for name in _compared()}
            shown = {name: ratio for name, ratio in ratios.items() if ratio is not None}
            if shown:
                found[line.title] = shown
        return found

    def json(self) -> str:
        """Everything."""
        figures = [
            {
                "cell": line.cell,
                "title": line.title,
                **asdict(line.quantity),
                "samples": line.samples,
                "medians": line.medians,
                "ratio": line.ratio(SUBJECT, line.quantity.reference),
                "met": line.met,
            }
            for line in self.lines
        ]
        found = {"machine": self.machine, "notes": list(self.notes), "figures": figures}
        return json.dumps(found, indent=2) + "\n"

    @classmethod
    def read(cls, files: Sequence[Path]) -> Results:
        """The results of several runs, as they were written by :meth:`json`, in one."""
        machine: dict[str, str] = {}
        lines: dict[tuple[str, str], Line] = {}
        notes: list[str] = []
        for file in files:
            found = json.loads(file.read_text())
            for name, value in found["machine"].items():
                before = machine.setdefault(name, value)
                if value not in before.split("; "):
                    machine[name] = f"{before}; {value}"
            measured = {figure["cell"] for figure in found["figures"]}
            notes = [note for note in notes if not any(f" {cell}," in note for cell in measured)]
            notes += found["notes"]
            for figure in found["figures"]:
                wanted = {field.name: figure[field.name] for field in fields(Quantity)}
                # A cell that was measured again takes the place of what was there.
                lines[figure["cell"], figure["name"]] = Line(
                    figure["cell"],
                    figure["title"],
                    Quantity(**wanted),
                    figure["medians"],
                    figure["samples"],
                )
        order = [cell.name for cell in CELLS]
        ordered = sorted(lines.values(), key=lambda line: order.index(line.cell))
        return cls(machine, ordered, notes)


def plain_table(rows: Sequence[Sequence[str]], numbers: Container[int]) -> str:
    """Rows with columns below each other, those of numbers to the right."""
    widths = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column in numbers else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
