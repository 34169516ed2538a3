"""Calls that only read, and promise something about what others have written."""

from __future__ import annotations

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__: list[str] = []


@call("log", 0.5)
def check_range(draw: Draw) -> Arguments:
    return {"*": draw.late("range")}


@call("log", 0.5)
def fetch_packed(draw: Draw) -> Arguments:
    return {"*": draw.late("range")}


@call("log deferred", 0.5)
def list_offsets(draw: Draw) -> Arguments:
    return {"topic": draw.topic()}


@call("log deferred", 0.5)
def watermark(draw: Draw) -> Arguments:
    return {"topic": draw.topic()}


@call("queue", 0.5)
def peek_jobs(draw: Draw) -> Arguments:
    return {"queue": draw.queue()}


@call("queue", 0.5)
def search_jobs(draw: Draw) -> Arguments:
    return {"queue": draw.queue()}


@call("queue", 0.5)
def list_errors(draw: Draw) -> Arguments:
    return {"queue": draw.queue()}
