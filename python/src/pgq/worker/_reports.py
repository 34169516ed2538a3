"""What a worker says of its jobs: log records and hooks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pgq.messages import Job

__all__ = ["Hook", "Reports", "logger"]

logger = logging.getLogger("pgq.worker")

_LEVELS = {
    "done": logging.INFO,
    "released": logging.INFO,
    "retried": logging.WARNING,
    "failed": logging.WARNING,
    "lost": logging.WARNING,
    "rejected": logging.ERROR,
}


class Hook(Protocol):
    """Is told of each call of a handler. Both methods run where the handler runs."""

    def begin(self, queue: str, jobs: Sequence[Job]) -> Any:
        """Before the call; what it returns is given to `end`."""

    def end(
        self,
        begun: Any,
        queue: str,
        outcomes: Sequence[tuple[Job, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """Behind the call, with the outcome of each job: done, failed, retried, rejected, released
        or lost."""


class Reports:
    """Log records with fields, and the hooks."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks = hooks

    def begin(self, queue: str, jobs: Sequence[Job]) -> list[Any]:
        """A handler is about to be called."""
        return [_guarded(hook.begin, queue, jobs) for hook in self._hooks]

    def end(
        self,
        begun: list[Any],
        queue: str,
        outcomes: Sequence[tuple[Job, str]],
        seconds: float,
        error: BaseException | None = None,
    ) -> None:
        """The handler has ended so."""
        for hook, state in zip(reversed(self._hooks), reversed(begun)):
            _guarded(hook.end, state, queue, outcomes, seconds, error)
        for job, outcome in outcomes:
            level = _LEVELS[outcome]
            if logger.isEnabledFor(level):
                fields = {
                    "queue": queue,
                    "job_id": job.job_id,
                    "attempt": job.attempt,
                    "outcome": outcome,
                    "duration": seconds,
                }
                shown = error if outcome == "failed" else None
                text = f": {error}" if error is not None and outcome != "done" else ""
                logger.log(
                    level,
                    "job %d of %s: %s%s",
                    job.job_id,
                    queue,
                    outcome,
                    text,
                    extra=fields,
                    exc_info=shown,
                )


def _guarded(call: Callable[..., Any], *arguments: Any) -> Any:
    """A hook that fails is no reason not to do the job."""
    try:
        return call(*arguments)
    except Exception:
        logger.exception("a hook has failed")
        return None
