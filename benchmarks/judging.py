"""Whether figures stay as they are: a level at the beginning, one at the end, and the way between.

A series is cut into parts of the same length, each of which has a level: the median of its samples,
so that a hiccup of the machine is not a level. The first part is left out, as what has just begun
has caches to fill. The second and the last are compared; and where the levels between rise again
and again, a third of the growth that is tolerated otherwise is too much.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = [
    "BOUNDED",
    "Judgement",
    "Limit",
    "judge",
    "judge_peak",
    "judge_return",
    "levels",
    "percentile",
]

Points = Sequence[tuple[float, float]]
PARTS = 10
STEADY = 0.8
"""Shares of all pairs of levels that have to rise, less those that fall, to call it creeping."""


@dataclass(frozen=True)
class Limit:
    """What is still flat: so much more as a share, and so much more in any case."""

    share: float = 0.1
    slack: float = 0.0
    most: float | None = None
    """For what rises and falls by its nature: no sample of the last part may be above this."""
    fills: bool = False
    """For what fills up by and by: judged from the middle on, and never called creeping."""


BOUNDED = "bounded"


@dataclass(frozen=True)
class Judgement:
    """The levels at the beginning and at the end, and what they say."""

    first: float
    last: float
    verdict: str
    """flat, bounded, grows, creeps, or too short."""

    @property
    def good(self) -> bool:
        """Whether nothing grows."""
        return self.verdict in ("flat", BOUNDED)

    @property
    def ratio(self) -> float | None:
        """The last level as a share of the first."""
        return self.last / self.first if self.first else None


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which such a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def levels(
    points: Points,
    parts: int = PARTS,
    level: Callable[[Sequence[float]], float] = statistics.median,
) -> list[float]:
    """The level of each part; none where there are fewer points than parts."""
    count = len(points)
    if count < parts:
        return []
    values = [value for _, value in points]
    return [level(values[n * count // parts : (n + 1) * count // parts]) for n in range(parts)]


def judge(points: Points, limit: Limit, *, parts: int = PARTS, peaks: bool = False) -> Judgement:
    """Compare the second part with the last one; by their highest samples where peaks are asked."""
    if limit.fills and not peaks:
        points = points[len(points) // 2 :]
    found = levels(points, parts, max if peaks or limit.most is not None else statistics.median)
    if not found:
        return Judgement(0.0, 0.0, "too short")
    first, last = found[1], found[-1]
    if limit.most is not None:
        return Judgement(first, last, BOUNDED if last <= limit.most else "grows")
    if last > _allowed(first, limit):
        return Judgement(first, last, "grows")
    if (
        len(found) >= PARTS
        and not limit.fills
        and _rising(found[1:]) >= STEADY
        and last > _allowed(first, Limit(limit.share / 3, limit.slack / 3))
    ):
        return Judgement(first, last, "creeps")
    return Judgement(first, last, "flat")


def judge_return(before: Points, after: Points, limit: Limit) -> Judgement:
    """Compare the second tenth of one time with the last tenth of a later one."""
    early, late = levels(before), levels(after)
    if not early or not late:
        return Judgement(0.0, 0.0, "too short")
    first, last = early[1], late[-1]
    if limit.most is not None:
        return Judgement(first, last, BOUNDED if last <= limit.most else "grows")
    return Judgement(first, last, "flat" if last <= _allowed(first, limit) else "grows")


def judge_peak(before: Sequence[float], after: Points, limit: Limit) -> Judgement:
    """Compare the last tenth of a time with the most that there ever was before."""
    late = levels(after)
    if not late or not before:
        return Judgement(0.0, 0.0, "too short")
    first, last = max(before), late[-1]
    return Judgement(first, last, "flat" if last <= _allowed(first, limit) else "grows")


def _allowed(first: float, limit: Limit) -> float:
    return first * (1 + limit.share) + limit.slack


def _rising(found: Sequence[float]) -> float:
    """How many pairs rise, less those that fall, as a share of all (Kendall's tau)."""
    pairs = list(itertools.combinations(found, 2))
    return sum((later > earlier) - (later < earlier) for earlier, later in pairs) / len(pairs)
