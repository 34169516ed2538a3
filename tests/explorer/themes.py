"""Which areas meet in a trial, and how often."""

from __future__ import annotations

from explorer.draw import Draw

__all__ = ["theme_of"]

THEMES: tuple[tuple[float, frozenset[str]], ...] = (
    (4, frozenset({"log"})),
    (4, frozenset({"queue"})),
    (2, frozenset({"queue", "effects"})),
    (4, frozenset({"queue", "endings"})),
    (1, frozenset({"queue", "endings", "settings"})),
    (2, frozenset({"queue", "endings", "noted"})),
    (2, frozenset({"queue", "duplicates"})),
    (3, frozenset({"limits"})),
    (1, frozenset({"queue", "limits"})),
    (1, frozenset({"queue", "limits", "settings"})),
    (2, frozenset({"queue", "room"})),
    (1, frozenset({"queue", "endings", "room"})),
    (1, frozenset({"queue", "bulk", "room"})),
    (1, frozenset({"prefetch"})),
    (1, frozenset({"queue", "prefetch"})),
    (2, frozenset({"queue", "keyed"})),
    (1, frozenset({"queue", "keyed", "endings"})),
    (1, frozenset({"queue", "keyed", "limits"})),
    (1, frozenset({"queue", "keyed", "settings"})),
    (2, frozenset({"store", "settings"})),
    (2, frozenset({"log", "settings"})),
    (2, frozenset({"queue", "settings"})),
    (2, frozenset({"log", "bulk"})),
    (1, frozenset({"queue", "bulk"})),
    (1, frozenset({"log", "queue", "bulk", "settings"})),
    (1, frozenset({"log", "journal"})),
    (4, frozenset({"log", "deferred"})),
    (2, frozenset({"log", "deferred", "settings"})),
    (1, frozenset({"log", "deferred", "bulk"})),
    (2, frozenset({"ticks"})),
    (4, frozenset({"poison"})),
    (2, frozenset({"log", "follow"})),
    (2, frozenset({"log", "follow", "deferred"})),
    (1, frozenset({"log", "follow", "settings"})),
    (1, frozenset({"log", "follow", "bulk"})),
    (1, frozenset({"ticks", "log", "queue", "settings"})),
    (2, frozenset({"mixed"})),
    (2, frozenset({"log", "access"})),
    (2, frozenset({"queue", "access"})),
    (1, frozenset({"log", "queue", "access"})),
    (1, frozenset({"log", "deferred", "access"})),
    (1, frozenset({"log", "follow", "access"})),
    (1, frozenset({"queue", "keyed", "access", "workers"})),
    (2, frozenset({"queue", "workers"})),
    (1, frozenset({"log", "access", "workers"})),
)

MIXED = {"bulk", "ticks", "limits"}
"""What meets in one trial of the area ``mixed``."""


def theme_of(draw: Draw, areas: tuple[str, ...]) -> set[str]:
    """The areas of a trial: what it is narrowed down to, or drawn."""
    weights, themes = zip(*THEMES, strict=True)
    theme = set(areas or draw.rng.choices(themes, weights)[0])
    return theme | MIXED if "mixed" in theme else theme
