"""The model's limits of queues: how many jobs they hand out, and how many they hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from model.queues import Queue

__all__ = [
    "Allowance",
    "has_room",
    "held_by",
    "is_limited",
    "most_claims",
    "note_claims",
]


@dataclass(frozen=True)
class Allowance:
    """How many jobs a rate_limit allowed at a moment."""

    jobs: Fraction
    at: datetime

    def now(self, queue: Queue, now: datetime) -> Fraction:
        assert queue.rate_limit is not None
        assert queue.rate_interval is not None
        assert queue.rate_burst is not None
        passed = Fraction((now - self.at) // timedelta(microseconds=1))
        interval = Fraction(queue.rate_interval // timedelta(microseconds=1))
        return min(self.jobs + passed * queue.rate_limit / interval, Fraction(queue.rate_burst))


def is_limited(queue: Queue) -> bool:
    """Whether claims of it wait for each other."""
    limits = (queue.max_leased, queue.max_leased_per_key, queue.rate_limit)
    return any(limit is not None for limit in limits)


def leased(queue: Queue, now: datetime) -> int:
    return sum(job.lease_token is not None and job.visible_at > now for job in queue.jobs.values())


def allowed(queue: Queue, now: datetime) -> Fraction | None:
    """What the rate_limit allows; None: there is none."""
    if queue.rate_limit is None:
        return None
    if queue.allowance is None:
        return Fraction(queue.rate_burst or 0)
    return queue.allowance.now(queue, now)


def most_claims(queue: Queue, wanted: int, now: datetime) -> int:
    """How many jobs a claim gets at most."""
    if queue.max_leased is not None:
        wanted = min(wanted, queue.max_leased - leased(queue, now))
    credit = allowed(queue, now)
    if credit is not None:
        wanted = min(wanted, int(credit))
    return max(wanted, 0)


def note_claims(queue: Queue, jobs: int, now: datetime) -> None:
    credit = allowed(queue, now)
    if credit is not None and jobs:
        queue.allowance = Allowance(max(credit - jobs, Fraction(0)), now)
    elif queue.max_leased is not None and queue.allowance is not None:
        # there was a rate_limit, and may be one again
        before = queue.allowance
        queue.allowance = Allowance(max(before.jobs - jobs, Fraction(0)), before.at)


def held_by(queue: Queue, now: datetime) -> str | None:
    """Why claims get nothing."""
    if queue.paused:
        return "paused"
    if queue.max_leased is not None and leased(queue, now) >= queue.max_leased:
        return "max_leased"
    credit = allowed(queue, now)
    return "rate_limit" if credit is not None and credit < 1 else None


def has_room(queue: Queue, new: int, now: datetime, got: Any) -> bool:
    """Whether so many jobs fit in; what no claim would get may count, or not any more."""
    if queue.max_unfinished is None or new == 0:
        return True
    over = sum(
        job.is_over(now) or (job.visible_at <= now and queue.is_exhausted(job))
        for job in queue.jobs.values()
    )
    full = len(queue.jobs) + new > queue.max_unfinished
    if full and len(queue.jobs) - over + new <= queue.max_unfinished:
        return not isinstance(got, type)
    return not full
