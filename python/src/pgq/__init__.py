"""pgq: a message broker inside PostgreSQL.

`Client` and `AsyncClient` call the functions of the schema pgq on a psycopg connection that stays
the caller's. What they return and raise is in `pgq.messages` and `pgq.errors`, and here.
"""

from __future__ import annotations

from pgq._async import AsyncClient
from pgq._sync import Client
from pgq.errors import (
    AlreadyExists,
    EffectInterrupted,
    LeaseLost,
    OffsetOutOfRange,
    PgqError,
    UnknownGroup,
    UnknownPartition,
    UnknownQueue,
    UnknownSchedule,
    UnknownTopic,
    WriteLost,
    translated,
)
from pgq.messages import (
    ArchivedJob,
    BulkWriteState,
    CleanupAction,
    DeadLetter,
    Effect,
    EffectState,
    EnqueueResult,
    Group,
    GroupLag,
    Job,
    LeasedMessage,
    Message,
    OffsetRange,
    PartitionOffsets,
    PublishBatchResult,
    PublishResult,
    Queue,
    QueueStats,
    Schedule,
    ScheduleRun,
    SeekResult,
    Topic,
    TopicStats,
)

__all__ = [
    "AlreadyExists",
    "ArchivedJob",
    "AsyncClient",
    "BulkWriteState",
    "CleanupAction",
    "Client",
    "DeadLetter",
    "Effect",
    "EffectInterrupted",
    "EffectState",
    "EnqueueResult",
    "Group",
    "GroupLag",
    "Job",
    "LeaseLost",
    "LeasedMessage",
    "Message",
    "OffsetOutOfRange",
    "OffsetRange",
    "PartitionOffsets",
    "PgqError",
    "PublishBatchResult",
    "PublishResult",
    "Queue",
    "QueueStats",
    "Schedule",
    "ScheduleRun",
    "SeekResult",
    "Topic",
    "TopicStats",
    "UnknownGroup",
    "UnknownPartition",
    "UnknownQueue",
    "UnknownSchedule",
    "UnknownTopic",
    "WriteLost",
    "translated",
]
