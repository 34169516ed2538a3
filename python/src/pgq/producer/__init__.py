"""Producers: single messages and jobs of many callers, written in batches.

`Producer` is for threads and answers by futures of concurrent.futures, `AsyncProducer` for tasks of
asyncio: ``await producer.publish(…)``.
"""

from __future__ import annotations

from pgq.producer._async import AsyncProducer
from pgq.producer._entries import Full, OutcomeUnknown, Published
from pgq.producer._sync import Producer

__all__ = ["AsyncProducer", "Full", "OutcomeUnknown", "Producer", "Published"]
