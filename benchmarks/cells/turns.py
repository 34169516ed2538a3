"""Ways to do the same work, in turns: a machine that slows down slows all of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.cells.base import Cell, Length, settle
from benchmarks.cells.tasks import Place, Task
from benchmarks.harness import Bench
from benchmarks.systems import System

__all__ = ["Turns"]

SLICES = 4
"""Slices of a run for each way."""


@dataclass(frozen=True, kw_only=True)
class Turns(Cell):
    """The rate of the first task, and its ratio to the rate of each other one."""

    tasks: Mapping[str, Task]

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        places = {}
        for kind, task in self.tasks.items():
            place = Place(bench, system, self.fresh(bench, system, f"_{kind}"))
            task.begin(place)
            task.prepare(place, length.seconds)
            settle(bench, place.database)
            places[kind] = place
        total = dict.fromkeys(self.tasks, 0.0)
        for _ in range(SLICES):
            for kind in random.sample(sorted(places), len(places)):
                seconds = max(length.seconds // SLICES, 1)
                total[kind] += self.tasks[kind].run(places[kind], seconds)
        for kind, place in places.items():
            self.tasks[kind].check(place)
        first, *others = self.tasks
        ratios = {f"over {kind}": total[first] / total[kind] for kind in others}
        return {"rate": total[first] / SLICES, **ratios}

    def runs(self, system: str) -> bool:
        return system in self.systems

    def finish(self, bench: Bench) -> None:
        for name in self.systems:
            for kind in self.tasks:
                bench.drop(f"bench_{name}_{kind}")
