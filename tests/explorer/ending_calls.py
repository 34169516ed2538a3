"""Calls of unique jobs, and of the ways in which jobs end or return that are neither ack nor nack.

A name with ``_unique`` behind it is the same function with unique keys.
"""

from __future__ import annotations

import json

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__ = ["DELAYS", "MODES"]

MODES = ("finished", "finished", "claimed", "removed")
ORDERED = ("x", "x", "x", "y", None)
"""Keys, which mean something in an ordered queue."""

DELAYS = {"0": 0, "30 minutes": 1800, "1 hour": 3600}
"""Of jobs that come, and of snoozes, in seconds: no longer than a lease."""


def _key(draw: Draw) -> str | None:
    return draw.rng.choice(["u", "u", "u", "v", None, None, None])


@call("endings mixed", 9)
def enqueue_unique(draw: Draw) -> Arguments:
    number = draw.number()
    return {
        "queue": draw.queue(),
        "payload": json.dumps({"n": number}),
        "unique_key": _key(draw),
        "max_attempts": draw.rng.choice([None, None, 1, 2]),
        "key": draw.rng.choice(ORDERED),
        "delay": draw.rng.choice([None, None, None, *DELAYS]),
        "#": [number],
    }


@call("endings mixed", 4)
def enqueue_batch_unique(draw: Draw) -> Arguments:
    numbers = [draw.number() for _ in range(draw.rng.choice([1, 2, 3]))]
    return {
        "queue": draw.queue(),
        "payloads": [json.dumps({"n": number}) for number in numbers],
        "unique_keys": [draw.rng.choice(["u", "v", "w", None, None]) for _ in numbers],
        "keys": [draw.rng.choice(ORDERED) for _ in numbers],
        "#": numbers,
    }


@call("endings duplicates", 6)
def cancel_job(draw: Draw) -> Arguments:
    return {"*": draw.late("id")}


@call("endings duplicates", 10)
def release_job(draw: Draw) -> Arguments:
    delay = draw.rng.choice([None, *DELAYS])
    return {"*": draw.late("job"), **({} if delay is None else {"delay": delay})}


@call("endings", 4)
def retry_job(draw: Draw) -> Arguments:
    return {"*": draw.late(draw.rng.choice(["released", "id"]))}


@call("endings", 4)
def set_progress(draw: Draw) -> Arguments:
    return {"*": draw.late("job"), "progress": json.dumps({"n": draw.number()})}


@call("endings prefetch duplicates", 1)
def release_job_batch(draw: Draw) -> Arguments:
    return {"*": draw.late("jobs")}


@call("endings duplicates", 4)
def reject_job(draw: Draw) -> Arguments:
    return {"*": draw.late("job"), "error": "no", **draw.told("worker", "w")}


@call("endings", 2)
def get_job(draw: Draw) -> Arguments:
    return {"*": draw.late("id")}
