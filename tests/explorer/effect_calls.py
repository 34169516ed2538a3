"""Calls of effects that happen once."""

from __future__ import annotations

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__: list[str] = []


@call("effects", 8)
def begin_effect(draw: Draw) -> Arguments:
    more = {"at_least_once": draw.rng.choice([True, True, False])} if draw.some(0.4) else {}
    return {"*": draw.late("job"), "effect": draw.effect(), **more}


@call("effects", 4)
def finish_effect(draw: Draw) -> Arguments:
    return {"*": draw.late("job"), "effect": draw.effect(), "result": str(draw.number())}


@call("effects", 3)
def delete_effect(draw: Draw) -> Arguments:
    return {"*": draw.late("job"), "effect": draw.effect()}
