"""What pgq promises, in memory: topics, groups, queues and jobs as plain Python.

Each method has the name of a function of pgq. It takes that function's arguments and ``got``, what
the database answered; it changes the model and asserts that the answer is a right one, or raises
the error that is to be expected. ``got`` decides only where pgq leaves a choice open: which free
partition, which ids and tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pgq import (
    AlreadyExists,
    Job,
    LeasedMessage,
    LeaseLost,
    Message,
    MessagePosition,
    OffsetOutOfRange,
    OffsetRange,
    UnknownGroup,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
)

__all__ = ["LAST_LEASE_RAN_OUT", "Broker", "Content", "Waiting"]

LAST_LEASE_RAN_OUT = "the lease of the last attempt ran out"


@dataclass(frozen=True)
class Content:
    """What a message or job carries."""

    payload: Any = None
    body: bytes | None = None
    key: str | None = None
    headers: dict[str, Any] | None = None


# ---------------------------------------------------------------------------- the log


@dataclass
class Position:
    """Where a group stands in a partition."""

    next_offset: int
    leased_until: datetime | None = None
    lease_token: UUID | None = None
    lease_last_offset: int | None = None


@dataclass
class Partition:
    """All messages ever published to it; those below ``first_offset`` are gone."""

    contents: list[Content] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    first_offset: int = 1

    @property
    def newest(self) -> int:
        return len(self.contents)

    def offset_at(self, time: datetime) -> int:
        available = range(self.first_offset, self.tip + 1)
        return next((n for n in available if self.times[n - 1] >= time), self.tip + 1)


@dataclass
class Group:
    """A consumer group and its position in each partition."""

    out_of_range: str
    positions: list[Position]


@dataclass
class Topic:
    """A topic; ``shortest`` is the shortest retention it ever had."""

    retention: timedelta | None
    shortest: timedelta | None
    partitions: list[Partition]
    groups: dict[str, Group] = field(default_factory=dict)


# ---------------------------------------------------------------------------- the queue


@dataclass
class Waiting:
    """A job that is not finished."""

    job_id: int
    content: Content
    enqueued_at: datetime
    expires_at: datetime | None
    priority: int
    label: str | None
    visible_at: datetime
    attempt: int = 0
    lease_token: UUID | None = None
    last_error: str | None = None


@dataclass
class Ended:
    """A dead letter, or a finished job in the archive."""

    job: Waiting
    attempt: int
    ended_at: datetime
    last_error: str | None
    outcome: str | None = None
    result: Any = None


@dataclass
class Queue:
    """A queue with its settings and jobs, by id."""

    lease: timedelta
    max_attempts: int | None
    delay: timedelta
    retention: timedelta | None
    backoff: timedelta
    backoff_max: timedelta
    archive: bool
    paused: bool = False
    jobs: dict[int, Waiting] = field(default_factory=dict)
    dead: dict[int, Ended] = field(default_factory=dict)
    archived: dict[int, Ended] = field(default_factory=dict)


def _end(moment: datetime, length: timedelta | None) -> datetime | None:
    return None if length is None else moment + length


def _check_message(message: Message | LeasedMessage, number: int, partition: Partition) -> None:
    offset = message.log_offset
    content = Content(message.payload, message.body, message.key, message.headers)
    assert message.partition == number
    assert partition.first_offset <= offset <= partition.tip
    assert content == partition.contents[offset - 1]
    assert message.published_at == partition.times[offset - 1]


@dataclass
class Broker:
    """The model. ``homes`` says to which partition a key belongs, by the number of partitions."""

    now: datetime
    homes: dict[tuple[str, int], int]
    topics: dict[str, Topic] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)

    def _topic(self, topic: str) -> Topic:
        if topic not in self.topics:
            raise UnknownTopic
        return self.topics[topic]

    def _group(self, topic: str, consumer_group: str, partition: int | None) -> Group:
        found = self._topic(topic)
        if consumer_group not in found.groups:
            raise UnknownGroup
        if partition is not None and not 0 <= partition < len(found.partitions):
            raise UnknownPartition
        return found.groups[consumer_group]

    def _queue(self, queue: str) -> Queue:
        if queue not in self.queues:
            raise UnknownQueue
        return self.queues[queue]

    # -- topics and groups ---------------------------------------------------------------------

    def create_topic(
        self, got: Any, topic: str, *, partitions: int, retention: timedelta | None
    ) -> None:
        if topic not in self.topics:
            empty = [Partition() for _ in range(partitions)]
            self.topics[topic] = Topic(retention, retention, empty)
        made = self.topics[topic]
        assert (got.partitions, got.retention) == (len(made.partitions), made.retention)

    def alter_topic(
        self,
        got: Any,
        topic: str,
        *,
        partitions: int,
        retention: timedelta | None,
        no_limit: Sequence[str],
    ) -> None:
        altered = self._topic(topic)
        for _ in range(len(altered.partitions), partitions):
            altered.partitions.append(Partition())
            for group in altered.groups.values():
                group.positions.append(Position(1))
        if "retention" in no_limit:
            altered.retention = None
        elif retention is not None:
            altered.retention = retention
            altered.shortest = min(altered.shortest or retention, retention)
        assert (got.partitions, got.retention) == (len(altered.partitions), altered.retention)

    def drop_topic(self, got: Any, topic: str) -> None:
        self._topic(topic)
        del self.topics[topic]

    def create_group(
        self, got: Any, topic: str, consumer_group: str, *, start: str, out_of_range: str
    ) -> None:
        found = self._topic(topic)
        if consumer_group not in found.groups:
            positions = [
                Position(p.first_offset if start == "earliest" else p.tip + 1)
                for p in found.partitions
            ]
            found.groups[consumer_group] = Group(out_of_range, positions)
        assert got.out_of_range == found.groups[consumer_group].out_of_range

    def drop_group(self, got: Any, topic: str, consumer_group: str) -> None:
        self._group(topic, consumer_group, None)
        del self.topics[topic].groups[consumer_group]

    # -- publishing ----------------------------------------------------------------------------

    def _append(self, partition: Partition, contents: Sequence[Content]) -> None:
        time = max([self.now, *partition.times[-1:]])
        partition.contents.extend(contents)
        partition.times.extend([time] * len(contents))

    def publish(
        self,
        got: MessagePosition,
        topic: str,
        content: Content,
        *,
        partition: int | None,
        held: Collection[int] = (),
    ) -> None:
        found = self._topic(topic)
        count = len(found.partitions)
        if partition is not None and not 0 <= partition < count:
            raise UnknownPartition
        if partition is not None:
            assert got.partition == partition
        elif content.key is not None:
            assert got.partition == self.homes[content.key, count]
        else:
            assert got.partition not in held
        self._append(found.partitions[got.partition], [content])
        assert got.log_offset == found.partitions[got.partition].tip

    def publish_batch(
        self,
        got: list[OffsetRange],
        topic: str,
        contents: Sequence[Content],
        *,
        partition: int | None,
    ) -> None:
        found = self._topic(topic)
        count = len(found.partitions)
        if partition is not None and contents and not 0 <= partition < count:
            raise UnknownPartition
        if not contents:
            assert got == []
            return
        keyed = [self.homes[c.key, count] for c in contents if c.key is not None]
        if partition is not None:
            homes = [partition] * len(contents)
        elif keyed:
            # those without a key follow the first that has one
            homes = [keyed[0] if c.key is None else self.homes[c.key, count] for c in contents]
        else:
            homes = [got[0].partition] * len(contents)
        expected = []
        for number in sorted(set(homes)):
            target = found.partitions[number]
            first = target.tip + 1
            self._append(
                target, [c for c, home in zip(contents, homes, strict=True) if home == number]
            )
            expected.append(OffsetRange(number, first, target.tip))
        assert got == expected, f"{got} instead of {expected}"

    # -- consuming -----------------------------------------------------------------------------

    def _claim(
        self,
        got: OffsetRange | type[Exception] | None,
        topic: str,
        consumer_group: str,
        max_messages: int,
        partition: int | None,
        held: Collection[int],
    ) -> tuple[Group, OffsetRange] | None:
        """The group and the range that it takes; None: nothing to read."""
        group = self._group(topic, consumer_group, partition)
        partitions = self.topics[topic].partitions

        def free(number: int) -> bool:
            position = group.positions[number]
            leased = position.leased_until is not None and position.leased_until > self.now
            return partitions[number].tip >= position.next_offset and not leased

        # of several that have something to read, pgq may take any
        among = range(len(partitions)) if partition is None else [partition]
        candidates = [n for n in among if n not in held and free(n)]
        for number in list(candidates):
            log = partitions[number]
            if group.positions[number].next_offset >= log.first_offset:
                continue
            if group.out_of_range == "error":
                if got is OffsetOutOfRange or len(candidates) == 1:
                    raise OffsetOutOfRange
                candidates.remove(number)
            elif log.first_offset > log.tip:
                # nothing is left in it: pgq may note that when it comes across, see `skipped`
                candidates.remove(number)
                if partition is not None:
                    group.positions[number] = Position(log.first_offset)
        if not candidates:
            assert got is None, f"{got} instead of nothing"
            return None

        assert isinstance(got, OffsetRange), f"{got} instead of one of {candidates}"
        assert got.partition in candidates
        log = partitions[got.partition]
        position = group.positions[got.partition]
        first = max(position.next_offset, log.first_offset)
        expected = OffsetRange(got.partition, first, min(first + max_messages - 1, log.tip))
        assert got == expected, f"{got} instead of {expected}"
        return group, expected

    def skipped(self, topic: str, consumer_group: str, partition: int, position: int) -> None:
        """A group that may skip has moved on in a partition of which nothing is left."""
        group = self.topics[topic].groups[consumer_group]
        log = self.topics[topic].partitions[partition]
        if group.out_of_range == "skip" and log.first_offset > log.tip == position:
            group.positions[partition] = Position(log.first_offset)

    def claim_offsets(
        self,
        got: OffsetRange | None,
        topic: str,
        consumer_group: str,
        *,
        max_messages: int,
        partition: int | None,
        held: Collection[int] = (),
    ) -> None:
        claimed = self._claim(got, topic, consumer_group, max_messages, partition, held)
        if claimed is not None:
            group, taken = claimed
            group.positions[taken.partition] = Position(taken.last_offset + 1)

    def consume(self, got: Any, topic: str, consumer_group: str, **options: Any) -> None:
        taken = self._taken(got, topic)
        self.claim_offsets(taken, topic, consumer_group, **options)

    def _taken(self, got: Any, topic: str) -> Any:
        """The range of the messages returned, which must be in order and without a gap."""
        if not isinstance(got, list) or not got:
            return got or None
        offsets = [message.log_offset for message in got]
        assert offsets == list(range(offsets[0], offsets[0] + len(got)))
        for message in got:
            _check_message(
                message, got[0].partition, self.topics[topic].partitions[got[0].partition]
            )
        return OffsetRange(got[0].partition, offsets[0], offsets[-1])

    def fetch_range(
        self,
        got: list[Message],
        topic: str,
        partition: int,
        first_offset: int,
        last_offset: int,
    ) -> None:
        found = self._topic(topic)
        if not 0 <= partition < len(found.partitions):
            raise UnknownPartition
        log = found.partitions[partition]
        if first_offset > last_offset:
            assert got == []
            return
        if first_offset < log.first_offset or last_offset > log.tip:
            raise OffsetOutOfRange
        assert self._taken(got, topic) == OffsetRange(partition, first_offset, last_offset)

    def fetch(
        self,
        got: list[Message],
        topic: str,
        consumer_group: str,
        *,
        max_messages: int,
        partition: int | None,
    ) -> None:
        group = self._group(topic, consumer_group, partition)
        expected: list[tuple[int, int]] = []
        for number, log in enumerate(self.topics[topic].partitions):
            if partition not in (None, number) or len(expected) == max_messages:
                continue
            first = group.positions[number].next_offset
            if first < log.first_offset:
                if group.out_of_range == "error":
                    raise OffsetOutOfRange
                first = log.first_offset
            expected += [(number, n) for n in range(first, log.tip + 1)]
            expected = expected[:max_messages]
        assert [(m.partition, m.log_offset) for m in got] == expected
        for message in got:
            _check_message(
                message, message.partition, self.topics[topic].partitions[message.partition]
            )

    def poll(
        self,
        got: Any,
        topic: str,
        consumer_group: str,
        *,
        max_messages: int,
        lease: timedelta,
        partition: int | None,
        held: Collection[int] = (),
    ) -> None:
        taken = self._taken(got, topic)
        claimed = self._claim(taken, topic, consumer_group, max_messages, partition, held)
        if claimed is not None:
            (token,) = {message.lease_token for message in got}
            group, leased = claimed
            group.positions[leased.partition] = Position(
                leased.first_offset, self.now + lease, token, leased.last_offset
            )

    def extend_poll(
        self,
        got: bool,
        topic: str,
        consumer_group: str,
        partition: int,
        lease_token: UUID,
        *,
        lease: timedelta,
    ) -> None:
        position = self._group(topic, consumer_group, partition).positions[partition]
        held = position.lease_token == lease_token
        current = held and position.leased_until is not None and position.leased_until > self.now
        assert got is current
        if current:
            position.leased_until = self.now + lease

    def release(
        self, got: bool, topic: str, consumer_group: str, partition: int, lease_token: UUID
    ) -> None:
        positions = self._group(topic, consumer_group, partition).positions
        assert got is (positions[partition].lease_token == lease_token)
        if got:
            positions[partition] = Position(positions[partition].next_offset)

    def commit_offset(
        self,
        got: int,
        topic: str,
        consumer_group: str,
        partition: int,
        last_offset: int,
        *,
        lease_token: UUID | None,
    ) -> None:
        positions = self._group(topic, consumer_group, partition).positions
        position = positions[partition]
        if last_offset > self.topics[topic].partitions[partition].tip:
            raise OffsetOutOfRange
        if last_offset < position.next_offset:
            assert got == position.next_offset - 1
            return
        leased = position.leased_until is not None and position.leased_until > self.now
        if lease_token != position.lease_token and (lease_token is not None or leased):
            raise LeaseLost
        assert got == last_offset
        if lease_token is not None and last_offset < (position.lease_last_offset or 0):
            position.next_offset = last_offset + 1
        else:
            positions[partition] = Position(last_offset + 1)

    def seek(
        self,
        got: list[MessagePosition],
        topic: str,
        consumer_group: str,
        *,
        partition: int | None,
        log_offset: int | None = None,
        published_at: datetime | None = None,
        start: str | None = None,
    ) -> None:
        group = self._group(topic, consumer_group, partition)
        expected = []
        for number, log in enumerate(self.topics[topic].partitions):
            if partition not in (None, number):
                continue
            if log_offset is not None:
                target = log_offset
            elif published_at is not None:
                target = log.offset_at(published_at)
            else:
                target = log.first_offset if start == "earliest" else log.tip + 1
            if not log.first_offset <= target <= log.tip + 1:
                raise OffsetOutOfRange
            expected.append(MessagePosition(number, target))
        assert got == expected, f"{got} instead of {expected}"
        for place in expected:
            group.positions[place.partition] = Position(place.log_offset)

    # -- queues --------------------------------------------------------------------------------

    def create_queue(self, got: Any, queue: str, *, backoff_jitter: float, **settings: Any) -> None:
        if queue in self.queues:
            raise AlreadyExists
        self.queues[queue] = Queue(**settings)
        self._check_queue(got, queue)

    def alter_queue(
        self, got: Any, queue: str, *, no_limit: Sequence[str] = (), **settings: Any
    ) -> None:
        altered = self._queue(queue)
        for name, value in settings.items():
            setattr(altered, name, value)
        for name in no_limit:
            setattr(altered, name, None)
        self._check_queue(got, queue)

    def _check_queue(self, got: Any, queue: str) -> None:
        known = self.queues[queue]
        for name in ("lease", "max_attempts", "delay", "retention", "archive", "paused"):
            assert getattr(got, name) == getattr(known, name)

    def drop_queue(self, got: Any, queue: str) -> None:
        self._queue(queue)
        del self.queues[queue]

    def pause_queue(self, got: Any, queue: str) -> None:
        self._queue(queue).paused = True

    def resume_queue(self, got: Any, queue: str) -> None:
        self._queue(queue).paused = False

    def purge_queue(self, got: int, queue: str, *, dead_only: bool) -> None:
        purged = self._queue(queue)
        assert got == len(purged.dead) + (0 if dead_only else len(purged.jobs))
        purged.dead.clear()
        if not dead_only:
            purged.jobs.clear()

    def enqueue_batch(
        self,
        got: list[int],
        queue: str,
        contents: Sequence[Content],
        *,
        labels: Sequence[str | None],
        priority: int,
        delay: timedelta | None,
    ) -> None:
        target = self._queue(queue)
        assert len(got) == len(contents)
        known = [n for q in self.queues.values() for n in (*q.jobs, *q.dead, *q.archived)]
        assert got == sorted(set(got))
        assert not got or got[0] > max([0, *known])
        for job_id, content, label in zip(got, contents, labels, strict=True):
            target.jobs[job_id] = Waiting(
                job_id=job_id,
                content=content,
                enqueued_at=self.now,
                expires_at=_end(self.now, target.retention),
                priority=priority,
                label=label,
                visible_at=self.now + (target.delay if delay is None else delay),
            )

    def enqueue(
        self, got: int, queue: str, content: Content, *, label: str | None, **options: Any
    ) -> None:
        self.enqueue_batch([got], queue, [content], labels=[label], **options)

    def due(self, queue: Queue, label: str | None = None) -> list[Waiting]:
        """The jobs that a claim may take, in its order."""
        return sorted(
            (
                job
                for job in queue.jobs.values()
                if job.visible_at <= self.now
                and (job.expires_at is None or job.expires_at > self.now)
                and label in (None, job.label)
            ),
            key=lambda job: (job.priority, job.visible_at, job.job_id),
        )

    def claim_job(
        self,
        got: list[Job],
        queue: str,
        *,
        max_jobs: int,
        lease: timedelta | None,
        label: str | None,
        held: Collection[int] = (),
    ) -> set[int]:
        """Returns the ids of all jobs that the claim changed."""
        target = self._queue(queue)
        if target.paused:
            assert got == []
            return set()
        touched: set[int] = set()
        taken: list[Waiting] = []
        while not taken:
            picked = [job for job in self.due(target, label) if job.job_id not in held][:max_jobs]
            if not picked:
                break
            touched |= {job.job_id for job in picked}
            for job in picked:
                if target.max_attempts is not None and job.attempt >= target.max_attempts:
                    self._bury(target, job, LAST_LEASE_RAN_OUT)
                else:
                    taken.append(job)
        assert [job.job_id for job in got] == [job.job_id for job in taken]
        assert len({job.lease_token for job in got}) <= 1
        for job, claimed in zip(taken, got, strict=True):
            job.attempt += 1
            job.visible_at = self.now + (target.lease if lease is None else lease)
            job.lease_token = claimed.lease_token
            assert claimed.attempt == job.attempt
            assert claimed.leased_until == job.visible_at
            assert claimed.enqueued_at == job.enqueued_at
            assert (claimed.priority, claimed.label) == (job.priority, job.label)
            content = Content(claimed.payload, claimed.body, claimed.key, claimed.headers)
            assert content == job.content
        return touched

    def _bury(self, queue: Queue, job: Waiting, error: str | None) -> None:
        assert queue.max_attempts is not None
        del queue.jobs[job.job_id]
        queue.dead[job.job_id] = Ended(
            job, min(job.attempt, queue.max_attempts), self.now, error or job.last_error
        )

    def _held(self, job_ids: Sequence[int], lease_token: UUID) -> Iterator[tuple[Queue, Waiting]]:
        for queue in self.queues.values():
            for job in list(queue.jobs.values()):
                if job.job_id in job_ids and job.lease_token == lease_token:
                    yield queue, job

    def archive_job_batch(
        self,
        got: list[int],
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        outcome: str,
        result: Any,
        always: bool = True,
    ) -> None:
        held = list(self._held(job_ids, lease_token))
        assert sorted(got) == sorted(job.job_id for _, job in held)
        for queue, job in held:
            del queue.jobs[job.job_id]
            if queue.archive or always:
                self._archive(queue, job, outcome, result)

    def _archive(self, queue: Queue, job: Waiting, outcome: str, result: Any = None) -> None:
        queue.archived[job.job_id] = Ended(
            job, job.attempt, self.now, job.last_error, outcome, result
        )

    def ack_batch(self, got: list[int], job_ids: Sequence[int], lease_token: UUID) -> None:
        self.archive_job_batch(
            got, job_ids, lease_token, outcome="acked", result=None, always=False
        )

    def nack_batch(
        self,
        got: list[int],
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        delay: timedelta | None,
        error: str | None,
    ) -> None:
        held = list(self._held(job_ids, lease_token))
        assert sorted(got) == sorted(job.job_id for _, job in held)
        for queue, job in held:
            backoff = min(queue.backoff * 2 ** (job.attempt - 1), queue.backoff_max)
            job.visible_at = self.now + (backoff if delay is None else delay)
            job.lease_token = None
            job.last_error = error or job.last_error
            if queue.max_attempts is not None and job.attempt >= queue.max_attempts:
                # an alter_queue may have lowered the limit below what the job had already
                attempt = job.attempt
                self._bury(queue, job, None)
                queue.dead[job.job_id].attempt = attempt

    def extend_lease_batch(
        self,
        got: list[int],
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        lease: timedelta | None,
    ) -> None:
        held = [
            (queue, job)
            for queue, job in self._held(job_ids, lease_token)
            if job.visible_at > self.now
        ]
        assert sorted(got) == sorted(job.job_id for _, job in held)
        for queue, job in held:
            job.visible_at = self.now + (queue.lease if lease is None else lease)

    def ack(self, got: bool, job_id: int, lease_token: UUID) -> None:
        self.ack_batch([job_id] if got else [], [job_id], lease_token)

    def nack(self, got: bool, job_id: int, lease_token: UUID, **options: Any) -> None:
        self.nack_batch([job_id] if got else [], [job_id], lease_token, **options)

    def archive_job(self, got: bool, job_id: int, lease_token: UUID, **options: Any) -> None:
        self.archive_job_batch([job_id] if got else [], [job_id], lease_token, **options)

    def extend_lease(self, got: bool, job_id: int, lease_token: UUID, **options: Any) -> None:
        self.extend_lease_batch([job_id] if got else [], [job_id], lease_token, **options)

    def redrive(self, got: int, queue: str, *, job_id: int | None) -> None:
        target = self._queue(queue)
        revived = [n for n in target.dead if job_id in (None, n)]
        assert got == len(revived)
        for number in revived:
            letter = target.dead.pop(number)
            job = letter.job
            job.attempt = 0
            job.visible_at = self.now
            job.expires_at = _end(self.now, target.retention)
            job.lease_token = None
            job.last_error = letter.last_error
            target.jobs[number] = job

    # -- operations ----------------------------------------------------------------------------

    def cleanup(self, got: Any) -> None:
        """The jobs; what truncation took is told by :meth:`forget`."""
        for queue in self.queues.values():
            for job in list(queue.jobs.values()):
                lost = job.visible_at <= self.now
                if (
                    job.expires_at is not None
                    and job.expires_at <= self.now
                    and (lost or job.lease_token is None)
                ):
                    del queue.jobs[job.job_id]
                    if queue.archive:
                        self._archive(queue, job, "expired")
                elif lost and queue.max_attempts is not None and job.attempt >= queue.max_attempts:
                    self._bury(queue, job, LAST_LEASE_RAN_OUT)
            if queue.retention is not None:
                for number, letter in list(queue.dead.items()):
                    if letter.ended_at + queue.retention <= self.now:
                        del queue.dead[number]

    def forget(self, topic: str, partition: int, first_offset: int) -> None:
        """Retention has removed the messages below an offset: they must have been old enough."""
        found = self.topics[topic]
        log = found.partitions[partition]
        assert log.first_offset <= first_offset <= log.tip + 1
        for offset in range(log.first_offset, first_offset):
            assert found.shortest is not None
            assert log.times[offset - 1] + found.shortest <= self.now
        log.first_offset = first_offset

    def forget_archived(self, queue: str, left: Collection[int]) -> None:
        """Retention has removed archived jobs: they must have been old enough."""
        target = self.queues[queue]
        for number in set(target.archived) - set(left):
            assert target.retention is not None
            enqueued_at = target.archived[number].job.enqueued_at
            assert enqueued_at + target.retention <= self.now
            del target.archived[number]
