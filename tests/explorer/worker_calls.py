"""Workers that tell of themselves, beside what they work on."""

from __future__ import annotations

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__ = ["WORKERS"]

WORKERS = ("w", "v")


@call("workers", 6)
def heartbeat(draw: Draw) -> Arguments:
    return {
        "worker": draw.rng.choice([WORKERS[0], *WORKERS]),
        "running": draw.number(),
        "sources": draw.rng.choice([["q"], ["q", "a"]]),
    }


@call("workers", 2)
def delete_worker(draw: Draw) -> Arguments:
    return {"worker": draw.rng.choice([WORKERS[0], *WORKERS])}
