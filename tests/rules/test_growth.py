"""The benchmark of growth: how it judges a line, what it accepts, and what it writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.house import ROOT, refuse

sys.path.append(str(ROOT))

from benchmarks import growth
from benchmarks.growing import Calls
from benchmarks.verdicts import Figures, Results, Series, judge


@pytest.mark.parametrize(
    ("costs", "word"),
    [
        ([100, 100, 101, 99, 102], "flat"),
        # more and more share a fixed cost
        ([300, 40, 12, 9, 9.5], "flat"),
        # a level of an index more for each step
        ([100, 115, 130, 145, 160], "logarithmic"),
        # what rises with the axis shows late
        ([100, 100, 102, 120, 300], "grows"),
        ([10, 100, 1000, 10_000, 100_000], "grows"),
        # the root of it
        ([10, 32, 100, 316, 1000], "grows"),
        # an object costs more, the more there are
        ([300, 40, 12, 20, 100], "grows"),
    ],
)
def test_what_is_said_about_a_line(costs: list[float], word: str) -> None:
    found = judge({10**place: cost for place, cost in enumerate(costs)})
    assert found is not None
    assert found.word == word


def test_doublings_are_judged_like_tens() -> None:
    """What twice as much costs twice is growth, though a step is small."""
    found = judge({8: 10, 16: 20, 32: 40, 64: 80})
    assert found is not None
    assert (found.word, found.times, found.doubling) == ("grows", 8, 4)
    assert judge({8: 10}) is None
    assert judge({}) is None


def test_a_line_of_the_table() -> None:
    series = Series("publish", "µs", {1: [90, 110, 100], 10: [120, 130]}, {1: [3], 10: [4]})
    assert series.row([1, 10]) == [
        *("publish", "µs", "100", "125", "3 → 4", "1.25", "+0.08", "flat")
    ]


def test_every_part_has_steps_that_rise_and_lines_of_different_names() -> None:
    for part in growth.KNOWN.values():
        assert [*part.steps, *part.full] == sorted({*part.steps, *part.full}), part.name
        if isinstance(part, Calls):
            names = [line.name for line in (*part.lines, *part.last)]
            assert len(names) == len(set(names)), part.name


def test_which_steps_are_measured() -> None:
    messages = growth.KNOWN["messages"]
    assert growth.steps_of(messages, growth.options(["--limit", "100000"])) == [
        *(1000, 10_000, 100_000)
    ]
    assert growth.steps_of(messages, growth.options(["--full"]))[-1] == 50_000_000
    assert len(growth.steps_of(messages, growth.options(["--quick"]))) == 2


@pytest.mark.parametrize(
    "wrong", [["--part", "none"], ["--rounds", "-1"], ["--limit", "-1"], ["--seconds", "0"]]
)
def test_what_cannot_be_measured_is_refused(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        growth.options(wrong)
    assert "usage" in capsys.readouterr().err


def results(part: str, cost: float) -> Results:
    series = [Series("publish", "µs", {1: [cost], 10: [2 * cost]}, {1: [3.0]})]
    figures = Figures(part, f"All {part}", part, "objects", series)
    return Results({"memory": f"{cost} GB"}, {part: figures})


def test_several_runs_in_one(tmp_path: Path) -> None:
    files = []
    for number, (part, cost) in enumerate([("topics", 1.0), ("queues", 2.0), ("topics", 3.0)]):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(results(part, cost).json())
    assert Results.read(files[:1]).json() == files[0].read_text()
    out = {name: tmp_path / "out" / name for name in ("json", "markdown", "plots")}
    chosen = ["--json", str(out["json"]), "--markdown", str(out["markdown"])]
    assert growth.main(["--of", *map(str, files), *chosen, "--plot", str(out["plots"])]) == 0
    found = json.loads(out["json"].read_text())
    costs = {part["part"]: part["lines"][0]["costs"] for part in found["parts"]}
    assert costs == {"topics": {"1": 3, "10": 6}, "queues": {"1": 2, "10": 4}}
    text = out["markdown"].read_text()
    refuse(
        f"{wanted} is missing"
        for wanted in ("1.0 GB; 2.0 GB; 3.0 GB", "**All topics**", "| publish |", "grows")
        if wanted not in text
    )
    picture = (out["plots"] / "growth-objects.svg").read_text()
    assert "All topics" in picture
    assert "All queues" in picture


@pytest.mark.slow
def test_a_short_run(tmp_path: Path) -> None:
    """Two parts, of which the second one comes to what is there already."""
    out = tmp_path / "growth.json"
    paths = ["--json", str(out), "--markdown", str(tmp_path / "growth.md"), "--plot"]
    chosen = ["--quick", "--part", "expired", "subscribers", "--limit", "1000"]
    assert growth.main([*chosen, *paths, str(tmp_path)]) == 0
    found = json.loads(out.read_text())
    assert [part["part"] for part in found["parts"]] == ["expired", "subscribers"]
    lines = {line["line"]: line["costs"] for part in found["parts"] for line in part["lines"]}
    assert all(cost > 0 for costs in lines.values() for cost in costs.values())
    assert {"enqueue", "publish 1", "cleanup, for an expired job"} <= set(lines)
