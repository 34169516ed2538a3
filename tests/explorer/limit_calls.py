"""What becomes of the limits of a queue: how many jobs are leased, and how many handed out.

They are calls of alter_queue, so that they stand beside its other settings.
"""

from __future__ import annotations

import random

from explorer.draw import Arguments, Draw

__all__ = ["alter_claim_limits", "rate"]

INTERVALS = ("1 hour", "1 day")


def rate(rng: random.Random) -> Arguments:
    """A rate_limit, and how it is meant."""
    return {
        "rate_limit": rng.choice([1, 2]),
        "rate_interval": rng.choice(INTERVALS),
        "rate_burst": rng.choice([1, 2, 2, 3]),
    }


def alter_claim_limits(draw: Draw) -> Arguments:
    """Of alter_queue: one limit more or less, a higher or a lower one."""
    choice = draw.rng.random()
    if choice < 0.45:
        return {"max_leased": draw.rng.choice([1, 1, 2, 3])}
    if choice < 0.6:
        return {"no_limit": ["max_leased"]}
    if choice < 0.75:
        return rate(draw.rng)
    if choice < 0.85:
        return draw.rng.choice([{"rate_limit": 3}, {"rate_limit": 1, "rate_burst": 1}])
    if choice < 0.95:
        return {"no_limit": ["rate_limit"]}
    return {"no_limit": ["max_leased", "rate_limit"]}
