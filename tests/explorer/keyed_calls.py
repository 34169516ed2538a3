"""Calls of queues with max_leased_per_key: their jobs have keys and labels, and the limits change.

A name with ``_keyed`` behind it is the same function with these.
"""

from __future__ import annotations

import json

from explorer.draw import LEASES, Arguments, Draw
from explorer.registry import call

__all__ = ["KEYED", "alter_limits"]

KEYED = "enqueue_keyed", "enqueue_batch_keyed"

KEYS = ("x", "x", "x", "y", None)
LABELS = (None, None, "l", "m")
PRIORITIES = (None, None, 0, 1, 9)


@call("keyed", 9)
def enqueue_keyed(draw: Draw) -> Arguments:
    number = draw.number()
    delay = {"delay": draw.rng.choice(["1 minute", "30 minutes"])} if draw.some(0.15) else {}
    return {
        "queue": draw.queue(),
        "payload": json.dumps({"n": number}),
        "key": draw.rng.choice(KEYS),
        "label": draw.rng.choice(LABELS),
        "priority": draw.rng.choice(PRIORITIES),
        **delay,
        "#": [number],
    }


@call("keyed", 7)
def enqueue_batch_keyed(draw: Draw) -> Arguments:
    numbers = [draw.number() for _ in range(draw.rng.choice([2, 3, 5]))]
    return {
        "queue": draw.queue(),
        "payloads": [json.dumps({"n": number}) for number in numbers],
        "keys": [draw.rng.choice(KEYS) for _ in numbers],
        "labels": [draw.rng.choice(LABELS) for _ in numbers],
        "priority": draw.rng.choice(PRIORITIES),
        "#": numbers,
    }


@call("keyed", 5)
def claim_job_keyed(draw: Draw) -> Arguments:
    return {
        "queue": draw.queue(),
        "max_jobs": draw.rng.choice([1, 2, 100]),
        "lease": draw.rng.choice(LEASES),
        "label": draw.rng.choice(LABELS[1:]),
    }


def alter_limits(draw: Draw) -> Arguments:
    """Of alter_queue: what becomes of the limits."""
    per_key: list[Arguments] = [
        *({"max_leased_per_key": most} for most in (1, 1, 2, 3)),
        *({"no_limit": ["max_leased_per_key"]} for _ in range(3)),
    ]
    others: list[Arguments] = [
        *({"max_leased": most} for most in (1, 2)),
        *({"max_unfinished": most} for most in (2, 5)),
        {"rate_limit": 2, "rate_interval": "1 hour", "rate_burst": 3},
        {"no_limit": ["max_leased", "rate_limit", "max_unfinished"]},
    ]
    return draw.rng.choice(per_key if draw.some(0.7) else others)
