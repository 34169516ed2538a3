"""What has become of a job, and of its attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["ENDED", "ErrorGroup", "JobAttempt", "JobResult"]

ENDED = frozenset(("finished", "failed", "cancelled", "expired", "replaced", "gone"))
"""The states of a job that has ended."""


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Dead letters of a queue whose last errors end with the same line."""

    error: str | None
    """That line, of which 300 characters; None: without an error."""
    dead_letters: int
    """How many have it."""
    oldest_at: datetime
    """When the first of them died."""
    newest_at: datetime
    """When the last of them died."""


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """An attempt of a job that did not succeed."""

    attempt: int
    """Its number; a redriven job starts again with 1."""
    outcome: str
    """failed (`nack`), rejected (`reject_job`) or lost (its lease ran out)."""
    began_at: datetime | None
    """When it began, if the worker has said so."""
    ended_at: datetime
    """When it failed; of a lost one, when that was noticed."""
    worker: str | None
    """The worker that had the job, if it has said so."""
    error: str | None


@dataclass(frozen=True, slots=True)
class JobResult:
    """What has become of a job."""

    state: str
    """waiting, leased or blocked (by another job of its key); or how it has ended.

    finished; failed (a dead letter); cancelled; expired; replaced (by a newer job of its
    `unique_key`); gone: not known any more, or never known. Without `keep_results` of its queue a
    job that has ended otherwise than as a dead letter is gone.
    """
    result: Any
    """The return value of the handler, or what `archive_job` was given; None: none."""
    error: str | None
    """The last error of a failed job."""
    ended_at: datetime | None
    """None: it has not ended, or it is gone."""

    @property
    def ended(self) -> bool:
        """Whether it has ended; a failed job may still be redriven."""
        return self.state in ENDED
