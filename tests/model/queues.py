"""The model's queues: their settings, and what they hold of jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import InvalidParameterValue

from model.content import Clocked, Content, check_existing, ends_at
from pgq import UnknownQueue

__all__ = ["LAST_LEASE_RAN_OUT", "Ended", "Queue", "Queues", "Waiting"]

LAST_LEASE_RAN_OUT = "the lease of the last attempt ran out"

DEFAULTS: dict[str, Any] = {
    "lease": timedelta(seconds=30),
    "max_attempts": 5,
    "delay": timedelta(0),
    "job_ttl": timedelta(days=14),
    "retention": timedelta(days=14),
    "backoff": timedelta(seconds=1),
    "backoff_max": timedelta(hours=1),
    "backoff_jitter": 0.1,
    "archive": True,
    "notify": False,
    "idempotency_window": timedelta(days=1),
    "unique_until": "finished",
    "ordered": False,
    "after_dead_letter": "continue",
    "max_leased": None,
    "rate_limit": None,
    "rate_interval": None,
    "rate_burst": None,
    "max_unfinished": None,
}


@dataclass
class Waiting:
    """A job that is not finished.

    ``last_attempt``: it was the last one when it was claimed, or has become that since.
    """

    job_id: int
    content: Content
    enqueued_at: datetime
    expires_at: datetime | None
    priority: int
    label: str | None
    visible_at: datetime
    attempt: int = 0
    last_attempt: bool = False
    lease_token: UUID | None = None
    last_error: str | None = None
    unique_key: str | None = None
    max_attempts: int | None = None


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
    """A queue with its settings and jobs, by id.

    ``shortest`` is its shortest retention so far. ``noted``: when an idempotency key was
    given last, and with which job. ``lowered``: its max_attempts was lowered, beside
    that open transaction (0: none), and cleanup has not looked since which jobs have had as many.
    """

    lease: timedelta
    max_attempts: int | None
    delay: timedelta
    job_ttl: timedelta | None
    retention: timedelta | None
    backoff: timedelta
    backoff_max: timedelta
    backoff_jitter: float
    archive: bool
    notify: bool
    idempotency_window: timedelta
    unique_until: str
    ordered: bool
    after_dead_letter: str
    max_leased: int | None
    rate_limit: int | None
    rate_interval: timedelta | None
    rate_burst: int | None
    max_unfinished: int | None
    paused: bool = False
    shortest: timedelta | None = None
    lowered: int | None = None
    jobs: dict[int, Waiting] = field(default_factory=dict)
    dead: dict[int, Ended] = field(default_factory=dict)
    archived: dict[int, Ended] = field(default_factory=dict)
    noted: dict[str, tuple[datetime, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shortest = self.retention

    def is_exhausted(self, job: Waiting) -> bool:
        """Whether it has had all the attempts that it has itself, or that the queue allows."""
        most = self.max_attempts if job.max_attempts is None else job.max_attempts
        return most is not None and job.attempt >= most

    def key_holders(self) -> dict[str, int]:
        """The job that keeps others of its unique key out, of each key that there is."""
        jobs = [
            job
            for job in self.jobs.values()
            if self.unique_until != "claimed" or job.lease_token is None
        ]
        if self.unique_until == "removed":
            jobs += [letter.job for letter in self.dead.values()]
        held = [(job.unique_key, job.job_id) for job in jobs if job.unique_key is not None]
        assert len(dict(held)) == len(held)
        return dict(held)


@dataclass
class Queues(Clocked):
    """Settings, and what is done to all jobs of a queue."""

    queues: dict[str, Queue] = field(default_factory=dict)
    open_transaction: int = 0

    def _queue(self, queue: str) -> Queue:
        if queue not in self.queues:
            raise UnknownQueue
        return self.queues[queue]

    # -- settings ------------------------------------------------------------------------------

    def create_queue(
        self, got: Any, queue: str, *, no_limit: Sequence[str] = (), **given: Any
    ) -> None:
        if queue in self.queues:
            check_existing(self.queues[queue], given, no_limit)
        else:
            chosen = {name: value for name, value in given.items() if value is not None}
            self.queues[queue] = Queue(**{**DEFAULTS, **chosen, **dict.fromkeys(no_limit)})
        self._check_queue(got, queue)

    def alter_queue(
        self, got: Any, queue: str, *, no_limit: Sequence[str] = (), **given: Any
    ) -> None:
        altered = self._queue(queue)
        before = altered.max_attempts
        for name, value in given.items():
            if value is not None:
                setattr(altered, name, value)
        for name in no_limit:
            setattr(altered, name, None)
        if altered.max_attempts is not None and altered.max_attempts < (before or 2**31):
            altered.lowered = self.open_transaction
        if altered.retention is not None:
            altered.shortest = min(altered.shortest or altered.retention, altered.retention)
        self._check_queue(got, queue)

    def _check_queue(self, got: Any, queue: str) -> None:
        known = self.queues[queue]
        for name in (*DEFAULTS, "paused"):
            assert getattr(got, name) == getattr(known, name)

    def drop_queue(self, got: Any, queue: str) -> None:
        self._queue(queue)
        del self.queues[queue]

    def pause_queue(self, got: Any, queue: str) -> None:
        self._queue(queue).paused = True

    def resume_queue(self, got: Any, queue: str) -> None:
        self._queue(queue).paused = False

    # -- all jobs ------------------------------------------------------------------------------

    def purge_queue(
        self, got: int, queue: str, *, dead_only: bool | None = None, all_jobs: bool | None = None
    ) -> None:
        purged = self._queue(queue)
        if bool(dead_only) is bool(all_jobs):
            raise InvalidParameterValue
        assert got == len(purged.dead) + (len(purged.jobs) if all_jobs else 0)
        purged.dead.clear()
        if all_jobs:
            purged.jobs.clear()

    def redrive(
        self, got: int, queue: str, *, job_id: int | None = None, all_jobs: bool | None = None
    ) -> None:
        target = self._queue(queue)
        if (job_id is not None) is bool(all_jobs):
            raise InvalidParameterValue
        holders = target.key_holders()
        revived = []
        for number in sorted(n for n in target.dead if all_jobs or n == job_id):
            # a letter stays one while another job has its key
            key = target.dead[number].job.unique_key
            if key is None or holders.setdefault(key, number) == number:
                revived.append(number)
        assert got == len(revived)
        for number in revived:
            letter = target.dead.pop(number)
            job = letter.job
            job.attempt = 0
            job.last_attempt = False
            job.visible_at = self.now
            job.expires_at = ends_at(self.now, target.job_ttl)
            job.lease_token = None
            job.last_error = letter.last_error
            target.jobs[number] = job

    # -- what the time does --------------------------------------------------------------------

    def clean_jobs(self) -> None:
        """What expires goes; who lost its worker at the last attempt dies; old letters go."""
        for queue in self.queues.values():
            # those that were open then may have claimed by the limit before
            looking = queue.lowered not in (None, self.open_transaction or None)
            for job in list(queue.jobs.values()):
                job.last_attempt |= looking and queue.is_exhausted(job)
                lost = job.visible_at <= self.now
                if (
                    job.expires_at is not None
                    and job.expires_at <= self.now
                    and (lost or job.lease_token is None)
                ):
                    del queue.jobs[job.job_id]
                    if queue.archive:
                        self.archive(queue, job, "expired")
                elif lost and job.last_attempt and queue.is_exhausted(job):
                    self.bury_lost(queue, job)
            if looking:
                queue.lowered = None
            if queue.retention is not None:
                for number, letter in list(queue.dead.items()):
                    if letter.ended_at + queue.retention <= self.now:
                        del queue.dead[number]

    def archive(self, queue: Queue, job: Waiting, outcome: str, result: Any = None) -> None:
        queue.archived[job.job_id] = Ended(
            job, job.attempt, self.now, job.last_error, outcome, result
        )

    def bury(self, queue: Queue, job: Waiting, attempt: int, error: str | None) -> None:
        del queue.jobs[job.job_id]
        queue.dead[job.job_id] = Ended(job, attempt, self.now, error)

    def bury_lost(self, queue: Queue, job: Waiting) -> None:
        """Where its worker did not say what was wrong, what the one before had said stays."""
        error = job.last_error
        if job.lease_token is not None:
            error = error or LAST_LEASE_RAN_OUT
            if not error.endswith(LAST_LEASE_RAN_OUT):
                error = f"{error}\n{LAST_LEASE_RAN_OUT}"
        self.bury(queue, job, job.attempt, error)

    def buried(self, queue: str, job_ids: Collection[int]) -> None:
        """Claims may bury jobs that lost their worker at the last attempt, wherever these stand."""
        target = self.queues[queue]
        for number in job_ids:
            job = target.jobs.get(number)
            if job is not None:
                assert target.is_exhausted(job)
                assert job.visible_at <= self.now
                self.bury_lost(target, job)

    def forget_archived(self, queue: str, left: Collection[int]) -> None:
        """Retention has removed archived jobs: they must have been old enough."""
        target = self.queues[queue]
        for number in set(target.archived) - set(left):
            assert target.shortest is not None
            enqueued_at = target.archived[number].job.enqueued_at
            assert enqueued_at + target.shortest <= self.now
            del target.archived[number]
