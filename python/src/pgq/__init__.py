"""pgq: a message broker inside PostgreSQL.

`Client` and `AsyncClient` call the functions of the schema pgq on a psycopg connection that stays
the caller's. What they return and raise is in `pgq.messages` and `pgq.errors`, and here.
"""

from __future__ import annotations

from pgq._calls import NOT_GIVEN, NotGiven
from pgq._client import Client
from pgq._client_async import AsyncClient
from pgq.errors import (
    AlreadyExists,
    LeaseLost,
    OffsetOutOfRange,
    PgqError,
    UnknownGroup,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
    WriteLost,
    translated,
)
from pgq.messages import (
    ArchivedJob,
    BulkWriteState,
    CleanupAction,
    DeadLetter,
    Group,
    GroupLag,
    Job,
    LeasedMessage,
    Message,
    MessagePosition,
    OffsetRange,
    PartitionOffsets,
    Queue,
    QueueStats,
    Topic,
    TopicStats,
)

__all__ = [
    "NOT_GIVEN",
    "AlreadyExists",
    "ArchivedJob",
    "AsyncClient",
    "BulkWriteState",
    "CleanupAction",
    "Client",
    "DeadLetter",
    "Group",
    "GroupLag",
    "Job",
    "LeaseLost",
    "LeasedMessage",
    "Message",
    "MessagePosition",
    "NotGiven",
    "OffsetOutOfRange",
    "OffsetRange",
    "PartitionOffsets",
    "PgqError",
    "Queue",
    "QueueStats",
    "Topic",
    "TopicStats",
    "UnknownGroup",
    "UnknownPartition",
    "UnknownQueue",
    "UnknownTopic",
    "WriteLost",
    "translated",
]
