"""The jobs of handlers beside a loop of asyncio; `_threads` has the same for threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from pgq._runtime._async._pool import Borrowing, Pool
from pgq.messages import Job
from pgq.worker._claims import Claim
from pgq.worker._sync import RunningJob

__all__ = ["InThread", "kind_of_job"]


class Across:
    """The pool of a loop for another thread: what is asked there, the loop does."""

    def __init__(self, pool: Pool) -> None:
        self.client = Borrowing(pool)
        self.encoding = pool.encoding
        self.loop = asyncio.get_running_loop()

    def ask(self, call: Callable[[Across], Any]) -> Any:
        """There is nothing to take before, nor to give back."""
        return call(self)

    def retry(self, function: Callable[[Any], Any], **options: Any) -> Any:
        """Run a transaction in the loop, and wait for its end."""
        asked = asyncio.run_coroutine_threadsafe(self.client.retry(function, **options), self.loop)
        return asked.result()


class InThread(RunningJob):
    """The job of a plain function: that of the synchronous worker, on connections of the loop."""

    __slots__ = ()

    def __init__(self, job: Job, claim: Claim, pool: Pool) -> None:
        across: Any = Across(pool)
        super().__init__(job, claim, across)

    def run_once(self, effect: str, function: Callable[[], Any], **options: Any) -> Any:
        """As that of any job. What runs in the loop awaits it: it would wait for itself there."""
        across: Any = self._pool
        try:
            loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is across.loop:  # the plain function has returned a coroutine
            return across.client.run_once(self, effect, function, **options)
        return super().run_once(effect, function, **options)


def kind_of_job(function: Callable[..., Any], kind: type[Job]) -> type[Any]:
    """The class of the jobs that a handler gets: a plain function waits in its own thread."""
    return kind if inspect.iscoroutinefunction(function) else InThread
