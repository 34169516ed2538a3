"""Calls of schedules: they write to a queue and a topic that nothing else writes to."""

from __future__ import annotations

import json

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__ = ["KEYED_TICKS", "TARGET", "TICKS", "TICK_KEY", "TICK_NUMBERS"]

TICKS = "ticks"
"""The name of that queue, and of that topic."""

KEYED_TICKS = "z"
"""The name of a schedule that writes to a queue beside others, all under one key."""

TARGET = "q"
"""That queue."""

TICK_KEY = "x"
"""That key."""

TICK_NUMBERS = 10**6
"""What is added to the id of the job of such a tick to tell it from others."""

TIMES: tuple[Arguments, ...] = (
    {"every": "20 minutes"},
    {"every": "1 hour"},
    {"cron": "*/30 * * * *"},
)


def _name(draw: Draw) -> str:
    if draw.mixed and draw.some(0.7):
        return KEYED_TICKS
    if draw.place is not None:
        return "xy"[draw.place]
    return draw.rng.choice(["x", "x", "y"])


def _target(draw: Draw, name: str) -> Arguments:
    if name == KEYED_TICKS:
        return {"queue": TARGET, "key": TICK_KEY}
    target = draw.rng.choice([{"queue": TICKS}, {"topic": TICKS}])
    return {**target, "key": "k"} if draw.some(0.3) else target


@call("ticks", 2)
def create_schedule(draw: Draw) -> Arguments:
    name = _name(draw)
    return {
        "schedule": name,
        **_target(draw, name),
        "payload": json.dumps({"of": name}),
        **draw.rng.choice(TIMES),
        "missed": draw.rng.choice(["all", "all", "one", "skip", None]),
    }


@call("ticks", 2)
def alter_schedule(draw: Draw) -> Arguments:
    name = _name(draw)
    given = draw.rng.choice(
        [{"missed": draw.rng.choice(["all", "one"])}, draw.rng.choice(TIMES), _target(draw, name)]
    )
    return {"schedule": name, **given}


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
