"""What the model knows of idempotency keys: until when they stand for what they were given with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = ["Noted", "followers", "may_be_found", "must_be_found", "narrow"]


@dataclass
class Noted:
    """An idempotency key: when it was given, and with which job or message.

    ``shortest`` is the shortest window that its queue or topic has had since. ``latest``: when it
    may have been given again, if nobody can tell.
    """

    at: datetime
    place: Any
    shortest: timedelta
    latest: datetime

    @classmethod
    def new(cls, at: datetime, place: Any, window: timedelta) -> Noted:
        return cls(at, place, window, at)


def must_be_found(note: Noted | None, now: datetime) -> bool:
    """Whether a call with the key has to be a duplicate."""
    return note is not None and note.at + note.shortest > now


def may_be_found(note: Noted | None, window: timedelta, now: datetime) -> bool:
    """Whether it can be one: where the window has grown, keys of before may be forgotten or not."""
    return note is not None and note.latest + window > now


def narrow(noted: dict[str, Noted], window: timedelta) -> None:
    """The window was changed."""
    for note in noted.values():
        note.shortest = min(note.shortest, window)


def followers(
    noted: dict[str, Noted], keys: Sequence[str | None], now: datetime
) -> list[Noted | int]:
    """What each element of a batch stands for: what is known, or the first element of its key."""
    firsts: dict[str, int] = {}
    found: list[Noted | int] = []
    for place, key in enumerate(keys):
        if key is None:
            found.append(place)
        elif must_be_found(noted.get(key), now):
            found.append(noted[key])
        else:
            found.append(firsts.setdefault(key, place))
    return found
