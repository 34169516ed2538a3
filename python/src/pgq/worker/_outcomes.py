"""How a handler says what becomes of its job, and what becomes of one that has failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pgq._durations import duration, seconds
from pgq._runtime._errors import Logger, failure, guarded, plain

__all__ = [
    "Misfit",
    "Outcome",
    "Reject",
    "Release",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "UnknownTask",
    "conclusion",
    "logger",
]

logger = Logger("pgq.worker")


class Outcome(Exception):
    """Raised by a handler, or returned for a job of a batch."""

    # so that a subclass need not call `__init__`
    error: str | None = None
    delay: timedelta | None = None


class Retry(Outcome):
    """Try the job again: after `delay`, by default after the backoff of its policy or queue."""

    def __init__(self, error: str | None = None, *, delay: timedelta | float | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.delay = None if delay is None else duration("delay", delay)


class Reject(Outcome):
    """No attempt can do this job: make it a dead letter now."""

    def __init__(self, error: str | None = None) -> None:
        super().__init__(error)
        self.error = error


class Release(Outcome):
    """Give the job back as if it had not been claimed: it is due at once."""


class Snooze(Outcome):
    """It is too early for this job: try it again after `delay`, as if it had not been claimed.

    No attempt is used, however often it is raised. Where the job would expire before it is due
    again, the attempt has failed instead.
    """

    def __init__(self, delay: timedelta | float) -> None:
        super().__init__(f"again in {delay}{' s' * isinstance(delay, (int, float))}")
        self.delay = duration("delay", delay)


class UnknownTask(Snooze):
    """This program cannot run the task; another version of it may, so the job is given back."""

    def __init__(self, why: str) -> None:
        super().__init__(30)
        self.error = f"{why}, given back for 30 s"
        self.args = (self.error,)


class Misfit(Exception):
    """The payload of a job is not what its handler takes; the job is rejected."""


@dataclass(frozen=True)
class RetryPolicy:
    """When a failed job is tried again, instead of the backoff of its queue.

    delays: the wait after the first attempt, the second, …, in seconds or as timedeltas; the last
    one is used for all later attempts. Or a function from the number of the failed attempt, which
    begins at 1, to the wait. Without it the backoff of the queue counts. `max_attempts` of the job
    or queue says how often a job is tried.

    reject: exceptions that no further attempt can help. They make the job a dead letter at once.
    """

    delays: Sequence[timedelta | float] | Callable[[int], timedelta | float] = ()
    reject: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if not callable(self.delays) and not isinstance(self.delays, (list, tuple)):
            raise TypeError(f"delays is {self.delays!r}, must be a list or a function")
        for place, delay in enumerate(() if callable(self.delays) else self.delays):
            seconds(f"delays[{place}]", delay, zero=True)
        if not isinstance(self.reject, tuple):
            raise TypeError(f"reject is {self.reject!r}, must be a tuple of exceptions")
        for kind in self.reject:
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise TypeError(f"reject: {kind!r} is not an exception class")

    def delay(self, attempt: int) -> timedelta | None:
        """The wait after an attempt; None: the queue's."""
        if callable(self.delays):
            return timedelta(seconds=seconds("delay", self.delays(attempt), zero=True))
        if not self.delays:
            return None
        return duration("delay", self.delays[min(attempt, len(self.delays)) - 1])


def conclusion(
    error: object, retry: RetryPolicy | None, attempt: int
) -> tuple[str, dict[str, Any]]:
    """The word for how an attempt has ended, and what is told of it. Never raises."""
    word, told = _outcome(error)
    if retry is None or word not in ("failed", "retried"):
        return word, told
    if word == "failed" and issubclass(type(error), retry.reject):
        return "rejected", told
    if told.get("delay") is None:
        told["delay"] = guarded(logger, "a retry policy", retry.delay, attempt)
    return word, told


def _outcome(error: object) -> tuple[str, dict[str, Any]]:
    kind = type(error)  # what `__class__` says may be made up
    try:
        if issubclass(kind, Release):
            return "released", {}
        if issubclass(kind, Misfit):
            return "rejected", {"error": plain(error)}
        said: Any = error
        if issubclass(kind, Reject):
            return "rejected", {"error": plain(said.error)}
        if issubclass(kind, Retry):
            return "retried", {"error": plain(said.error), "delay": said.delay}
        if issubclass(kind, Snooze) and said.delay is not None:
            why = {"error": plain(said.error)} if issubclass(kind, UnknownTask) else {}
            return "snoozed", {"delay": said.delay, **why}
        if issubclass(kind, Outcome):
            return "failed", {"error": f"TypeError: {kind.__name__} is no outcome"}
        if not issubclass(kind, BaseException):
            text = f"{kind.__name__} is no outcome, and the queue keeps no results"
            return "failed", {"error": f"TypeError: {text}"}
    except BaseException as broken:  # a property of a class of the handler's
        return "failed", {"error": failure(broken)}
    return "failed", {"error": failure(error)}
