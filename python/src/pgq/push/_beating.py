"""Heartbeats of a push worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable

import psycopg

from pgq._runtime._heartbeats import Heartbeats, missing
from pgq.push._connections import Connections
from pgq.push._lease import DATABASE_AWAY
from pgq.push._logging import note

__all__ = ["beating"]


@contextlib.asynccontextmanager
async def beating(
    connections: Connections, topics: Iterable[str], running: Callable[[], int], every: float
) -> AsyncIterator[None]:
    """Within this block it is told that the worker is alive; behind it, that it has ended."""
    heartbeats = Heartbeats("push", {*topics}, running, every)
    task = asyncio.create_task(_beat(connections, heartbeats, every))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if heartbeats.on:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(
                    connections.run(lambda client: client.monitor.delete_worker(heartbeats.name)),
                    timeout=2.0,
                )


async def _beat(connections: Connections, heartbeats: Heartbeats, every: float) -> None:
    while heartbeats.on:
        try:
            await connections.run(
                lambda client: client.heartbeat(heartbeats.name, **heartbeats.said())
            )
        except DATABASE_AWAY:
            pass  # those who deliver say so
        except Exception as error:  # such as a name that the connection's encoding lacks
            if missing(error):
                heartbeats.off()
            said = error.diag.message_primary if isinstance(error, psycopg.Error) else str(error)
            reason = said or type(error).__name__
            note(logging.WARNING, "no heartbeat", reason=reason, off=not heartbeats.on)
        await asyncio.sleep(every)
