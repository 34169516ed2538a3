"""What a call of a trial is, and the register that calls.py fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.draw import Arguments, Draw

__all__ = ["CALLS", "Call", "call"]


@dataclass(frozen=True)
class Call:
    """A call, the areas it belongs to, how often it is drawn, and what draws its arguments."""

    name: str
    areas: frozenset[str]
    weight: float
    draw: Callable[[Draw], Arguments]


CALLS: dict[str, Call] = {}


def call(areas: str, weight: float) -> Callable[[Callable[[Draw], Arguments]], Call]:
    """Register a call of the areas ``log``, ``queue``, ``effects``, ``bulk``, ``ticks`` …"""

    def register(draw: Callable[[Draw], Arguments]) -> Call:
        made = Call(draw.__name__, frozenset(areas.split()), weight, draw)
        CALLS[made.name] = made
        return made

    return register
