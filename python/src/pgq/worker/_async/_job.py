"""A job as its handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, TypeVar

from pgq._runtime._async._pool import Borrowing, Pool
from pgq.errors import LeaseLost
from pgq.messages import Job
from pgq.messages._queues import Payload
from pgq.worker._claims import Claim
from pgq.worker._progress import as_json

__all__ = ["RunningJob"]

T = TypeVar("T")

_FIELDS = attrgetter(*Job.__slots__)


class RunningJob(Job[Payload]):
    """A job that a handler has, with what the handler may ask and tell.

    Its payload is what the handler gets: ``RunningJob[Mail]`` in a handler that takes a `Mail`.
    """

    __slots__ = ("_claim", "_pool")

    def __init__(self, job: Job, claim: Claim, pool: Pool) -> None:
        super().__init__(*_FIELDS(job))
        self._claim = claim
        self._pool = pool

    @property
    def queue(self) -> str:
        """The queue that it is from."""
        return self._claim.handler.queue

    @property
    def lost(self) -> bool:
        """Whether its lease was lost: somebody else may have it, and no result counts."""
        return self.job_id in self._claim.lost

    def check(self) -> None:
        """Raise LeaseLost if the lease was lost: the way to stop a long handler in a thread."""
        if self.lost:
            raise LeaseLost(f"the lease of job {self.job_id} was lost")

    def set_progress(self, progress: Any) -> None:
        """Say how far it has come, as any JSON value of up to 16 KiB; `get_job` shows it.

        It returns at once, and may be called for each item: a heartbeat stores the last value.
        What is said between the last heartbeat and the end of the handler is not stored, nor what
        is said after the lease was lost. TypeError or ValueError: the value cannot be JSON.
        """
        self._claim.progress[self.job_id] = as_json(progress, self._pool.encoding)

    async def run_once(
        self,
        effect: str,
        function: Callable[[], Awaitable[T]],
        *,
        at_least_once: bool | None = None,
        not_done: type[Exception] | tuple[type[Exception], ...] | None = None,
    ) -> T:
        """Run `function` unless an attempt of this job has done so; see `Client.run_once`."""
        return await Borrowing(self._pool).run_once(
            self, effect, function, at_least_once=at_least_once, not_done=not_done
        )
