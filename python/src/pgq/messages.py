"""What the functions return: one dataclass per row type, fields in the order of its columns.

They are frozen, but for messages and jobs: those come by the thousand, and a frozen one takes five
times as long to make.

Times are timezone-aware datetimes, intervals are timedeltas, and an interval that is null in the
database (no limit) is None. A message or a job carries either a `payload` (any JSON value, decoded)
or a `body` (raw bytes); the other one is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

__all__ = [
    "ArchivedJob",
    "BulkWriteState",
    "CleanupAction",
    "DeadLetter",
    "Effect",
    "EffectState",
    "EnqueueResult",
    "Group",
    "GroupLag",
    "Job",
    "LeasedMessage",
    "Message",
    "OffsetRange",
    "PartitionOffsets",
    "PublishBatchResult",
    "PublishResult",
    "Queue",
    "QueueStats",
    "Schedule",
    "ScheduleRun",
    "SeekResult",
    "Topic",
    "TopicStats",
]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its settings."""

    topic: str
    partitions: int
    retention: timedelta | None
    """How long a message is kept at least, but for `max_bytes`; None: for ever."""
    max_bytes: int | None
    """How many bytes are kept at least when the oldest messages go early; None: no limit."""
    notify: bool
    """Whether a publish sends a NOTIFY, which `Client.wait` listens to."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group of a topic."""

    topic: str
    consumer_group: str
    out_of_range: str
    """What happens when the position is older than the oldest message: 'error' or 'skip'."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PublishResult:
    """Where a message stands that was published."""

    partition: int
    log_offset: int | None
    """None: it has none yet."""
    duplicate: bool
    """Whether it had been published before, and stands there since then."""


@dataclass(frozen=True, slots=True)
class PublishBatchResult:
    """Where messages of a batch stand that follow each other in one partition."""

    partition: int
    first_offset: int | None
    last_offset: int | None
    """Both ends belong to it; None: they have none yet."""
    duplicate: bool
    """Whether they had been published before, and stand there since then."""


@dataclass(frozen=True, slots=True)
class SeekResult:
    """Where a consumer group reads next in a partition."""

    partition: int
    position: int
    """The offset that the group reads next."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A run of messages of one partition; both ends belong to it."""

    partition: int
    first_offset: int
    last_offset: int

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets that one partition of a topic has."""

    partition: int
    first_offset: int
    last_offset: int
    """first_offset - 1 when the partition is empty."""
    log_offset: int | None
    """The first one published at the time that was asked for, or later; None: no time given."""


@dataclass(slots=True)
class Message:
    """A message of the log."""

    partition: int
    log_offset: int
    published_at: datetime
    key: str | None
    headers: dict[str, Any] | None
    payload: Any
    body: bytes | None


@dataclass(slots=True)
class LeasedMessage:
    """A message handed out under a lease; `commit_offset` wants the token."""

    lease_token: UUID
    leased_until: datetime
    partition: int
    log_offset: int
    published_at: datetime
    key: str | None
    headers: dict[str, Any] | None
    payload: Any
    body: bytes | None


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


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """A job that was enqueued."""

    job_id: int
    duplicate: bool
    """Whether it had been enqueued before, and has this id since then."""


@dataclass(slots=True)
class Job:
    """A job that was claimed. All jobs of one claim share one lease token."""

    job_id: int
    lease_token: UUID
    attempt: int
    """From 1; every claim is an attempt, also when its worker crashes."""
    leased_until: datetime
    enqueued_at: datetime
    priority: int
    key: str | None
    label: str | None
    headers: dict[str, Any] | None
    payload: Any
    body: bytes | None


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
class Schedule:
    """A schedule and its settings."""

    schedule: str
    queue: str | None
    """The queue that gets a job at each tick; None: it has a topic."""
    topic: str | None
    """The topic that gets a message at each tick; None: it has a queue."""
    payload: Any
    key: str | None
    headers: dict[str, Any] | None
    """They travel beside the header scheduled_at, the time of the tick."""
    cron: str | None
    """Minute, hour, day of month, month, day of week; None: it has an interval."""
    every: timedelta | None
    """An interval of real time, counted from `starts_at`; None: it has a cron expression."""
    time_zone: str | None
    """That of the cron expression: UTC; None: it has an interval."""
    missed: str
    """What becomes of ticks that nobody was there to write: 'skip', 'one' (the last) or 'all'."""
    starts_at: datetime
    """No tick is before: when it was made."""
    partition: int | None
    """The partition of the topic; None: as `publish` chooses."""
    priority: int | None
    """The priority of its jobs: 0; None: it has a topic."""
    label: str | None
    body: bytes | None
    paused: bool
    """While it is paused no tick is written."""
    next_at: datetime
    """The next tick, or the first one that was missed."""
    last_at: datetime | None
    """The last tick that was written; None: none yet."""
    last_error: str | None
    """Why the last try to write a tick failed; None: it did not."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """A tick that `run_schedules` wrote, or could not write."""

    schedule: str
    tick_at: datetime
    job_id: int | None
    """The job; None: the tick went to a topic, or nowhere."""
    partition: int | None
    log_offset: int | None
    """Where the message stands; None: the tick went to a queue, or nowhere."""
    error: str | None
    """Why nothing was written; None: it was."""


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


@dataclass(frozen=True, slots=True)
class CleanupAction:
    """One thing that `cleanup` did."""

    action: str
    target: str
    amount: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is behind in one partition."""

    topic: str
    consumer_group: str
    partition: int
    committed_offset: int
    """The last offset that the group has processed; 0 before the first."""
    last_offset: int
    """The newest offset; 0 when nothing was ever published."""
    lag: int
    """Messages still to read, those that retention has removed included."""
    oldest_published_at: datetime | None
    """When the oldest of them was published; None when there is none."""
    leased_until: datetime | None
    """End of the lease that a member holds on the partition, if one does."""


@dataclass(frozen=True, slots=True)
class TopicStats:
    """What one partition of a topic holds."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    messages: int
    published_last_minute: int


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
    """For how long the job that is due longest has been due, in seconds; 0 when there is none."""
    paused: bool


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


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of a job that is not finished."""

    queue: str
    job_id: int
    effect: str
    state: str
    """'begun' (its worker may be at it), 'finished' (it has happened), or 'interrupted' (its worker
    has lost the job or given it back, and nobody knows whether it happened)."""
    result: Any
    attempt: int
    begun_at: datetime
    finished_at: datetime | None
    lease_token: UUID
    """What `finish_effect` and `forget_effect` ask for, to say what became of it."""


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
