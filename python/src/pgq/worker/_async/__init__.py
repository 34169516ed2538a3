"""The asynchronous worker. The synchronous one is generated from this folder: edit this one."""

from __future__ import annotations

from pgq.worker._async._job import RunningJob
from pgq.worker._async._worker import AsyncWorker

__all__ = ["AsyncWorker", "RunningJob"]
