"""Instructions of one call, counted by callgrind: a figure that a busy machine does not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.calls import BASE, CALLS
from benchmarks.cells.base import Cell, Length, Quantity, Skipped
from benchmarks.counting import Counter, CountError
from benchmarks.harness import Bench
from benchmarks.pgbench import BenchmarkError
from benchmarks.systems import System

__all__ = ["Instructions", "instructions"]

THOUSANDS_OF_AN_INSERT = 63
"""Of Debian's PostgreSQL 15, on which the targets were set."""


@dataclass(frozen=True, kw_only=True)
class Instructions(Cell):
    """Thousands of instructions of each call; the bound is the plain insert of as many rows.

    It uses the server's programs, with data directories of its own.
    """

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        plain = system.name == "bound"
        calls = BASE if plain else CALLS
        script = None if plain else bench.script_of(f"template_{system.name}", system.schema)
        try:
            with Counter(bin_dir=bench.bin_dir, script=script) as counter:
                found = {call.name: counter.count(call) for call in counter.prepare(calls)}
        except CountError as error:
            if "valgrind is not installed" in str(error):
                raise Skipped(str(error)) from None
            raise BenchmarkError(str(error)) from error
        if plain:
            found |= {
                call.name: found["insert_100" if call.name.endswith("_100") else "insert"]
                for call in CALLS
            }
        return found

    def runs(self, system: str) -> bool:
        return system in self.systems


def instructions(targets: Mapping[str, int]) -> Instructions:
    """The cell, with targets in thousands where a plain insert has 63."""
    shown = [call.name for call in CALLS] + ["empty_function", "commit"]
    return Instructions(
        name="instructions",
        title="instructions",
        systems=("bound", "pgq"),
        once=True,
        quantities=[
            Quantity(
                name=name,
                unit="thousand",
                target=(
                    round(targets[name] / THOUSANDS_OF_AN_INSERT, 2) if name in targets else None
                ),
                reference="bound",
                at_most=True,
            )
            for name in shown
        ],
    )
