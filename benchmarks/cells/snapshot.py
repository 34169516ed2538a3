"""What a held snapshot costs: the same task with and without it, in turns."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cells.base import Cell, Length, settle
from benchmarks.cells.tasks import Place, Task
from benchmarks.harness import Bench
from benchmarks.systems import System

__all__ = ["HeldSnapshot"]

SLICE = 10
WINDOW = 30


@dataclass(frozen=True, kw_only=True)
class HeldSnapshot(Cell):
    """The same load on two databases, while another session keeps an old snapshot in one of them.

    The runs are cut into slices of some seconds that take turns, each pair in random order, so a
    machine that gets slower hurts both. The snapshot is held all the time: by the end, the database
    has had as many seconds of load under it as asked for. A snapshot of one database does not keep
    dead rows in another. Figures are shares of the rate without the snapshot in the slices beside.
    """

    task: Task

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        seconds = max(min(SLICE, length.snapshot_seconds // 9), 1)
        slices = length.snapshot_seconds // seconds
        places = {
            held: Place(bench, system, self.fresh(bench, system, "_held" if held else "_free"))
            for held in (False, True)
        }
        for place in places.values():
            self.task.begin(place)
            self.task.prepare(place, length.snapshot_seconds)
            self.task.refill(place, seconds)
            settle(bench, place.database)
        rates: dict[bool, list[float]] = {False: [], True: []}
        with places[True].database.connect() as other:
            other.execute("begin isolation level repeatable read")
            other.execute("select count(*) from pg_class")
            for _ in range(slices):
                for held in random.sample([False, True], 2):
                    self.task.refill(places[held], seconds)
                    rates[held].append(self.task.run(places[held], seconds))
            other.execute("commit")
        for place in places.values():
            self.task.check(place)
        window = max(min(WINDOW, length.snapshot_seconds // 3) // seconds, 1)
        free, held_rates = rates[False], rates[True]
        first = _share(held_rates[:window], free[:window])
        last = _share(held_rates[-window:], free[-window:])
        return {
            "rate": statistics.fmean(free),
            "first": first,
            "last": last,
            "fade": statistics.fmean(held_rates[-window:]) / statistics.fmean(held_rates[:window]),
        }

    def runs(self, system: str) -> bool:
        return system in self.task.scripts and system != "bound"

    def scripts_of(self, system: str) -> Sequence[str]:
        return [self.task.scripts[system]]

    def finish(self, bench: Bench) -> None:
        for name in self.task.scripts:
            for suffix in ("_free", "_held"):
                bench.drop(f"bench_{name}{suffix}")


def _share(held: Sequence[float], free: Sequence[float]) -> float:
    return statistics.fmean(held) / statistics.fmean(free)
