"""Consumers: they handle the messages of topics for a consumer group by calling functions.

`Consumer` calls them in threads, `AsyncConsumer` in tasks of asyncio.
"""

from __future__ import annotations

from pgq.consumer._async import AsyncConsumer
from pgq.consumer._sync import Consumer

__all__ = ["AsyncConsumer", "Consumer"]
