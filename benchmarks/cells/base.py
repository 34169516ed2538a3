"""What all cells have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness import Bench, Database
from benchmarks.systems import System

__all__ = ["JOB_BODY", "LOG_BODY", "Cell", "Length", "Quantity", "Skipped", "settle"]

LOG_BODY = 1024
JOB_BODY = 200


class Skipped(RuntimeError):
    """The cell cannot be measured on this machine; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long to measure."""

    seconds: int = 10
    snapshot_seconds: int = 180


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One figure of a cell, and what pgq is to reach.

    The target is a ratio to the reference system, or an absolute value when there is none.
    """

    name: str
    unit: str
    target: float | None = None
    reference: str | None = None
    at_most: bool = False


@dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """One comparison."""

    name: str
    title: str
    systems: Sequence[str]
    quantities: Sequence[Quantity]
    once: bool = False

    @abstractmethod
    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        """Measure one system once, on data made for it."""

    @abstractmethod
    def runs(self, system: str) -> bool:
        """Whether this system can be measured."""

    def scripts_of(self, system: str) -> Sequence[str]:
        """What pgbench runs of a system that can be measured."""
        return ()

    def finish(self, bench: Bench) -> None:
        """Drop what the cell kept between rounds."""
        for name in self.systems:
            bench.drop(f"bench_{name}")

    def fresh(self, bench: Bench, system: System, suffix: str = "") -> Database:
        """An empty database of this system."""
        return bench.fresh(f"bench_{system.name}{suffix}", template=f"template_{system.name}")


def settle(bench: Bench, database: Database) -> None:
    """Leave no work behind that the measurement would have to do."""
    database.run("vacuum (analyze)")
    bench.checkpoint()
