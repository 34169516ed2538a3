"""Faults between a push worker and its database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

__all__ = ["lose_answer"]


def lose_answer(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Let the first transaction of that name succeed, and its caller not know.

    The list that is returned has the name in it when that has happened.
    """
    from pgq.push._connections import Connections

    lost: list[str] = []
    run = Connections.run

    async def run_and_lose(self: Connections, function: Callable[..., Awaitable[Any]]) -> Any:
        result = await run(self, function)
        if getattr(function, "__name__", "") == name and not lost:
            lost.append(name)
            raise psycopg.OperationalError("the connection is lost")
        return result

    monkeypatch.setattr(Connections, "run", run_and_lose)
    return lost
