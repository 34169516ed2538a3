"""The asynchronous producer. The synchronous one is generated from this folder: edit this one."""

from __future__ import annotations

from pgq.producer._async._producer import AsyncProducer

__all__ = ["AsyncProducer"]
