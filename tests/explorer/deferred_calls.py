"""Calls of deferred topics; they are published to and read like others."""

from __future__ import annotations

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__: list[str] = []


@call("deferred", 10)
def assign_offsets(draw: Draw) -> Arguments:
    topic = draw.topic()
    if draw.some(0.6):
        return {"topic": topic}
    return {"topic": topic, "partition": draw.rng.randrange(draw.topics.get(topic, 1))}
