"""Calls that ask what is noted of jobs, and when the next one is due."""

from __future__ import annotations

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__: list[str] = []


@call("noted", 2)
def job_history(draw: Draw) -> Arguments:
    return {"*": draw.late("id")}


@call("noted", 5)
def get_result(draw: Draw) -> Arguments:
    return {"*": draw.late("id")}


@call("noted", 2)
def next_due(draw: Draw) -> Arguments:
    return {"queue": draw.queue()}
