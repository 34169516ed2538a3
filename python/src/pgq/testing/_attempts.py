"""What has become of jobs, as the hooks of a worker are told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Attempt", "Recorder"]


class Attempt(NamedTuple):
    """One attempt of a job."""

    queue: str
    job_id: int
    outcome: str
    """done, failed, retried, snoozed, rejected or released."""
    result: Any = None
    """What the handler returned, if the job is done."""
    error: BaseException | None = None
    """What the handler raised, or returned for this job of a batch."""


class Recorder:
    """A hook that keeps the attempts."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.returned: Any = None
        """What the handler has returned, for a batch a dict or None."""

    def begin(self, source: str, jobs: Sequence[Any]) -> None:
        """A handler is about to be called."""
        self.returned = None

    def end(
        self,
        begun: Any,
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """It has ended so."""
        for job, outcome in outcomes:
            self.attempts.append(self._attempt(source, job.job_id, outcome, error))

    def _attempt(
        self, queue: str, job_id: int, outcome: str, error: BaseException | None
    ) -> Attempt:
        returned = self.returned
        if isinstance(returned, Each):
            returned = returned.get(job_id)
        if error is None and isinstance(returned, BaseException):
            error = returned
        return Attempt(queue, job_id, outcome, returned if outcome == "done" else None, error)


class Each(dict[int, Any]):
    """What a batch handler has returned, by job id."""

    @classmethod
    def of(cls, returned: Any) -> Each:
        """It returns None, or a dict; what is neither is a failed attempt."""
        return cls(returned) if isinstance(returned, Mapping) else cls()
