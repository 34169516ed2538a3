"""Rates: a task, done for a time by each system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.cells.base import Cell, Length, settle
from benchmarks.cells.tasks import Place, Task
from benchmarks.harness import Bench
from benchmarks.systems import System

__all__ = ["Timed"]


@dataclass(frozen=True, kw_only=True)
class Timed(Cell):
    """The rate of a task."""

    task: Task
    filled: set[str] = field(default_factory=set, compare=False)

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        if system.name in self.filled:
            place = Place(bench, system, bench.database(f"bench_{system.name}"))
        else:
            place = Place(bench, system, self.fresh(bench, system))
            self.task.begin(place)
            if self.task.keeps:
                settle(bench, place.database)
                self.filled.add(system.name)
        self.task.prepare(place, length.seconds)
        self.task.refill(place, length.seconds)
        if place.filled and not self.task.keeps:
            settle(bench, place.database)
        bench.checkpoint()
        rate = self.task.run(place, length.seconds)
        self.task.check(place)
        return {"rate": rate}

    def runs(self, system: str) -> bool:
        return system in self.task.scripts

    def scripts_of(self, system: str) -> Sequence[str]:
        return [self.task.scripts[system]]

    def finish(self, bench: Bench) -> None:
        for name in {*self.task.scripts, *self.filled}:
            bench.drop(f"bench_{name}")
        self.filled.clear()
