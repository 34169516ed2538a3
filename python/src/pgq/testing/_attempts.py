"""What has become of jobs, as the hooks of a worker are told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pgq.messages import Job

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
        self._jobs: Sequence[Job] = ()
        self._returned: Mapping[int, Any] = {}

    def begin(self, source: str, jobs: Sequence[Job]) -> None:
        """A handler is about to be called."""
        self._jobs, self._returned = jobs, {}

    def returned(self, value: Any, batch: bool) -> None:
        """It has returned this; for a batch a dict by job id, if anything."""
        each = value if isinstance(value, Mapping) else {}
        self._returned = each if batch else {self._jobs[0].job_id: value}

    def end(
        self,
        begun: Any,
        source: str,
        outcomes: Sequence[tuple[Job, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """It has ended so."""
        for job, outcome in outcomes:
            said = self._returned.get(job.job_id)
            failed = said if error is None and isinstance(said, BaseException) else error
            result = said if outcome == "done" else None
            self.attempts.append(Attempt(source, job.job_id, outcome, result, failed))
