"""Calls of schedules: they write to a queue and a topic that nothing else writes to."""

from __future__ import annotations

import json

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__ = ["TICKS"]

TICKS = "ticks"
"""The name of that queue, and of that topic."""

TIMES: tuple[Arguments, ...] = (
    {"every": "20 minutes"},
    {"every": "1 hour"},
    {"cron": "*/30 * * * *"},
)


def _name(draw: Draw) -> str:
    return draw.rng.choice(["x", "x", "y"])


def _target(draw: Draw) -> Arguments:
    target = draw.rng.choice([{"queue": TICKS}, {"topic": TICKS}])
    return {**target, "key": "k"} if draw.some(0.3) else target


@call("ticks", 2)
def create_schedule(draw: Draw) -> Arguments:
    name = _name(draw)
    return {
        "schedule": name,
        **_target(draw),
        "payload": json.dumps({"of": name}),
        **draw.rng.choice(TIMES),
        "missed": draw.rng.choice(["all", "all", "one", "skip", None]),
    }


@call("ticks", 2)
def alter_schedule(draw: Draw) -> Arguments:
    given = draw.rng.choice(
        [{"missed": draw.rng.choice(["all", "one"])}, draw.rng.choice(TIMES), _target(draw)]
    )
    return {"schedule": _name(draw), **given}


@call("ticks", 1)
def drop_schedule(draw: Draw) -> Arguments:
    return {"schedule": _name(draw)}


@call("ticks", 1)
def pause_schedule(draw: Draw) -> Arguments:
    return {"schedule": _name(draw)}


@call("ticks", 1)
def resume_schedule(draw: Draw) -> Arguments:
    return {"schedule": _name(draw)}


@call("ticks", 8)
def run_schedules(draw: Draw) -> Arguments:
    return {"max_ticks": draw.rng.choice([None, None, 1, 3])}
