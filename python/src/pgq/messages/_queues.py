"""Queues and jobs, and what has become of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic
from uuid import UUID

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Payload = TypeVar("Payload", default=Any)
else:
    from typing import TypeVar

    Payload = TypeVar("Payload")

__all__ = [
    "ArchivedJob",
    "BulkResult",
    "DeadLetter",
    "EnqueueResult",
    "Job",
    "JobInfo",
    "Queue",
    "QueueStats",
]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its settings."""

    queue: str
    lease: timedelta
    """How long a claimed job belongs to its worker, unless the claim says otherwise: 30 s."""
    max_attempts: int | None
    """After so many attempts (5) a job that is not finished is a dead letter; None: no limit."""
    delay: timedelta
    """How long a new job waits before it can be claimed: not at all."""
    job_ttl: timedelta | None
    """When a job that is not finished expires, counted from enqueue: 14 days; None: never."""
    retention: timedelta | None
    """How long finished jobs and dead letters are kept: 14 days; None: for ever.

    It is counted from when a job was enqueued, or became a dead letter.
    """
    backoff: timedelta
    """The wait after a first failure (1 s); it doubles with each further one."""
    backoff_max: timedelta
    """The longest wait between two attempts: 1 h."""
    backoff_jitter: float
    """Up to which part of itself is added to a wait at random: 0.1 is up to ten per cent."""
    archive: bool
    """Whether jobs that are acked or expire are noted in the archive; by default they are."""
    notify: bool
    """Whether an enqueue sends a NOTIFY, which `Client.wait` listens to; off by default."""
    paused: bool
    """While a queue is paused nothing can be claimed from it."""
    created_at: datetime
    updated_at: datetime
    idempotency_window: timedelta
    """How long an idempotency key stands for the job that it was given with: 1 day."""
    unique_until: str
    """How long a job keeps others of its unique key out: 'finished', 'claimed' or 'removed'.

    finished, the default: until it is finished, cancelled, expired, purged or dead. claimed: only
    while it waits, so not while a worker has it. removed: a dead letter does so too.
    """
    ordered: bool
    """Whether the jobs of one key are handed out one at a time, in the order of their commits.

    It is fixed when the queue is created; by default it is not. Jobs without a key never wait.
    """
    after_dead_letter: str
    """What the jobs of a key do in an ordered queue when one of them is dead: 'continue' or 'stop'.

    stop: they wait until the dead letter is redriven, which then comes first, or is removed.
    """
    max_leased: int | None
    """Claims get nothing while workers have so many of its jobs; None: no limit."""
    rate_limit: int | None
    """Claims get so many jobs per `rate_interval`; None: no limit."""
    rate_interval: timedelta | None
    """1 s; None: there is no `rate_limit`."""
    rate_burst: int | None
    """So many jobs may be claimed at once after a pause: as many as the `rate_limit`."""
    max_unfinished: int | None
    """With so many unfinished jobs enqueue raises QueueFull; None: no limit."""
    max_leased_per_key: int | None
    """So many jobs of one key are leased at one time at most; None: no limit."""
    restricted: bool
    """Whether only roles with a grant may use it; see `grant_access`."""
    max_message_bytes: int
    """An enqueue of more content is refused: 1 MiB."""
    keep_results: bool
    """Whether `get_result` knows its jobs after they have ended; by default it does not.

    They are kept for the `retention`, counted from their end.
    """
    on_duplicate: str
    """What an enqueue does to the waiting job of its unique key: 'keep', 'replace' or 'postpone'.

    keep, the default: nothing. replace: the job gets the new payload and headers, and keeps its id
    and its time. postpone: the same, and it is due after the new delay. Fixed when the queue is
    created; the last two with ``unique_until='claimed'``.
    """
    debounce_max: timedelta | None
    """A postponed job is due so long after it was first enqueued at the latest; None: no limit."""


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """A job that was enqueued, now or before."""

    job_id: int
    duplicate: bool
    """Whether nothing was added: this job had been enqueued before."""


@dataclass(slots=True)
class Job(Generic[Payload]):
    """A job that was claimed. All jobs of one claim share one lease token.

    ``Job[Order]`` is one whose payload is an `Order`; a claim returns jobs with any payload.
    """

    job_id: int
    lease_token: UUID
    attempt: int
    """From 1. Each one that began counts, also when its worker crashes."""
    leased_until: datetime
    enqueued_at: datetime
    priority: int
    key: str | None
    label: str | None
    headers: dict[str, Any] | None
    payload: Payload
    body: bytes | None
    cut_short: bool = False
    """Whether there are more that may be claimed now: ask again at once."""
    max_attempts: int | None = None
    """Attempts before it becomes a dead letter; None: any number."""

    @property
    def is_last_attempt(self) -> bool:
        """Whether it becomes a dead letter if this attempt fails."""
        return self.max_attempts is not None and self.attempt >= self.max_attempts


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job that is not finished, or a dead letter, as `get_job` finds it."""

    job_id: int
    queue: str
    state: str
    """ready, leased, delayed, waiting, expired or dead: the words of `QueueStats`."""
    priority: int
    attempt: int
    max_attempts: int | None
    """Its own, or else its queue's; None: no limit."""
    enqueued_at: datetime | None
    due_at: datetime | None
    """None: a worker has it, or it is dead."""
    leased_until: datetime | None
    expires_at: datetime | None
    died_at: datetime | None
    label: str | None
    unique_key: str | None
    last_error: str | None
    key: str | None
    headers: dict[str, Any] | None
    payload: Any
    body: bytes | None
    snoozes: int
    """How often `release_job` gave it back with a delay."""
    progress: Any
    """What `set_progress` was given last; None: nothing."""
    progress_at: datetime | None
    """When that was given."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """How many jobs of a queue are in which state."""

    queue: str
    ready: int
    leased: int
    delayed: int
    expired: int
    dead: int
    oldest_ready_at: datetime | None
    """Since when the job that is due longest has been due; None when there is none."""
    paused: bool
    waiting: int
    """Jobs that wait for another one of their key.

    In an ordered queue, or one with `max_leased_per_key`: there from when a claim has met them on.
    """
    held_by: str | None
    """Why claims get nothing now, whatever is due: 'paused', 'max_leased' or 'rate_limit'."""
    is_full: bool
    """Whether an enqueue raises QueueFull now."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that was given up after its last attempt; `redrive` puts it back."""

    queue: str
    job_id: int
    attempt: int
    last_error: str | None
    enqueued_at: datetime | None
    died_at: datetime
    priority: int
    key: str | None
    label: str | None
    headers: dict[str, Any] | None
    payload: Any
    body: bytes | None
    stops_key: bool
    """Whether the jobs of its key wait until it is redriven or removed; see `Queue`."""


@dataclass(frozen=True, slots=True)
class ArchivedJob:
    """A job that was finished or has expired."""

    queue: str
    job_id: int
    outcome: str
    attempt: int
    enqueued_at: datetime | None
    ended_at: datetime
    result: Any
    last_error: str | None
    key: str | None
    label: str | None
    headers: dict[str, Any] | None
    payload: Any
    body: bytes | None


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What a call has done with many jobs of a queue."""

    taken: int
    """How many it has changed, or with `dry_run` would have changed."""
    seen: int
    """How many jobs of the queue it has looked at."""
    after_id: int | None
    """What to pass to the next call, which goes on from there; None: there are no more."""
