"""Workers: they do the jobs of queues by calling functions.

`Worker` calls them in threads, `AsyncWorker` in tasks of asyncio. What both do is told in
`Handlers.handler` and in the guide, python/WORKER.md. `Tasks` declares functions that are enqueued
by their names.
"""

from __future__ import annotations

from pgq.worker._async import AsyncWorker
from pgq.worker._async import RunningJob as AsyncRunningJob
from pgq.worker._declared import Task, Tasks
from pgq.worker._handlers import Handlers
from pgq.worker._outcomes import Outcome, Reject, Release, Retry, RetryPolicy, Snooze
from pgq.worker._sync import RunningJob, Worker
from pgq.worker.hooks import Hook

__all__ = [
    "AsyncRunningJob",
    "AsyncWorker",
    "Handlers",
    "Hook",
    "Outcome",
    "Reject",
    "Release",
    "Retry",
    "RetryPolicy",
    "RunningJob",
    "Snooze",
    "Task",
    "Tasks",
    "Worker",
]
