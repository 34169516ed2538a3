"""What the functions return: one dataclass per row type, fields in the order of its columns.

They are frozen, but for messages and jobs: those come by the thousand, and a frozen one takes five
times as long to make.

Times are timezone-aware datetimes, intervals are timedeltas, and an interval that is null in the
database (no limit) is None. A message or a job carries either a `payload` (any JSON value, decoded)
or a `body` (raw bytes); the other one is None.
"""

from __future__ import annotations

from pgq.messages._access import Access, CreatedRole
from pgq.messages._effects import Effect, EffectState
from pgq.messages._house import BulkWriteState, CleanupAction, CleanupFailure
from pgq.messages._metrics import Metric, WorkerInfo
from pgq.messages._queues import (
    ArchivedJob,
    BulkResult,
    DeadLetter,
    EnqueueResult,
    Job,
    JobInfo,
    Queue,
    QueueStats,
)
from pgq.messages._results import ErrorGroup, JobAttempt, JobResult
from pgq.messages._schedules import Schedule, ScheduleRun
from pgq.messages._subscriptions import Subscription
from pgq.messages._topics import (
    Group,
    GroupLag,
    LeasedMessage,
    Message,
    OffsetRange,
    PackedMessages,
    PartitionOffsets,
    PublishBatchResult,
    PublishResult,
    SeekResult,
    Topic,
    TopicStats,
)

__all__ = [
    "Access",
    "ArchivedJob",
    "BulkResult",
    "BulkWriteState",
    "CleanupAction",
    "CleanupFailure",
    "CreatedRole",
    "DeadLetter",
    "Effect",
    "EffectState",
    "EnqueueResult",
    "ErrorGroup",
    "Group",
    "GroupLag",
    "Job",
    "JobAttempt",
    "JobInfo",
    "JobResult",
    "LeasedMessage",
    "Message",
    "Metric",
    "OffsetRange",
    "PackedMessages",
    "PartitionOffsets",
    "PublishBatchResult",
    "PublishResult",
    "Queue",
    "QueueStats",
    "Schedule",
    "ScheduleRun",
    "SeekResult",
    "Subscription",
    "Topic",
    "TopicStats",
    "WorkerInfo",
]
