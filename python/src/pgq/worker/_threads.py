"""The jobs of handlers in threads; `_tasks` has the same for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["kind_of_job"]

K = TypeVar("K")


def kind_of_job(function: Callable[..., Any], kind: K) -> K:
    """The class of the jobs that a handler gets: one for all."""
    return kind
