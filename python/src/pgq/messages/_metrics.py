"""Metrics, and workers as they tell of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Metric", "WorkerInfo"]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A process that does jobs or handles messages."""

    worker: str
    """Its name, which no other worker of its role has."""
    kind: str
    """worker, consumer, push, or what it says."""
    host: str | None
    pid: int | None
    sources: list[str]
    """The queues or topics that it works on."""
    running: int
    """How many jobs or messages it was working on."""
    details: Any
    """What else it says of itself; None: nothing, or it is hidden from this role."""
    started_at: datetime
    last_seen_at: datetime
    stale: bool
    """Whether it has not been seen for so long that it may be gone."""
    role: str
    """The role that sends its heartbeats."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure, as Prometheus knows them."""

    name: str
    type: str
    """gauge; counter: it only rises, but begins again where it was lost."""
    help: str
    labels: dict[str, Any]
    """Of what it is: texts by their names."""
    value: float
