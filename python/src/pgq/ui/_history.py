"""Looks at the database again and again, and what they were during the last hour."""

from __future__ import annotations

import logging
import math
import threading
import time
from array import array
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pgq._sampling import Sample, figures, sample
from pgq.ui._source import Problem, Source

__all__ = ["History"]

LOG = logging.getLogger("pgq.ui")

INTERVAL = 5.0
"""Seconds between two looks, or more where a look takes long."""
SHARE = 20
"""A look may take one part in so many of the time."""
KEEP = 720
"""Looks that are remembered: an hour."""

_TOGETHER = {
    "published_per_second": "topics",
    "consumed_per_second": "groups",
    "lag": "groups",
    "finished_per_second": "queues",
    "ready": "queues",
    "dead": "queues",
}
"""What is remembered of all of them together, and of which kind it is the sum."""

_FIGURES = {
    "topics": ("topic", ("published_per_second", "messages")),
    "groups": ("consumer_group", ("consumed_per_second", "lag")),
    "queues": ("queue", ("finished_per_second", "ready", "leased", "delayed", "waiting", "dead")),
    "all": ("all", tuple(_TOGETHER)),
}
"""For each kind the column that names one, and what is remembered of it."""


class History:
    """A thread that looks; what it saw can be read at any time."""

    def __init__(self, source: Source, *, interval: float = INTERVAL, keep: int = KEEP) -> None:
        self._source = source
        self._interval = interval
        self._keep = keep
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._looked = threading.Condition(self._lock)
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._began = 0.0
        self._times: deque[float] = deque(maxlen=keep)
        self._series: dict[tuple[str, ...], dict[str, array[float]]] = {}
        self._before: Sample | None = None
        self._shown: dict[str, list[dict[str, Any]]] = {"topics": [], "groups": [], "queues": []}
        self._problem: Problem | None = None
        self._took = 0.0
        self._looks = 0

    def start(self) -> None:
        """Begin to look; once more does no harm."""
        with self._lock:
            if self._thread is not None:
                return
            self._began = time.time()
            self._thread = threading.Thread(target=self._run, name="pgq-ui-looks", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._ended.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def latest(self) -> dict[str, Any]:
        """What the last look saw; the first one is waited for."""
        with self._looked:
            self._looked.wait_for(lambda: self._looks or self._problem, timeout=30)
            if self._problem is not None:
                raise replace(self._problem)  # one that is raised again keeps all its ways
            moment = self._before.moment if self._before else None
            return {"moment": moment, "took": self._took, "every": self._pause(), **self._shown}

    def look_soon(self) -> None:
        """Look now rather than when it is time: something was changed."""
        self._wanted.set()

    def series(self, kind: str, *names: str) -> dict[str, Any]:
        """What was seen of one topic, group or queue: times, and figures at each of them."""
        with self._lock:
            found = self._series.get((kind, *names), {})
            return {
                "began": self._began,
                "times": [round(one, 1) for one in self._times],
                "figures": {
                    name: [None if math.isnan(one) else one for one in column]
                    for name, column in found.items()
                },
            }

    def _pause(self) -> float:
        return max(self._interval, self._took * SHARE)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wanted.clear()
            self._look()
            self._wanted.wait(self._pause())

    def _look(self) -> None:
        began = time.monotonic()
        try:
            with self._source.reading() as client:
                now = sample(client)
        except Problem as problem:
            with self._looked:
                if self._problem is None:
                    LOG.warning("%s", problem.message)
                self._problem = problem
                self._looked.notify_all()
            return
        except Exception as error:  # the thread goes on: the next look may be better
            LOG.exception("a look at the database failed")
            with self._looked:
                self._problem = Problem(500, f"{type(error).__name__}: {error}")
                self._looked.notify_all()
            return
        with self._looked:
            # two looks that are close together make no rate
            soon = self._before is not None and now.taken - self._before.taken < self._interval / 2
            shown = figures(now, self._before)
            if soon:
                _keep_rates(shown, self._shown)
            else:
                self._remember(now.moment.timestamp(), shown)
                self._before = now
            self._shown = shown
            self._problem = None
            self._took = time.monotonic() - began
            self._looks += 1
            self._looked.notify_all()

    def _remember(self, moment: float, shown: Mapping[str, list[dict[str, Any]]]) -> None:
        full = len(self._times) == self._keep
        self._times.append(moment)
        seen = set()
        for kind, (_, columns) in _FIGURES.items():
            for one in [_together(shown)] if kind == "all" else shown[kind]:
                name = _name(kind, one)
                seen.add(name)
                known = self._series.get(name)
                if known is None:
                    missed = len(self._times) - 1
                    known = {column: array("d", [math.nan] * missed) for column in columns}
                    self._series[name] = known
                elif full:
                    for values in known.values():
                        del values[0]
                for column in columns:
                    value = one[column]
                    known[column].append(math.nan if value is None else float(value))
        # what is gone is forgotten
        for name in self._series.keys() - seen:
            del self._series[name]


def _name(kind: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    column, _ = _FIGURES[kind]
    return (kind, one["topic"], one[column]) if kind == "groups" else (kind, one[column])


def _together(shown: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    sums: dict[str, Any] = {"all": "all"}
    for column, kind in _TOGETHER.items():
        known = [one[column] for one in shown[kind] if one[column] is not None]
        # of nothing at all the sum is 0, of what is not known it is not known
        sums[column] = sum(known) if known or not shown[kind] else None
    return sums


def _keep_rates(shown: dict[str, list[dict[str, Any]]], last: dict[str, Any]) -> None:
    for kind, rows in shown.items():
        known = {_name(kind, one): one for one in last[kind]}
        for one in rows:
            before = known.get(_name(kind, one), {})
            for column in one:
                if column in ("published_per_second", "consumed_per_second"):
                    one[column] = before.get(column)
