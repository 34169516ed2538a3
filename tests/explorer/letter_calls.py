"""Calls of dead letters, and of what keeps claims and enqueues from getting on."""

from __future__ import annotations

from explorer.draw import Arguments, Draw
from explorer.filter_calls import some_letters
from explorer.registry import call

__all__: list[str] = []


@call("queue", 3)
def fetch_dead_letters(draw: Draw) -> Arguments:
    return {"queue": draw.queue(), "max_jobs": draw.rng.choice([1, 2, None])}


@call("queue", 2)
def redrive(draw: Draw) -> Arguments:
    if draw.some(0.2):
        return {"queue": draw.queue(), "*": draw.late("id")}
    if draw.some(0.2):
        return {"queue": draw.queue(), **some_letters(draw)}
    more = draw.rng.choice([{}, {}, {"max_jobs": 1}, {"per_second": 10}])
    return {"queue": draw.queue(), "all_jobs": True, **more}


@call("queue", 0.7)
def purge_queue(draw: Draw) -> Arguments:
    queue = draw.queue()
    if draw.some(0.2):
        return {"queue": queue, "*": draw.late("id")}
    if draw.some(0.2):
        return {"queue": queue, **some_letters(draw)}
    return {"queue": queue, draw.rng.choice(["dead_only", "all_jobs"]): True}


@call("limits", 1)
def pause_queue(draw: Draw) -> Arguments:
    return {"queue": draw.queue()}


@call("limits", 2)
def resume_queue(draw: Draw) -> Arguments:
    return {"queue": draw.queue()}
