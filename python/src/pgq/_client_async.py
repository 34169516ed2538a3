"""The asynchronous client. The synchronous one is generated from this file: edit this one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import args_row, scalar_row

from pgq._calls import NOT_GIVEN, Option, call, pause, view
from pgq.errors import RETRYABLE, translated
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

__all__ = ["AsyncClient"]

T = TypeVar("T")


class AsyncClient:
    """pgq's functions as methods, on a connection that stays the caller's.

    Every method is one call of the function of the same name, with the same arguments: it opens no
    transaction and commits nothing, so what it does is part of the caller's transaction, or
    commits at once on a connection in autocommit mode. The two exceptions are `retry` and `wait`,
    which run transactions of their own and say so.

    An argument that is not given takes the default of the SQL function, which for a job's lease or
    delay is the queue's own setting. None is something else: it is passed as null, and
    ``create_topic("readings", retention=None)`` makes a topic that keeps its messages for ever.

    Payloads, headers and results are JSON values. To send JSON's own null, pass
    ``psycopg.types.json.Jsonb(None)``. A body is raw bytes, and stands in the place of the payload.

    The client needs no prepared statements: a connection with ``prepare_threshold=None`` behind a
    transaction pool works.

    All methods raise `pgq.errors` and psycopg's own exceptions: InvalidParameterValue (22023) for
    an argument that makes no sense, NullValueNotAllowed (22004) for a null that is not allowed,
    InsufficientPrivilege (42501) without the permission, and UnknownTopic, UnknownQueue,
    UnknownGroup or UnknownPartition for a name or number that does not exist.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    @property
    def connection(self) -> AsyncConnection[Any]:
        """The caller's connection."""
        return self._connection

    # -- topics --------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: Option[int] = NOT_GIVEN,
        retention: Option[timedelta | None] = NOT_GIVEN,
        max_bytes: Option[int | None] = NOT_GIVEN,
        notify: Option[bool] = NOT_GIVEN,
    ) -> Topic:
        """Create a topic, or return the one of that name as it is.

        A message is kept for `retention` at least (None: for ever), and of a topic that grows
        beyond `max_bytes` (None: no limit) at least these newest ones. With `notify` each publish
        wakes those who `wait`.
        """
        return await self._row(
            Topic,
            "create_topic",
            topic=topic,
            partitions=partitions,
            retention=retention,
            max_bytes=max_bytes,
            notify=notify,
        )

    async def alter_topic(
        self,
        topic: str,
        *,
        partitions: Option[int] = NOT_GIVEN,
        retention: Option[timedelta] = NOT_GIVEN,
        max_bytes: Option[int] = NOT_GIVEN,
        notify: Option[bool] = NOT_GIVEN,
        no_limit: Option[Sequence[str]] = NOT_GIVEN,
    ) -> Topic:
        """Change the settings that are given, and lift those limits that `no_limit` names.

        Those can be 'retention' and 'max_bytes'. The number of partitions can only grow, and then
        most keys move to another partition.
        """
        return await self._row(
            Topic,
            "alter_topic",
            topic=topic,
            partitions=partitions,
            retention=retention,
            max_bytes=max_bytes,
            notify=notify,
            no_limit=no_limit,
        )

    async def drop_topic(self, topic: str) -> None:
        """Drop a topic with its messages and its groups."""
        await self._value(object, "drop_topic", topic=topic)

    async def list_topics(self) -> list[Topic]:
        """All topics, by name."""
        return await self._rows(Topic, "list_topics")

    # -- publishing ----------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: Option[Any] = NOT_GIVEN,
        *,
        key: Option[str | None] = NOT_GIVEN,
        headers: Option[Mapping[str, Any] | None] = NOT_GIVEN,
        partition: Option[int | None] = NOT_GIVEN,
        body: Option[bytes | None] = NOT_GIVEN,
    ) -> MessagePosition:
        """Append one message and return where it stands.

        Messages of one `key` go to one partition and keep their order. Without a key, and without
        a named partition, any partition that is free takes it. The partition stays locked until
        the transaction ends, so publish late in a long one.
        """
        return await self._row(
            MessagePosition,
            "publish",
            topic=topic,
            payload=payload,
            key=key,
            headers=headers,
            partition=partition,
            body=body,
        )

    async def publish_batch(
        self,
        topic: str,
        payloads: Option[Sequence[Any] | None] = NOT_GIVEN,
        *,
        bodies: Option[Sequence[bytes] | None] = NOT_GIVEN,
        keys: Option[Sequence[str | None] | None] = NOT_GIVEN,
        headers: Option[Sequence[Mapping[str, Any] | None] | None] = NOT_GIVEN,
        partition: Option[int | None] = NOT_GIVEN,
    ) -> list[OffsetRange]:
        """Append many messages; all are stored or none.

        Lists given beside each other have the same length. Returns a range for each partition
        written to: within it the messages stand in the order of the lists.
        """
        return await self._rows(
            OffsetRange,
            "publish_batch",
            topic=topic,
            payloads=payloads,
            bodies=bodies,
            keys=keys,
            headers=headers,
            partition=partition,
        )

    # -- consumer groups -----------------------------------------------------------------------

    async def create_group(
        self,
        topic: str,
        consumer_group: str,
        *,
        start: Option[str] = NOT_GIVEN,
        out_of_range: Option[str] = NOT_GIVEN,
    ) -> Group:
        """Create a consumer group, or return the one of that name as it is.

        It begins at `start`, 'earliest' or 'latest'. When retention has removed messages that the
        group had not read yet, reading raises OffsetOutOfRange, or goes on at the oldest message
        that is left if `out_of_range` is 'skip'.
        """
        return await self._row(
            Group,
            "create_group",
            topic=topic,
            consumer_group=consumer_group,
            start=start,
            out_of_range=out_of_range,
        )

    async def drop_group(self, topic: str, consumer_group: str) -> None:
        """Drop a consumer group with its positions."""
        await self._value(object, "drop_group", topic=topic, consumer_group=consumer_group)

    async def list_groups(self, topic: Option[str | None] = NOT_GIVEN) -> list[Group]:
        """The groups of a topic, or of all."""
        return await self._rows(Group, "list_groups", topic=topic)

    async def claim_offsets(
        self,
        topic: str,
        consumer_group: str,
        *,
        max_messages: Option[int] = NOT_GIVEN,
        partition: Option[int | None] = NOT_GIVEN,
    ) -> OffsetRange | None:
        """Take the next messages of one partition for this transaction; None: caught up.

        The group's position moves with the commit of the transaction. Until then no other member
        gets messages of that partition, and a rollback gives the range back. Read it with
        `fetch_range`.

        Raises OffsetOutOfRange when retention has overtaken the group.
        """
        return await self._row_or_none(
            OffsetRange,
            "claim_offsets",
            topic=topic,
            consumer_group=consumer_group,
            max_messages=max_messages,
            partition=partition,
        )

    async def fetch_range(
        self, topic: str, partition: int, first_offset: int, last_offset: int
    ) -> list[Message]:
        """Read the messages of a range, both ends included, without any group.

        Raises OffsetOutOfRange when the range is not there (any more) as a whole.
        """
        return await self._rows(
            Message,
            "fetch_range",
            topic=topic,
            partition=partition,
            first_offset=first_offset,
            last_offset=last_offset,
        )

    async def list_offsets(
        self, topic: str, *, published_at: Option[datetime | None] = NOT_GIVEN
    ) -> list[PartitionOffsets]:
        """The offsets that each partition has, and the first published at a time or later.

        What is published later gets higher offsets, so ranges planned from here stay as they are.
        """
        return await self._rows(
            PartitionOffsets, "list_offsets", topic=topic, published_at=published_at
        )

    async def check_range(
        self, topic: str, partition: int, first_offset: int, last_offset: int
    ) -> int:
        """The partition_id of a partition in the view pgq.messages, if all of the range is there.

        Raises OffsetOutOfRange when the range is not there (any more) as a whole.
        """
        return await self._value(
            int,
            "check_range",
            topic=topic,
            partition=partition,
            first_offset=first_offset,
            last_offset=last_offset,
        )

    async def consume(
        self,
        topic: str,
        consumer_group: str,
        *,
        max_messages: Option[int] = NOT_GIVEN,
        partition: Option[int | None] = NOT_GIVEN,
    ) -> list[Message]:
        """`claim_offsets` and `fetch_range` in one; an empty list: caught up.

        What the caller writes in the same transaction happens exactly once for each message.

        Raises OffsetOutOfRange when retention has overtaken the group.
        """
        return await self._rows(
            Message,
            "consume",
            topic=topic,
            consumer_group=consumer_group,
            max_messages=max_messages,
            partition=partition,
        )

    async def fetch(
        self,
        topic: str,
        consumer_group: str,
        *,
        max_messages: Option[int] = NOT_GIVEN,
        partition: Option[int | None] = NOT_GIVEN,
    ) -> list[Message]:
        """Look at the group's next messages and move nothing; `commit_offset` moves the position.

        Raises OffsetOutOfRange when retention has overtaken the group.
        """
        return await self._rows(
            Message,
            "fetch",
            topic=topic,
            consumer_group=consumer_group,
            max_messages=max_messages,
            partition=partition,
        )

    async def poll(
        self,
        topic: str,
        consumer_group: str,
        *,
        max_messages: Option[int] = NOT_GIVEN,
        lease: Option[timedelta] = NOT_GIVEN,
        partition: Option[int | None] = NOT_GIVEN,
    ) -> list[LeasedMessage]:
        """Lease the next messages of one partition; an empty list: nothing to do.

        Commit, so that the lease counts, and work. `commit_offset` with the lease token finishes
        the messages; when the lease ends before, another member gets them again. While a partition
        is leased no other member gets anything of it, so its messages stay in order.

        Raises OffsetOutOfRange when retention has overtaken the group.
        """
        return await self._rows(
            LeasedMessage,
            "poll",
            topic=topic,
            consumer_group=consumer_group,
            max_messages=max_messages,
            lease=lease,
            partition=partition,
        )

    async def extend_poll(
        self,
        topic: str,
        consumer_group: str,
        partition: int,
        lease_token: UUID,
        *,
        lease: Option[timedelta] = NOT_GIVEN,
    ) -> bool:
        """Let the lease end `lease` from now. False: it is lost, stop working on it."""
        return await self._value(
            bool,
            "extend_poll",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            lease_token=lease_token,
            lease=lease,
        )

    async def release(
        self, topic: str, consumer_group: str, partition: int, lease_token: UUID
    ) -> bool:
        """Give a lease back unfinished: the messages are there for any member at once.

        False: it was lost before.
        """
        return await self._value(
            bool,
            "release",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            lease_token=lease_token,
        )

    async def commit_offset(
        self,
        topic: str,
        consumer_group: str,
        partition: int,
        last_offset: int,
        *,
        lease_token: Option[UUID | None] = NOT_GIVEN,
    ) -> int:
        """Note that all messages up to `last_offset` are consumed; returns the position.

        A lower offset than the position changes nothing. After `poll` pass its lease token; the
        lease ends with the last message that it gave.

        Raises OffsetOutOfRange above the newest message, and LeaseLost when the token is stale or
        the partition is leased by another member.
        """
        return await self._value(
            int,
            "commit_offset",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            last_offset=last_offset,
            lease_token=lease_token,
        )

    async def seek(
        self,
        topic: str,
        consumer_group: str,
        *,
        partition: Option[int | None] = NOT_GIVEN,
        log_offset: Option[int | None] = NOT_GIVEN,
        published_at: Option[datetime | None] = NOT_GIVEN,
        start: Option[str | None] = NOT_GIVEN,
    ) -> list[MessagePosition]:
        """Move a group, in one partition or in all: back to read again, or ahead to skip.

        Give one of `log_offset` (with a partition), `published_at` (the first message published
        then or later is next) and `start`, 'earliest' or 'latest'. Returns the offset read next in
        each partition. Leases on them are lost.

        Raises OffsetOutOfRange for an offset outside the log.
        """
        return await self._rows(
            MessagePosition,
            "seek",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            log_offset=log_offset,
            published_at=published_at,
            start=start,
        )

    # -- queues --------------------------------------------------------------------------------

    async def create_queue(
        self,
        queue: str,
        *,
        lease: Option[timedelta] = NOT_GIVEN,
        max_attempts: Option[int | None] = NOT_GIVEN,
        delay: Option[timedelta] = NOT_GIVEN,
        retention: Option[timedelta | None] = NOT_GIVEN,
        backoff: Option[timedelta] = NOT_GIVEN,
        backoff_max: Option[timedelta] = NOT_GIVEN,
        backoff_jitter: Option[float] = NOT_GIVEN,
        archive: Option[bool] = NOT_GIVEN,
        notify: Option[bool] = NOT_GIVEN,
    ) -> Queue:
        """Create a queue; `Queue` says what each setting means.

        Raises AlreadyExists when there is one of that name.
        """
        return await self._row(
            Queue,
            "create_queue",
            queue=queue,
            lease=lease,
            max_attempts=max_attempts,
            delay=delay,
            retention=retention,
            backoff=backoff,
            backoff_max=backoff_max,
            backoff_jitter=backoff_jitter,
            archive=archive,
            notify=notify,
        )

    async def alter_queue(
        self,
        queue: str,
        *,
        lease: Option[timedelta] = NOT_GIVEN,
        max_attempts: Option[int] = NOT_GIVEN,
        delay: Option[timedelta] = NOT_GIVEN,
        retention: Option[timedelta] = NOT_GIVEN,
        backoff: Option[timedelta] = NOT_GIVEN,
        backoff_max: Option[timedelta] = NOT_GIVEN,
        backoff_jitter: Option[float] = NOT_GIVEN,
        archive: Option[bool] = NOT_GIVEN,
        notify: Option[bool] = NOT_GIVEN,
        no_limit: Option[Sequence[str]] = NOT_GIVEN,
    ) -> Queue:
        """Change the settings that are given, and lift those limits that `no_limit` names.

        Those can be 'max_attempts' and 'retention'. Jobs that are there keep their times; a new
        lease counts from the next claim on.
        """
        return await self._row(
            Queue,
            "alter_queue",
            queue=queue,
            lease=lease,
            max_attempts=max_attempts,
            delay=delay,
            retention=retention,
            backoff=backoff,
            backoff_max=backoff_max,
            backoff_jitter=backoff_jitter,
            archive=archive,
            notify=notify,
            no_limit=no_limit,
        )

    async def drop_queue(self, queue: str) -> None:
        """Drop a queue with all its jobs."""
        await self._value(object, "drop_queue", queue=queue)

    async def list_queues(self) -> list[Queue]:
        """All queues, by name."""
        return await self._rows(Queue, "list_queues")

    async def pause_queue(self, queue: str) -> None:
        """Let no job of the queue be claimed until `resume_queue`; leases that run go on."""
        await self._value(object, "pause_queue", queue=queue)

    async def resume_queue(self, queue: str) -> None:
        """End a pause."""
        await self._value(object, "resume_queue", queue=queue)

    async def purge_queue(self, queue: str, *, dead_only: Option[bool] = NOT_GIVEN) -> int:
        """Remove all jobs of a queue, leased ones too, or its dead letters only.

        Returns how many there were.
        """
        return await self._value(int, "purge_queue", queue=queue, dead_only=dead_only)

    async def enqueue(
        self,
        queue: str,
        payload: Option[Any] = NOT_GIVEN,
        *,
        body: Option[bytes | None] = NOT_GIVEN,
        delay: Option[timedelta | None] = NOT_GIVEN,
        priority: Option[int] = NOT_GIVEN,
        label: Option[str | None] = NOT_GIVEN,
        headers: Option[Mapping[str, Any] | None] = NOT_GIVEN,
        key: Option[str | None] = NOT_GIVEN,
        run_at: Option[datetime | None] = NOT_GIVEN,
    ) -> int:
        """Add a job and return its id.

        It can be claimed when `delay` has passed, or from `run_at` on. Priorities go from 0 (first)
        to 9; a claim may ask for one `label` only.
        """
        return await self._value(
            int,
            "enqueue",
            queue=queue,
            payload=payload,
            body=body,
            delay=delay,
            priority=priority,
            label=label,
            headers=headers,
            key=key,
            run_at=run_at,
        )

    async def enqueue_batch(
        self,
        queue: str,
        payloads: Option[Sequence[Any] | None] = NOT_GIVEN,
        *,
        bodies: Option[Sequence[bytes] | None] = NOT_GIVEN,
        delay: Option[timedelta | None] = NOT_GIVEN,
        priority: Option[int] = NOT_GIVEN,
        labels: Option[Sequence[str | None] | None] = NOT_GIVEN,
        headers: Option[Sequence[Mapping[str, Any] | None] | None] = NOT_GIVEN,
        keys: Option[Sequence[str | None] | None] = NOT_GIVEN,
        run_at: Option[datetime | None] = NOT_GIVEN,
    ) -> list[int]:
        """Add many jobs, all or none, and return their ids in the order of the lists."""
        return await self._column(
            "job_id",
            "enqueue_batch",
            queue=queue,
            payloads=payloads,
            bodies=bodies,
            delay=delay,
            priority=priority,
            labels=labels,
            headers=headers,
            keys=keys,
            run_at=run_at,
        )

    async def claim_job(
        self,
        queue: str,
        *,
        max_jobs: Option[int] = NOT_GIVEN,
        lease: Option[timedelta | None] = NOT_GIVEN,
        label: Option[str | None] = NOT_GIVEN,
    ) -> list[Job]:
        """Lease the next jobs; an empty list: nothing to do.

        Commit, so that the lease counts, and work. Then `ack`, `archive_job` or `nack` with the
        lease token; a job of which nothing is heard before its lease ends is delivered again, and
        after the queue's `max_attempts` it becomes a dead letter.
        """
        return await self._rows(
            Job, "claim_job", queue=queue, max_jobs=max_jobs, lease=lease, label=label
        )

    async def ack(self, job_id: int, lease_token: UUID) -> bool:
        """Finish a job. False: the lease was lost, or the job is finished already.

        False changes nothing. A worker that writes its results in the same transaction rolls back
        then, and so works exactly once.
        """
        return await self._value(bool, "ack", job_id=job_id, lease_token=lease_token)

    async def ack_batch(self, job_ids: Sequence[int], lease_token: UUID) -> list[int]:
        """Finish jobs of one claim; returns the ids of those it finished."""
        return await self._column("job_id", "ack_batch", job_ids=job_ids, lease_token=lease_token)

    async def finish_and_claim(
        self,
        queue: str,
        *,
        job_ids: Option[Sequence[int] | None] = NOT_GIVEN,
        lease_token: Option[UUID | None] = NOT_GIVEN,
        max_jobs: Option[int] = NOT_GIVEN,
        lease: Option[timedelta | None] = NOT_GIVEN,
        label: Option[str | None] = NOT_GIVEN,
    ) -> list[Job]:
        """Finish the jobs of the last claim and lease the next ones, in one transaction.

        Without `job_ids` it only claims, with `max_jobs=0` it only finishes. LeaseLost: one of the
        jobs is not leased under that token any more; then nothing was finished or claimed.
        """
        return await self._rows(
            Job,
            "finish_and_claim",
            queue=queue,
            job_ids=job_ids,
            lease_token=lease_token,
            max_jobs=max_jobs,
            lease=lease,
            label=label,
        )

    async def nack(
        self,
        job_id: int,
        lease_token: UUID,
        *,
        delay: Option[timedelta | None] = NOT_GIVEN,
        error: Option[str | None] = NOT_GIVEN,
    ) -> bool:
        """Give a job back as failed; it returns after `delay`, or after the queue's backoff.

        After the last attempt it becomes a dead letter, with `error` as its last error. False: the
        lease was lost, or the job is finished already.
        """
        return await self._value(
            bool, "nack", job_id=job_id, lease_token=lease_token, delay=delay, error=error
        )

    async def nack_batch(
        self,
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        delay: Option[timedelta | None] = NOT_GIVEN,
        error: Option[str | None] = NOT_GIVEN,
    ) -> list[int]:
        """Give jobs of one claim back; returns the ids of those it gave back."""
        return await self._column(
            "job_id",
            "nack_batch",
            job_ids=job_ids,
            lease_token=lease_token,
            delay=delay,
            error=error,
        )

    async def archive_job(
        self,
        job_id: int,
        lease_token: UUID,
        *,
        outcome: Option[str] = NOT_GIVEN,
        result: Option[Any] = NOT_GIVEN,
    ) -> bool:
        """Finish a job with an outcome and a result (any JSON value) in the archive.

        It is archived whatever the queue's setting. False: the lease was lost, or the job is
        finished already.
        """
        return await self._value(
            bool,
            "archive_job",
            job_id=job_id,
            lease_token=lease_token,
            outcome=outcome,
            result=result,
        )

    async def archive_job_batch(
        self,
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        outcome: Option[str] = NOT_GIVEN,
        result: Option[Any] = NOT_GIVEN,
    ) -> list[int]:
        """Archive jobs of one claim; returns the ids of those it archived."""
        return await self._column(
            "job_id",
            "archive_job_batch",
            job_ids=job_ids,
            lease_token=lease_token,
            outcome=outcome,
            result=result,
        )

    async def extend_lease(
        self, job_id: int, lease_token: UUID, *, lease: Option[timedelta | None] = NOT_GIVEN
    ) -> bool:
        """Let a job's lease end `lease` from now. False: it is lost, stop working on the job."""
        return await self._value(
            bool, "extend_lease", job_id=job_id, lease_token=lease_token, lease=lease
        )

    async def extend_lease_batch(
        self,
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        lease: Option[timedelta | None] = NOT_GIVEN,
    ) -> list[int]:
        """Extend the leases of jobs of one claim; returns the ids of those still held."""
        return await self._column(
            "job_id",
            "extend_lease_batch",
            job_ids=job_ids,
            lease_token=lease_token,
            lease=lease,
        )

    async def redrive(self, queue: str, *, job_id: Option[int | None] = NOT_GIVEN) -> int:
        """Put a dead letter back into its queue, or all of them; returns how many.

        They are due at once and have all their attempts again.
        """
        return await self._value(int, "redrive", queue=queue, job_id=job_id)

    # -- bulk writes ---------------------------------------------------------------------------

    async def begin_write(
        self,
        *,
        topic: str | None = None,
        queue: str | None = None,
        producer: str | None = None,
        seq: int | None = None,
        atomic: bool | None = None,
        timeout: timedelta | None = None,
    ) -> BulkWriteState:
        """Begin a write of many writers to a topic or a queue.

        Commit the transaction of this call before the writers start. Each of them passes the
        `write_id` to `write_chunk`, and `commit_write` ends the write. With `atomic` (the default)
        all messages are seen at once when the write is committed; without it each chunk is
        published as it comes.

        With `producer` and `seq` pgq knows the write when it is begun again. If it was committed
        before, `repeated` is true. If it is still open, it starts again under a new id; writers
        that come with the old id are refused, and this does not wait for those that hang.
        """
        return await self._row(
            BulkWriteState,
            "begin_write",
            topic=topic,
            queue=queue,
            producer=producer,
            seq=seq,
            atomic=atomic,
            timeout=timeout,
        )

    async def write_chunk(
        self,
        write_id: UUID,
        task: int,
        task_attempt: str,
        chunk: int,
        lengths: Sequence[int],
        packed_payloads: bytes | None = None,
        *,
        keys: Sequence[str | None] | None = None,
        headers: Sequence[Mapping[str, Any] | None] | None = None,
        partition: int | None = None,
        priority: int | None = None,
        delay: timedelta | None = None,
        labels: Sequence[str | None] | None = None,
        last_chunk: bool | None = None,
        starts: Sequence[int] | None = None,
        packed_bodies: bytes | None = None,
    ) -> bool:
        """Add a chunk of messages to a bulk write. False: this chunk has been written before.

        `packed_payloads` (JSON texts) or `packed_bodies` (raw bytes) holds the contents one after
        the other, `lengths` how many bytes each one has. In an atomic write, an attempt to run a
        task writes all its chunks in one transaction, the last one with `last_chunk`; otherwise
        each chunk is published in the transaction of its call. `starts`, the place of the first
        byte of each content, from 1, saves time when a chunk goes to one partition.

        It waits while another open transaction has written the same chunk, or in an atomic write
        the same task.

        Raises WriteLost when the write is not open any more, and psycopg's LockNotAvailable when it
        waited 60 s in vain: roll back and call it again.
        """
        return await self._value(
            bool,
            "write_chunk",
            write_id=write_id,
            task=task,
            task_attempt=task_attempt,
            chunk=chunk,
            lengths=lengths,
            packed_payloads=packed_payloads,
            keys=keys,
            headers=headers,
            partition=partition,
            priority=priority,
            delay=delay,
            labels=labels,
            last_chunk=last_chunk,
            starts=starts,
            packed_bodies=packed_bodies,
        )

    async def commit_write(
        self, write_id: UUID, *, expected_messages: int | None = None
    ) -> BulkWriteState:
        """End a bulk write; an atomic one publishes all that was staged, at once.

        It waits for transactions that have written chunks and are still open, and counts these
        chunks if they commit. Repeating the call does no harm. The transaction must be READ
        COMMITTED, or ActiveSqlTransaction is raised.

        Raises WriteLost when the write was started again, aborted or forgotten, or when a part of
        what was staged is missing, and psycopg's LockNotAvailable when it waited 60 s in vain:
        nothing has changed, call it again.
        """
        return await self._row(
            BulkWriteState,
            "commit_write",
            write_id=write_id,
            expected_messages=expected_messages,
        )

    async def abort_write(self, write_id: UUID) -> bool:
        """Give up a bulk write, and refuse writers that come later. False: it is not open."""
        return await self._value(bool, "abort_write", write_id=write_id)

    # -- operations ----------------------------------------------------------------------------

    async def cleanup(self) -> list[CleanupAction]:
        """Remove what retention says may go, and trim the books; returns what was done.

        Delivery never depends on it. Run it every minute or so, from anywhere, in a transaction of
        its own (READ COMMITTED, or ActiveSqlTransaction is raised).
        """
        return await self._rows(CleanupAction, "cleanup")

    async def version(self) -> str:
        """The version of pgq that is installed in the database."""
        return await self._value(str, "version")

    async def group_lag(
        self, topic: str | None = None, consumer_group: str | None = None
    ) -> list[GroupLag]:
        """How far the groups are behind, a row per partition."""
        return await self._view(GroupLag, "group_lag", topic=topic, consumer_group=consumer_group)

    async def topic_stats(self, topic: str | None = None) -> list[TopicStats]:
        """What the topics hold, a row per partition."""
        return await self._view(TopicStats, "topic_stats", topic=topic)

    async def queue_stats(self, queue: str | None = None) -> list[QueueStats]:
        """How many jobs are in which state, a row per queue."""
        return await self._view(QueueStats, "queue_stats", queue=queue)

    async def dead_letters(self, queue: str | None = None) -> list[DeadLetter]:
        """The jobs that were given up, with their last errors."""
        return await self._view(DeadLetter, "dead_letters", queue=queue)

    async def archived_jobs(self, queue: str | None = None) -> list[ArchivedJob]:
        """The finished jobs that retention has not removed yet."""
        return await self._view(ArchivedJob, "archived_jobs", queue=queue)

    # -- transactions of their own -------------------------------------------------------------

    async def retry(
        self,
        function: Callable[[AsyncClient], Awaitable[T]],
        *,
        attempts: int = 5,
        backoff: timedelta = timedelta(milliseconds=20),
    ) -> T:
        """Run `function` in a transaction, and again when it fails because of others beside it.

        Those failures are serialization failures (40001) and deadlocks (40P01). `function` gets
        this client and must leave the transaction alone: it commits when `function` returns and
        rolls back when it raises. Between attempts there is a random pause, `backoff` at most
        after the first, doubling from there. The last failure is raised as it is.

        The connection must not be in a transaction: ProgrammingError.
        """
        if attempts < 1:
            raise ValueError(f"attempts is {attempts}, must be at least 1")
        self._require_idle("retry")
        attempt = 1
        while True:
            try:
                async with self._connection.transaction():
                    return await function(self)
            except RETRYABLE:
                if attempt >= attempts:
                    raise
            await asyncio.sleep(pause(attempt, backoff))
            attempt += 1

    async def wait(
        self,
        function: Callable[[AsyncClient], Awaitable[T]],
        *,
        topic: str | None = None,
        queue: str | None = None,
        timeout: timedelta = timedelta(seconds=30),
        interval: timedelta = timedelta(seconds=1),
    ) -> T:
        """Run `function` until it returns something, or until `timeout` has passed: a long poll.

        `function` gets this client, and each try is a transaction of its own. What it returned
        last is the result, so nothing (an empty list, None, False) means that the time is up::

            jobs = await client.wait(lambda c: c.claim_job("mail"), queue="mail")

        The next try comes after `interval`, or as soon as something is published to `topic` or
        enqueued in `queue`, if those were created with ``notify=True``; jobs that become due later
        send no notice. No transaction is open in between. Behind a transaction pool name neither,
        because it cannot LISTEN. The connection's own LISTEN on the same channel ends with this
        call.

        The connection must not be in a transaction: ProgrammingError.
        """
        if interval <= timedelta(0):
            raise ValueError("interval must be positive")
        self._require_idle("wait")
        bells = set()
        if topic is not None:
            bells.add(("pgq_topic", topic))
        if queue is not None:
            bells.add(("pgq_queue", queue))
        channels = sorted({channel for channel, _ in bells})
        deadline = time.monotonic() + timeout.total_seconds()
        try:
            # Listening begins before the first try, or what comes in between would go unheard.
            await self._run(*(f"listen {channel}".encode() for channel in channels))
            while True:
                async with self._connection.transaction():
                    result = await function(self)
                left = deadline - time.monotonic()
                if result or left <= 0:
                    return result
                await self._pause_until_rung(bells, min(left, interval.total_seconds()))
        finally:
            if not self._connection.closed:
                await self._run(*(f"unlisten {channel}".encode() for channel in channels))

    async def _pause_until_rung(self, bells: set[tuple[str, str]], seconds: float) -> None:
        if not bells:
            await asyncio.sleep(seconds)
            return
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            async for notice in self._connection.notifies(timeout=left, stop_after=1):
                if (notice.channel, notice.payload) in bells:
                    end = 0.0

    def _require_idle(self, what: str) -> None:
        if self._connection.info.transaction_status != TransactionStatus.IDLE:
            raise psycopg.ProgrammingError(
                f"{what} runs transactions of its own: the connection must not be in one"
            )

    # -- plumbing ------------------------------------------------------------------------------

    # Results come in binary: the text form of times depends on settings of the session. The cursor
    # is psycopg's plain one, whatever the connection's own: not all of them can do that.

    async def _rows(self, returns: type[T], function: str, /, **arguments: Any) -> list[T]:
        statement, values = call(function, arguments, returns)
        async with AsyncCursor(self._connection, row_factory=args_row(returns)) as cursor:
            with translated():
                await cursor.execute(statement, values, binary=True)
                return await cursor.fetchall()

    async def _row_or_none(self, returns: type[T], function: str, /, **arguments: Any) -> T | None:
        rows = await self._rows(returns, function, **arguments)
        return rows[0] if rows else None

    async def _row(self, returns: type[T], function: str, /, **arguments: Any) -> T:
        return (await self._rows(returns, function, **arguments))[0]

    async def _column(self, column: str, function: str, /, **arguments: Any) -> list[Any]:
        return await self._scalars(*call(function, arguments, column))

    async def _value(self, returns: type[T], function: str, /, **arguments: Any) -> T:
        (value,) = await self._scalars(*call(function, arguments, None))
        return cast("T", value)

    async def _scalars(self, statement: bytes, values: list[Any]) -> list[Any]:
        async with AsyncCursor(self._connection, row_factory=scalar_row) as cursor:
            with translated():
                await cursor.execute(statement, values, binary=True)
                return await cursor.fetchall()

    async def _view(self, returns: type[T], name: str, /, **conditions: str | None) -> list[T]:
        statement, values = view(name, returns, conditions)
        async with AsyncCursor(self._connection, row_factory=args_row(returns)) as cursor:
            await cursor.execute(statement, values, binary=True)
            return await cursor.fetchall()

    async def _run(self, *statements: bytes) -> None:
        if statements:
            async with self._connection.transaction():
                for statement in statements:
                    await self._connection.execute(statement)
