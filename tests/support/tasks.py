"""The asynchronous client in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from psycopg import AsyncConnection

from pgq import AsyncClient

__all__ = ["with_client"]


def with_client(dsn: str, steps: Callable[[AsyncClient], Awaitable[None]], **options: Any) -> None:
    """Run steps with a client; its connection is in autocommit if `options` name nothing else."""

    async def run() -> None:
        async with await AsyncConnection.connect(dsn, **{"autocommit": True, **options}) as each:
            await steps(AsyncClient(each))

    asyncio.run(run())
