"""Calls about many jobs of a queue: those that match a filter."""

from __future__ import annotations

from explorer.draw import Arguments, Draw
from explorer.keyed_calls import LABELS
from explorer.registry import call

__all__ = ["some_letters"]


def _parts(draw: Draw) -> Arguments:
    """Seldom not all of them, or none at all."""
    return draw.rng.choice([{}, {}, {}, {"max_jobs": 1}, {"max_jobs": 2}, {"dry_run": True}])


def _unfinished(draw: Draw) -> Arguments:
    """Which ones; no job is due before the first of these times, or after the second one."""
    return draw.rng.choice(
        [
            {"all_jobs": True},
            {"due_since": "2000-01-01"},
            {"due_before": "2999-01-01"},
            {"label": draw.rng.choice([label for label in LABELS if label is not None])},
            {"key": draw.rng.choice("xxy")},
            {"error_contains": "o"},
        ]
    )


@call("endings", 2)
def cancel_jobs(draw: Draw) -> Arguments:
    more: Arguments = {"leased": True} if draw.some(0.2) else {}
    return {"queue": draw.queue(), **_unfinished(draw), **_parts(draw), **more}


@call("endings", 2)
def retry_jobs(draw: Draw) -> Arguments:
    return {"queue": draw.queue(), **_unfinished(draw), **_parts(draw)}


def some_letters(draw: Draw) -> Arguments:
    """A filter of dead letters, which all of them match that have an error."""
    given = draw.rng.choice(
        [{"died_before": "2999-01-01"}, {"died_since": "2000-01-01"}, {"error_contains": "o"}]
    )
    return {**given, **_parts(draw)}
