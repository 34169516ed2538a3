"""Figures as pictures: lines over something that grows or passes, and bars side by side.

All are SVG files that come out the same from the same figures. What is drawn stands in a table or a
JSON file as well; a picture is never the only place of a figure.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter
except ImportError as error:  # pragma: no cover - without the extra
    raise SystemExit("plots need matplotlib: pip install 'pgq-sql[bench]'") from error

__all__ = ["Panel", "draw", "draw_ratios", "short"]

# told apart without colour vision as well: Okabe and Ito's, without the yellow
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")

DECADES = 100.0
"""What is at the top of a logarithmic axis, at least, in units of what is at its bottom."""

_LONG = re.compile(r"\b\d+\.\d{3,}\b")

mpl.rcParams["svg.hashsalt"] = "pgq"  # else the names inside a file are new each time
mpl.rcParams["svg.fonttype"] = "none"


@dataclass(frozen=True)
class Panel:
    """One picture of several: lines by their names, each of points (x, y)."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False


def short(value: float, _position: Any = None) -> str:
    """A number as an axis shows it: 10k, 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def draw(path: Path, title: str, panels: Sequence[Panel], *, columns: int = 2) -> None:
    """Write panels, so many side by side, into an SVG file.

    A vertical axis begins at 0, or has two decades at least where it is logarithmic: so that what
    is flat looks flat.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 3.3 * rows + 0.5), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(rows, columns, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number >= len(panels):
            axes.set_axis_off()
            continue
        _draw_panel(axes, panels[number])
    _write(figure, path)


def _draw_panel(axes: Any, panel: Panel) -> None:
    for number, (name, points) in enumerate(panel.lines.items()):
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        colour = COLOURS[number % len(COLOURS)]
        # marks would hide a line of many points
        mark = MARKS[number % len(MARKS)] if len(points) <= 30 else None
        axes.plot(xs, ys, color=colour, marker=mark, markersize=4, linewidth=1.3, label=name)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x, fontsize=9)
    axes.set_ylabel(panel.y, fontsize=9)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        wider = max(1.0, (DECADES / (high / low)) ** 0.5)
        axes.set_ylim(low / wider, high * wider)
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(short))
    axes.yaxis.set_major_formatter(FuncFormatter(short))
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, alpha=0.3)
    if len(panel.lines) > 1:
        axes.legend(fontsize=8)


def draw_ratios(path: Path, title: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Write bars into an SVG file: for each row one per system, with a line at 1."""
    systems = list(dict.fromkeys(name for found in rows.values() for name in found))
    height = 0.8 / max(1, len(systems))
    figure = Figure(
        figsize=(8, 1.2 + 0.22 * len(rows) * max(2, len(systems))), layout="constrained"
    )
    figure.suptitle(title)
    axes = figure.subplots()
    for number, system in enumerate(systems):
        places = [
            (row + (number - (len(systems) - 1) / 2) * height, found[system])
            for row, found in enumerate(rows.values())
            if system in found
        ]
        axes.barh(
            [place for place, _ in places],
            [value for _, value in places],
            height=height,
            color=COLOURS[number % len(COLOURS)],
            label=system,
        )
    axes.axvline(1, color="#555555", linewidth=0.8)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("share of the reference of each row", fontsize=9)
    axes.legend(fontsize=8)
    _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # without a date, so that the same figures make the same file
    picture = io.StringIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    # a hundredth of a point is near enough, and half of the bytes
    path.write_text(_LONG.sub(lambda long: f"{float(long[0]):.2f}", picture.getvalue()))
