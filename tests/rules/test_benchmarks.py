"""The benchmark's cells, systems and table fit together; what they measure is not tested here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from support.house import ROOT, refuse

sys.path.append(str(ROOT))

from benchmarks import report
from benchmarks.cells import CELLS, Cell
from benchmarks.cells.snapshot import HeldSnapshot
from benchmarks.cells.timed import Timed
from benchmarks.systems import SYSTEMS


def scripts_of(cell: Cell) -> dict[str, str]:
    if isinstance(cell, Timed | HeldSnapshot):
        return dict(cell.task.scripts)
    found: dict[str, str] = getattr(cell, "scripts", {})
    return found


def test_every_script_that_a_cell_names_is_there():
    refuse(
        SYSTEMS[system].script(name)
        for cell in CELLS
        for system, name in scripts_of(cell).items()
        if not SYSTEMS[system].has(name)
    )


def test_every_system_can_be_installed_and_checked():
    refuse(system.schema for system in SYSTEMS.values() if not system.schema.exists())
    refuse(name for name, system in SYSTEMS.items() if not system.has("check_log"))


@pytest.mark.parametrize(
    ("cell", "found", "met"),
    [
        ("publish-1", {"bound": 100, "pgq": 58}, None),
        ("publish-100", {"bound": 100, "pgq": 90}, True),
        ("publish-100", {"bound": 100, "pgq": 89}, False),
        ("publish-100", {"pgq": 90}, None),
        ("finish-1", {"primitives": 10, "pgq": 7}, True),
    ],
)
def test_a_verdict_is_that_of_the_target_of_a_line(cell: str, found: dict[str, float], met: Any):
    [one] = [known for known in CELLS if known.name == cell]
    samples = {system: [{"rate": value}] for system, value in found.items()}
    [line] = report.lines_of(one, samples)
    assert line.met is met


def test_results_that_were_written_are_read_again(tmp_path: Path):
    lines = []
    for cell in CELLS[:2]:
        lines += report.lines_of(cell, {"bound": [{"rate": 10.0}], "pgq": [{"rate": 9.0}]})
    first = tmp_path / "first.json"
    first.write_text(report.Results({"memory": "much"}, lines, ["failed: carry, pgq: why"]).json())
    again = report.Results.read([first])
    assert again.json() == first.read_text()

    later = tmp_path / "later.json"
    faster = list(report.lines_of(CELLS[0], {"pgq": [{"rate": 11.0}]}))
    later.write_text(report.Results({"memory": "more"}, faster, []).json())
    both = report.Results.read([first, later])
    assert both.machine == {"memory": "much; more"}
    assert [line.medians["pgq"] for line in both.lines] == [11.0, 9.0]
