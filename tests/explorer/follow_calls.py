"""Calls of subscriptions: two queues follow the topics, one of them ordered.

A name with ``_followed`` behind it is the same function, of one of these queues.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from explorer.draw import LEASES, Arguments, Draw
from explorer.registry import call

__all__ = ["FOLLOWERS", "IN_ORDER", "known_from_followed"]

FOLLOWERS = "followers"
"""Nothing else writes to it, and its jobs are never finished, so that all are there in the end."""
IN_ORDER = "in-order"
"""It is ordered; its jobs are finished, and others are enqueued beside them."""

FILTERS = ({"kind": ["a"]}, {"kind": ["a", "b"], "size": [1]}, {"size": [2]}, {})
PATTERNS = ("o.*", "o.#", "#.eu", "*.x.eu", "o")


def _queue(draw: Draw) -> str:
    return FOLLOWERS if draw.some(0.5) else IN_ORDER


def _name(queue: str, topic: str) -> str:
    return f"{queue}-of-{topic}"


@call("follow", 4)
def subscribe(draw: Draw) -> Arguments:
    topic, queue = draw.topic(), _queue(draw)
    more: Arguments = {}
    if draw.some(0.45):
        more["filter"] = json.dumps(draw.rng.choice(FILTERS))
    if draw.some(0.4):
        more["routing_key"] = draw.rng.choice(PATTERNS)
    return {"subscription": _name(queue, topic), "topic": topic, "queue": queue, **more}


@call("follow", 3)
def unsubscribe(draw: Draw) -> Arguments:
    return {"subscription": _name(_queue(draw), draw.topic())}


@call("follow", 6)
def claim_followed(draw: Draw) -> Arguments:
    return {
        "queue": _queue(draw),
        "max_jobs": draw.rng.choice([1, 2, 100]),
        "lease": draw.rng.choice(LEASES),
    }


@call("follow", 4)
def ack_followed(draw: Draw) -> Arguments:
    return {"*": draw.late("followed")}


@call("follow", 3)
def finish_and_claim_followed(draw: Draw) -> Arguments:
    return {
        "*": draw.late("all followed"),
        "queue": IN_ORDER,
        "max_jobs": draw.rng.choice([0, 1, 100]),
        "lease": draw.rng.choice(LEASES),
    }


@call("follow", 1)
def nack_followed(draw: Draw) -> Arguments:
    return {"*": draw.late("followed"), "delay": draw.rng.choice(["0", "1 minute"])}


@call("follow", 0.7)
def cancel_job_followed(draw: Draw) -> Arguments:
    return {"*": draw.late("followed id")}


@call("follow", 2)
def enqueue_followed(draw: Draw) -> Arguments:
    number = draw.number()
    payload = json.dumps({"n": number})
    return {"queue": IN_ORDER, "payload": payload, "key": draw.ordered_key(), "#": [number]}


def known_from_followed(
    name: str, arguments: Arguments, rows: list[dict[str, Any]]
) -> Iterator[tuple[str, Arguments]]:
    """What a claim of the ordered queue lets later calls name."""
    if not name.startswith(("claim", "finish")) or arguments["queue"] != IN_ORDER or not rows:
        return
    token = rows[0]["lease_token"]
    for row in rows:
        yield "followed", {"job_id": row["job_id"], "lease_token": token}
        yield "followed id", {"job_id": row["job_id"]}
    yield "all followed", {"job_ids": [row["job_id"] for row in rows], "lease_token": token}
