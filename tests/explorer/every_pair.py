"""Every pair of functions, in every order, at every mix of isolation levels.

A trial is one pair in one order: ``ack+nack/old/same`` is an ack, and a nack of the same job by a
transaction whose snapshot is older. It has a round for each mix of levels, and before each round
the house makes what the two calls need. Which calls, settings and further arguments they get is
drawn.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator

from explorer.access_calls import acting
from explorer.calls import Call
from explorer.draw import Draw, Near
from explorer.script import HOUSE, ROUND, Step, Trial
from explorer.setups import calls_of, pick, setup_of, tail_of
from explorer.stock import stock_of
from explorer.themes import THEMES, theme_of

__all__ = [
    "NEARNESS",
    "NO_PAIR",
    "ORDERS",
    "calls_in",
    "function_of",
    "names_of",
    "pair_trial",
    "themes_with",
]

# 1 and 2: the two calls; the rest is what the sessions do besides.
ORDERS: dict[str, tuple[tuple[int, str], ...]] = {
    "before": ((1, "call"), (1, "commit"), (2, "call"), (2, "commit")),
    "first": ((1, "call"), (2, "call"), (1, "commit"), (2, "commit")),
    "last": ((1, "call"), (2, "call"), (2, "commit"), (1, "commit")),
    "undone": ((1, "call"), (2, "call"), (1, "rollback"), (2, "commit")),
    "undoes": ((1, "call"), (2, "call"), (2, "rollback"), (1, "commit")),
    "old": ((2, "look"), (1, "call"), (1, "commit"), (2, "call"), (2, "commit")),
    "id": ((2, "take_id"), (1, "call"), (1, "commit"), (2, "call"), (2, "commit")),
}
"""Who goes first: all of it, or its end; who is rolled back; who has an old snapshot, or an id."""

NEARNESS = ("same", "other")
"""Whether the two calls name the same things, or, as far as there are two of them, others."""

NO_PAIR = {"look", "move_clock", "fill_journal"}

_VARIANT = re.compile("_(unique|poison|followed|keyed)$")


def function_of(call: str) -> str:
    """The name of a call without what tells it from others of its function."""
    return _VARIANT.sub("", call)


# ---------------------------------------------------------------------------- which there are


def names_of(pairs: Iterable[tuple[str, str]], seed: int) -> list[str]:
    """The names of all trials of these pairs, nearest first, else in no order."""
    names = [
        (place, f"{first}+{second}/{order}/{near}")
        for first, second in pairs
        for order in ORDERS
        for place, near in enumerate(NEARNESS)
    ]
    return [name for _, name in sorted(names, key=lambda n: (n[0], _mixed(seed, n[1])))]


def _mixed(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


def calls_in(theme: Iterable[str]) -> list[Call]:
    return [c for c in calls_of({*theme, "house"} - {"journal"}) if c.name not in NO_PAIR]


def themes_with(*functions: str) -> Iterator[tuple[float, frozenset[str]]]:
    """The themes in which all these functions are called, each with how often it is drawn."""
    for weight, theme in THEMES:
        if set(functions) <= {function_of(c.name) for c in calls_in(theme)}:
            yield weight, theme


def _theme(draw: Draw, areas: tuple[str, ...], first: str, second: str) -> set[str]:
    if areas:
        return theme_of(draw, areas)
    together = list(themes_with(first, second))
    if not together:
        alone = [[t for t in themes_with(one) if "mixed" not in t[1]] for one in (first, second)]
        together = [
            (one[0] * other[0], one[1] | other[1]) for one in alone[0] for other in alone[1]
        ]
    weights, themes = zip(*together, strict=True)
    return theme_of(draw, tuple(sorted(draw.rng.choices(themes, weights)[0])))


# ---------------------------------------------------------------------------- trials


def pair_trial(seed: int, name: str, areas: tuple[str, ...], levels: tuple[str, ...]) -> Trial:
    """The trial of this name."""
    pair, order, near = name.split("/")
    first, second = pair.split("+")
    rng = random.Random(f"{seed} {name}")
    draw = Near(rng)
    draw.wide = near == "other"
    theme = _theme(draw, areas, first, second)
    setup = setup_of(draw, theme)
    steps: list[Step] = []
    mixes = [(one, two) for one in range(len(levels)) for two in range(len(levels))]
    rng.shuffle(mixes)
    for one, two in mixes:
        calls = {
            1: _step(draw, theme, first, 1 + one, 0),
            2: _step(draw, theme, second, 1 + len(levels) + two, int(draw.wide)),
        }
        steps.append(Step(HOUSE, ROUND))
        steps += stock_of(draw, theme, [(0, calls[1]), (int(draw.wide), calls[2])])
        for who, what in ORDERS[order]:
            session = calls[who].session
            arguments = acting(draw, what, {}) if what == "look" else {}
            steps.append(calls[who] if what == "call" else Step(session, what, arguments))
    draw.place = None
    # what is removed in hours that pass tells nothing any more
    hours = tail_of(draw, theme) if draw.some(0.4) else []
    tail = (Step(HOUSE, ROUND), *hours)
    lock_timeout = rng.choice(["30ms", "10s"])
    return Trial(name, (*levels, *levels), tuple(setup), tuple(steps), tail, lock_timeout)


def _step(draw: Near, theme: set[str], function: str, session: int, place: int) -> Step:
    made = pick(draw, [c for c in calls_in(theme) if function_of(c.name) == function])
    draw.place = place
    return Step(session, made.name, acting(draw, made.name, made.draw(draw)))
