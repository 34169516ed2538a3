"""Calls of a queue with on_duplicate, which nothing else writes to.

A name with ``_newest`` behind it is the same function with unique keys, for that queue.
"""

from __future__ import annotations

import json

from explorer.draw import LEASES, Arguments, Draw
from explorer.registry import call

__all__ = ["NEWEST"]

NEWEST = "newest"
"""The name of that queue."""

KEYS = ("u", "u", "u", "v")


@call("duplicates", 9)
def enqueue_newest(draw: Draw) -> Arguments:
    number = draw.number()
    delay = {"delay": draw.rng.choice(["1 minute", "30 minutes"])} if draw.some(0.15) else {}
    return {
        "queue": NEWEST,
        "payload": json.dumps({"n": number}),
        "unique_key": draw.rng.choice(KEYS),
        **delay,
        "#": [number],
    }


@call("duplicates", 5)
def enqueue_batch_newest(draw: Draw) -> Arguments:
    numbers = [draw.number() for _ in range(draw.rng.choice([1, 2, 3]))]
    return {
        "queue": NEWEST,
        "payloads": [json.dumps({"n": number}) for number in numbers],
        "unique_keys": [draw.rng.choice(KEYS) for _ in numbers],
        "#": numbers,
    }


@call("duplicates", 9)
def claim_job_newest(draw: Draw) -> Arguments:
    return {
        "queue": NEWEST,
        "max_jobs": draw.rng.choice([1, 1, 2, 100]),
        "lease": draw.rng.choice(LEASES),
    }


@call("duplicates", 2)
def finish_and_claim_newest(draw: Draw) -> Arguments:
    return {"queue": NEWEST}
