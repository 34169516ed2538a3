"""The effects of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

__all__ = [
    "Effect",
    "EffectState",
]


@dataclass(frozen=True, slots=True)
class EffectState:
    """What has become of an effect of a job."""

    state: str
    """'begun' (run it now), 'finished' (it has happened), or 'interrupted' (it was begun before,
    and nobody knows whether it happened)."""
    result: Any
    """What `finish_effect` was given."""
    attempt: int
    """Which attempt of the job began it."""
    begun_at: datetime


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of a job that is not finished."""

    queue: str
    job_id: int
    effect: str
    state: str
    """'begun' (its worker may run it), 'finished' (it has happened), or 'interrupted' (its worker
    has lost the job or given it back, and nobody knows whether it happened)."""
    result: Any
    attempt: int
    begun_at: datetime
    finished_at: datetime | None
    lease_token: UUID
    """What `finish_effect` and `delete_effect` ask for, to record its outcome."""
