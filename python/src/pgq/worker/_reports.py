"""What a worker says of its jobs: log records and hooks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from pgq._runtime._errors import Logger, guarded, plain, trace

__all__ = ["LEVELS", "Hook", "Reports", "logger"]

logger = Logger("pgq.worker")

LEVELS = {
    "done": logging.INFO,
    "released": logging.INFO,
    "snoozed": logging.INFO,
    "retried": logging.WARNING,
    "failed": logging.WARNING,
    "lost": logging.WARNING,
    "rejected": logging.ERROR,
}


class Hook(Protocol):
    """Is told of each call of a handler, with the queue or topic and its jobs or messages.

    Both methods run where the handler runs.
    """

    def begin(self, source: str, jobs: Sequence[Any]) -> Any:
        """Before the call; what it returns is given to `end`."""

    def end(
        self,
        begun: Any,
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """Behind the call, with the outcome of each job: done, failed, retried, snoozed, rejected,
        released or lost."""


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
            level = LEVELS[outcome]
            if logger.isEnabledFor(level):
                fields = {
                    "queue": source,
                    "job_id": job.job_id,
                    "attempt": job.attempt,
                    "outcome": outcome,
                    "duration": seconds,
                }
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
