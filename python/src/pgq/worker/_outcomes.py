"""How a handler says what becomes of its job."""

from __future__ import annotations

from datetime import timedelta

from pgq._durations import duration

__all__ = [
    "Misfit",
    "Outcome",
    "Reject",
    "Release",
    "Retry",
    "Snooze",
]


class Outcome(Exception):
    """Raised by a handler, or returned for a job of a batch."""

    # so that a subclass need not call `__init__`
    error: str | None = None
    delay: timedelta | None = None


class Retry(Outcome):
    """Try the job again: after `delay`, by default after the backoff of its queue."""

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


class Misfit(Exception):
    """The payload of a job is not what its handler takes; the job is rejected."""
