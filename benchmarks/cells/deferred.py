"""What a deferred topic saves those who publish: the same load on both kinds, in turns."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.cells.base import Cell, Length, settle
from benchmarks.cells.tasks import Place, Writing
from benchmarks.harness import Bench
from benchmarks.systems import System

__all__ = ["Deferred"]

TURNS = 4
"""Slices of a run for each kind; they take turns, so a machine that gets slower hurts both."""


@dataclass(frozen=True, kw_only=True)
class Deferred(Cell):
    """The rate of a deferred topic with one partition, beside that of a usual topic with many."""

    task: Writing

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        tasks = {"usual": self.task, "deferred": replace(self.task, partitions=1, deferred=True)}
        places = {
            kind: Place(bench, system, self.fresh(bench, system, f"_{kind}")) for kind in tasks
        }
        for kind, place in places.items():
            tasks[kind].begin(place)
            settle(bench, place.database)
        rates: dict[str, list[float]] = {kind: [] for kind in tasks}
        for _ in range(TURNS):
            for kind in random.sample(sorted(tasks), 2):
                rates[kind].append(tasks[kind].run(places[kind], max(length.seconds // TURNS, 1)))
        for kind, place in places.items():
            tasks[kind].check(place)
        means = {kind: statistics.fmean(found) for kind, found in rates.items()}
        return {"rate": means["deferred"], "gain": means["deferred"] / means["usual"]}

    def runs(self, system: str) -> bool:
        return system in self.systems

    def finish(self, bench: Bench) -> None:
        for name in self.systems:
            for kind in ("usual", "deferred"):
                bench.drop(f"bench_{name}_{kind}")
