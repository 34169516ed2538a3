"""Draws trials: every interleaving of two short transactions, and random ones of three."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import cache

from explorer.access_calls import acting
from explorer.calls import CALLS
from explorer.draw import Draw
from explorer.every_pair import pair_trial
from explorer.script import ENDINGS, HOUSE, LEVELS, Step, Trial
from explorer.setups import calls_of, pick, setup_of, tail_of
from explorer.themes import theme_of

__all__ = ["INTERLEAVINGS", "trial_of"]


@cache
def _merges(first: int, second: int) -> tuple[tuple[int, ...], ...]:
    """All orders of so many steps of session 1 and of session 2."""
    length = first + second
    return tuple(
        tuple(1 if place in chosen else 2 for place in range(length))
        for chosen in map(set, itertools.combinations(range(length), first))
    )


USUAL = (*LEVELS, *LEVELS[1:])
"""Snapshots that are old break more than the level at which most work."""

INTERLEAVINGS = len(_merges(3, 3))


def trial_of(
    seed: int,
    name: str,
    areas: tuple[str, ...] = (),
    levels: tuple[str, ...] = (),
    gates: bool = False,
) -> Trial:
    """The trial of this name: ``r12`` is the random one of number 12, ``p3.7`` the seventh
    interleaving of pair number 3; for ``ack+nack/…`` see :mod:`explorer.every_pair`. ``areas``
    narrows the calls down, ``levels`` the isolation. With ``gates`` some calls stop on their way.
    """
    if gates:
        return _stopping(trial_of(seed, name, areas, levels), random.Random(f"{seed} {name} gates"))
    if "+" in name:
        return pair_trial(seed, name, areas, levels or LEVELS)
    if name.startswith("p"):
        number, interleaving = name[1:].split(".")
        return _pair(seed, name, int(number), int(interleaving), areas, levels or USUAL)
    return _random(seed, name, areas, levels or USUAL)


def _stopping(trial: Trial, rng: random.Random) -> Trial:
    """The trial with gates at which calls stop, until others have taken some steps."""
    steps = []
    for step in trial.steps:
        gate = rng.randrange(1, rng.choice([4, 16, 16, 64]))
        if step.session == HOUSE or step.call in (*ENDINGS, "look", "move_clock", "take_id"):
            pass
        elif rng.random() < 0.4:
            step = replace(step, pause=(gate, rng.choice([1, 2, 3, 5])))
        steps.append(step)
    return replace(trial, steps=tuple(steps))


# ---------------------------------------------------------------------------- random ones


def _random(seed: int, name: str, areas: tuple[str, ...], some_levels: tuple[str, ...]) -> Trial:
    rng = random.Random(f"{seed} {name}")
    draw = Draw(rng)
    theme = theme_of(draw, areas)
    setup = setup_of(draw, theme)
    calls = calls_of(theme - {"journal"})
    housework = calls_of({"house"} | (theme & {"journal"}))
    levels: list[str | None] = []
    sessions: list[list[Step]] = []
    for number in range(1, rng.choice([3, 4, 4])):
        levels.append(rng.choice(some_levels))
        if "bulk" in theme and LEVELS[0] in some_levels and draw.some(0.4):
            levels[-1] = LEVELS[0]  # commit_write refuses the others
        steps = [Step(number, "look", acting(draw, "look", {}))] if draw.some(0.5) else []
        for _ in range(rng.choice([1, 1, 2, 3, 4])):
            made = pick(draw, calls)
            if levels[-1] == "read committed" and draw.some(0.08):
                made = CALLS["cleanup"]
            steps.append(Step(number, made.name, acting(draw, made.name, made.draw(draw))))
        steps.append(Step(number, "rollback" if draw.some(0.15) else "commit"))
        sessions.append(steps)
    if draw.some(0.75):
        number = len(sessions) + 1
        levels.append(None)
        steps = []
        if "journal" in theme and draw.some(0.7):
            # a journal so long that cleanup trims it
            for made in (pick(draw, calls), CALLS["fill_journal"], CALLS["cleanup"]):
                steps.append(Step(number, made.name, acting(draw, made.name, made.draw(draw))))
        for _ in range(rng.choice([1, 2, 3, 4, 6])):
            if draw.some(0.25):
                # what is open is sealed, what was sealed before is closed
                steps.append(Step(number, "move_clock", {"seconds": 3700}))
                steps.append(Step(number, "cleanup"))
                continue
            made = pick(draw, housework if draw.some(0.8) else calls)
            steps.append(Step(number, made.name, acting(draw, made.name, made.draw(draw))))
        sessions.append(steps)
    return Trial(
        name,
        tuple(levels),
        tuple(setup),
        tuple(_shuffled(rng, sessions)),
        tuple(tail_of(draw, theme)),
        rng.choice(["30ms", "10s"]),
    )


def _shuffled(rng: random.Random, sessions: list[list[Step]]) -> list[Step]:
    """The steps of all sessions in one order, each session's in its own."""
    order = [number for number, steps in enumerate(sessions) for _ in steps]
    rng.shuffle(order)
    left = [iter(steps) for steps in sessions]
    return [next(left[number]) for number in order]


# ---------------------------------------------------------------------------- pairs


def _pair(
    seed: int,
    name: str,
    number: int,
    interleaving: int,
    areas: tuple[str, ...],
    some_levels: tuple[str, ...],
) -> Trial:
    rng = random.Random(f"{seed} p{number}")
    draw = Draw(rng)
    theme = theme_of(draw, areas)
    setup = setup_of(draw, theme)
    calls = calls_of(theme - {"journal"})
    levels: list[str | None] = []
    sessions: list[list[Step]] = []
    for session in (1, 2):
        if session == 2 and draw.some(0.4):
            levels.append(None)
            housework = calls_of({"house"} | (theme & {"journal"}))
            others = [pick(draw, housework if draw.some(0.5) else calls) for _ in range(2)]
            made = [CALLS["cleanup"], *others]
            rng.shuffle(made)
            sessions.append(
                [Step(session, c.name, acting(draw, c.name, c.draw(draw))) for c in made]
            )
            continue
        levels.append(rng.choice(some_levels))
        first = CALLS["look"] if draw.some(0.5) else pick(draw, calls)
        then = pick(draw, calls)
        sessions.append(
            [
                Step(session, first.name, acting(draw, first.name, first.draw(draw))),
                Step(session, then.name, acting(draw, then.name, then.draw(draw))),
                Step(session, "rollback" if draw.some(0.1) else "commit"),
            ]
        )
    tail = tuple(tail_of(draw, theme))
    order = _merges(3, 3)[interleaving % INTERLEAVINGS]
    left = {1: iter(sessions[0]), 2: iter(sessions[1])}
    return Trial(
        name,
        tuple(levels),
        tuple(setup),
        tuple(next(left[session]) for session in order),
        tail,
        "30ms" if number % 2 else "10s",
    )
