"""The asynchronous consumer. The synchronous one is generated from this folder: edit this one."""

from __future__ import annotations

from pgq.consumer._async._consumer import AsyncConsumer

__all__ = ["AsyncConsumer"]
