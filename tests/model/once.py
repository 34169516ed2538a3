"""What the model knows of idempotency keys: until when they stand for what they were given with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = ["Noted", "followers", "must_be_found"]


@dataclass
class Noted:
    """An idempotency key: with which job or message it was given, and until when it counts."""

    place: Any
    ends_at: datetime

    @classmethod
    def new(cls, at: datetime, place: Any, window: timedelta) -> Noted:
        return cls(place, at + window)


def must_be_found(note: Noted | None, now: datetime) -> bool:
    """Whether a call with the key is a duplicate."""
    return note is not None and note.ends_at > now


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
