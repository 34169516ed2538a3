"""Calls of subscriptions: one queue, which nothing else writes to, follows the topics."""

from __future__ import annotations

from explorer.draw import LEASES, Arguments, Draw
from explorer.registry import call

__all__ = ["FOLLOWERS"]

FOLLOWERS = "followers"
"""The name of that queue."""


def _name(topic: str) -> str:
    return f"of-{topic}"


@call("follow", 3)
def subscribe(draw: Draw) -> Arguments:
    topic = draw.topic()
    return {"subscription": _name(topic), "topic": topic, "queue": FOLLOWERS}


@call("follow", 2)
def unsubscribe(draw: Draw) -> Arguments:
    return {"subscription": _name(draw.topic())}


@call("follow", 4)
def claim_followed(draw: Draw) -> Arguments:
    """Its jobs are claimed, and never finished, so that all are there in the end."""
    return {"max_jobs": draw.rng.choice([1, 2, 100]), "lease": draw.rng.choice(LEASES)}
