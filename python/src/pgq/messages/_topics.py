"""Topics, groups, and what is published and read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

__all__ = [
    "Group",
    "GroupLag",
    "LeasedMessage",
    "Message",
    "OffsetRange",
    "PackedMessages",
    "PartitionOffsets",
    "PublishBatchResult",
    "PublishResult",
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
    idempotency_window: timedelta
    """How long an idempotency key stands for the message that it was given with: 1 day."""
    deferred: bool
    """Whether messages get their offsets when somebody consumes, not when they are published."""
    restricted: bool
    """Whether only roles with a grant may use it; see `grant_access`."""
    max_message_bytes: int
    """A publish of more content is refused: 1 MiB."""


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group of a topic."""

    topic: str
    consumer_group: str
    out_of_range: str
    """What happens when the position is older than the oldest message: 'error' or 'skip'."""
    created_at: datetime
    updated_at: datetime
    max_attempts: int | None
    """Attempts before a message goes to `dead_letter_topic`; None: no limit."""
    dead_letter_topic: str | None
    """None where there is no limit."""


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
class PackedMessages:
    """Messages of one partition that follow each other, a list for each of their columns."""

    first_offset: int
    messages: int
    """How many there are."""
    contents: list[bytes]
    """The body of each, or its payload as JSON."""
    keys: list[bytes | None] | None
    """Their keys in UTF-8; None: none has a key."""
    published_micros: list[int]
    """When each was published, in microseconds since 1970."""
    headers: list[str | None] | None
    """JSON of each, an array of key and value for each header; None: none has headers."""


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
    cut_short: bool = False
    """Whether `max_bytes` left some out that are there: ask again at once."""


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
    attempt: int | None
    """How many attempts there were, with this one; None: the group has no max_attempts."""
    cut_short: bool = False
    """Whether `max_bytes` left some out that are there: ask again at once."""


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
    """End of the lease that a member holds on the partition, if one does, or of the delay of a
    `nack_offsets`."""
    attempt: int
    """How many attempts there were at the next message, with the one under way; they are counted
    in groups with a `max_attempts`."""
    last_error: str | None
    """How the last of them failed, if it did."""


@dataclass(frozen=True, slots=True)
class TopicStats:
    """What one partition of a topic holds."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    messages: int
    published_last_minute: int
