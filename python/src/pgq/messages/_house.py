"""Bulk writes, and what cleanup did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

__all__ = [
    "BulkWriteState",
    "CleanupAction",
    "CleanupFailure",
]


@dataclass(frozen=True, slots=True)
class BulkWriteState:
    """Where a bulk write stands."""

    write_id: UUID
    """What `write_chunk`, `commit_write` and `abort_write` ask for."""
    messages: int | None
    """How many messages or jobs it wrote; None: not committed."""
    committed_at: datetime | None
    duplicate: bool
    """Whether it had been committed before this call, which then changed nothing."""
    max_message_bytes: int | None = None
    """The largest content that its topic or queue takes; None: committed."""


@dataclass(frozen=True, slots=True)
class CleanupAction:
    """One thing that `cleanup` did."""

    action: str
    target: str
    amount: int


@dataclass(frozen=True, slots=True)
class CleanupFailure:
    """What `cleanup` cannot do."""

    part: str
    """The part of cleanup that fails."""
    target: str | None
    """The object that it fails for; None: for all."""
    failed_since: datetime
    tried_at: datetime
    error_code: str
    """The SQLSTATE of the last try."""
    error: str | None
    """Its message; None: the caller does not administer the object."""
