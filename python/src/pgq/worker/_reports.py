"""What a worker says of its jobs: log records and hooks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pgq._runtime._errors import guarded, plain, trace
from pgq.worker._handlers import task_name
from pgq.worker._outcomes import UnknownTask, logger
from pgq.worker.hooks import Hook

__all__ = ["LEVELS", "Reports", "logger"]

LEVELS = {
    "done": logging.INFO,
    "released": logging.INFO,
    "snoozed": logging.INFO,
    "retried": logging.WARNING,
    "failed": logging.WARNING,
    "lost": logging.WARNING,
    "rejected": logging.ERROR,
}


class Reports:
    """Log records with fields, and the hooks."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks = hooks

    def begin(self, source: str, jobs: Sequence[Any]) -> list[Any]:
        """A handler is about to be called."""
        return [guarded(logger, "a hook", hook.begin, source, jobs) for hook in self._hooks]

    @property
    def silent(self) -> bool:
        """Whether nobody wants to hear of jobs that are done."""
        return not self._hooks and not logger.isEnabledFor(LEVELS["done"])

    def end(
        self,
        begun: list[Any],
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None = None,
    ) -> None:
        """The handler has ended so."""
        self.tell(begun, source, outcomes, seconds, error)
        self.log(source, outcomes, seconds, error)

    def tell(
        self,
        begun: list[Any],
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """Tell the hooks alone."""
        for hook, state in zip(reversed(self._hooks), reversed(begun)):
            guarded(logger, "a hook", hook.end, state, source, outcomes, seconds, error)

    def log(
        self,
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """Write a record for each job."""
        for job, outcome in outcomes:
            level = logging.WARNING if type(error) is UnknownTask else LEVELS[outcome]
            if logger.isEnabledFor(level):
                fields = {
                    "queue": source,
                    "job_id": job.job_id,
                    "attempt": job.attempt,
                    "outcome": outcome,
                    "duration": seconds,
                }
                if task := task_name(job):
                    fields["task"] = task
                logger.log(
                    level,
                    "job %d of %s: %s%s",
                    job.job_id,
                    source,
                    outcome,
                    f": {plain(error)}" if error is not None else "",
                    extra=fields,
                    exc_info=trace(error) if outcome == "failed" else None,
                )
