"""What the parts of the model share: contents, the time, and settings that are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pgq import AlreadyExists

__all__ = ["Clocked", "Content", "check_existing", "ends_at"]


@dataclass(frozen=True)
class Content:
    """What a message or job carries."""

    payload: Any = None
    body: bytes | None = None
    key: str | None = None
    headers: dict[str, Any] | None = None

    @classmethod
    def of(cls, row: Any) -> Content:
        """That of a message or job that the database returned."""
        return cls(row.payload, row.body, row.key, row.headers)


@dataclass
class Clocked:
    """The time by which the model counts."""

    now: datetime


def ends_at(moment: datetime, length: timedelta | None) -> datetime | None:
    return None if length is None else moment + length


def check_existing(existing: Any, given: Mapping[str, Any], no_limit: Sequence[str]) -> None:
    """What exists is returned if it has the settings that are given."""
    for name, value in given.items():
        if value is not None and name not in no_limit and getattr(existing, name) != value:
            raise AlreadyExists
    if any(getattr(existing, name) is not None for name in no_limit):
        raise AlreadyExists
