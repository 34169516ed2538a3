"""The model's queues: their settings, and what they hold of jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from model.content import Clocked, Content, check_existing
from model.once import Noted
from pgq import UnknownQueue

__all__ = ["LAST_LEASE_RAN_OUT", "NEVER", "Ended", "Event", "Queue", "Queues", "Waiting"]

LAST_LEASE_RAN_OUT = "the lease of the last attempt ran out"

NEVER = datetime(9000, 1, 1, tzinfo=timezone.utc)
"""When a job may be claimed that waits for another one of its key."""

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
    "max_leased_per_key": None,
    "max_message_bytes": 1048576,
    "on_duplicate": "keep",
    "debounce_max": None,
    "rate_limit": None,
    "rate_interval": None,
    "rate_burst": None,
    "max_unfinished": None,
    "keep_results": False,
}


@dataclass
class Waiting:
    """A job that is not finished.

    ``last_attempt``: it was the last one when it was claimed, or has become that since.
    ``due_at``: when it may be claimed once it is the first of its ``ordered_key``, or its key has
    room; None: it is, or has. ``lost_lease``: a claim has put it aside when its lease had run out.
    ``source``: the topic whose message it is; None: it was enqueued. ``is_newest``: while it holds
    its ``unique_key``: an enqueue gave it that, or its content.
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
    ordered_key: str | None = None
    due_at: datetime | None = None
    source: Any = None
    lost_lease: bool = False
    is_newest: bool = False

    def is_over(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass
class Ended:
    """A dead letter, or a finished job in the archive. ``stops``: the others of its key wait."""

    job: Waiting
    attempt: int
    ended_at: datetime
    last_error: str | None
    outcome: str | None = None
    result: Any = None
    stops: bool = False


@dataclass
class Event:
    """How an attempt of a job went wrong, or how a job has ended."""

    job_id: int
    event: str
    attempt: int
    ended_at: datetime
    error: str | None = None
    worker: str | None = None
    began_at: datetime | None = None
    result: Any = None


@dataclass
class Queue:
    """A queue with its settings and jobs, by id.

    ``shortest`` is its shortest retention so far. ``noted``: its idempotency keys,
    with the ids of jobs. ``pending``: the jobs of publishes that have no ids yet. ``newest``: what
    was enqueued last with each unique key.
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
    max_leased_per_key: int | None
    max_message_bytes: int
    on_duplicate: str
    debounce_max: timedelta | None
    rate_limit: int | None
    rate_interval: timedelta | None
    rate_burst: int | None
    max_unfinished: int | None
    keep_results: bool
    paused: bool = False
    shortest: timedelta | None = None
    allowance: Any = None
    jobs: dict[int, Waiting] = field(default_factory=dict)
    dead: dict[int, Ended] = field(default_factory=dict)
    archived: dict[int, Ended] = field(default_factory=dict)
    noted: dict[str, Noted] = field(default_factory=dict)
    pending: list[list[Waiting]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    newest: dict[str, Content] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shortest = self.retention

    def is_exhausted(self, job: Waiting) -> bool:
        """Whether it has had all the attempts that it has itself, or that the queue allows."""
        most = self.max_attempts if job.max_attempts is None else job.max_attempts
        return most is not None and job.attempt >= most

    def taken_keys(self) -> set[str]:
        """The ordered keys that have a first job, or a letter that stops them."""
        firsts = [job.ordered_key for job in self.jobs.values() if job.due_at is None]
        stopped = [letter.job.ordered_key for letter in self.dead.values() if letter.stops]
        taken = [key for key in firsts + stopped if key is not None]
        assert len(set(taken)) == len(taken)
        return set(taken)

    def key_holders(self) -> dict[str, int]:
        """The job that keeps others of its unique key out, of each key that there is."""
        jobs = [
            job
            for job in self.jobs.values()
            if self.unique_until != "claimed" or not (job.lease_token or job.lost_lease)
        ]
        if self.unique_until == "removed":
            jobs += [letter.job for letter in self.dead.values()]
        held = [(job.unique_key, job.job_id) for job in jobs if job.unique_key is not None]
        assert len(dict(held)) == len(held)
        return dict(held)

    def has_expired(self, job_id: int, now: datetime) -> bool:
        """Whether it is a job that cleanup may remove, and that gives its key to others."""
        job = self.jobs.get(job_id)
        if job is None or not job.is_over(now):
            return False
        return job.lease_token is None or job.visible_at <= now

    def free_key(self, unique_key: str | None, now: datetime) -> None:
        """Take the key from a job that has expired."""
        holder_id = self.key_holders().get(unique_key or "", 0)
        if self.has_expired(holder_id, now):
            self.jobs[holder_id].unique_key = None


@dataclass
class Queues(Clocked):
    """Settings, and what is done to all jobs of a queue."""

    queues: dict[str, Queue] = field(default_factory=dict)

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
        per_key = altered.max_leased_per_key
        for name, value in given.items():
            if value is not None:
                setattr(altered, name, value)
        for name in no_limit:
            setattr(altered, name, None)
        if altered.rate_limit is None:
            altered.rate_interval = altered.rate_burst = None
        if per_key is not None and altered.max_leased_per_key is None:
            for job in altered.jobs.values():
                if job.due_at is not None:
                    job.visible_at, job.due_at = max(job.due_at, self.now), None
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

    # -- the order of keys ---------------------------------------------------------------------

    def place(self, queue: Queue, job: Waiting, due_at: datetime) -> None:
        """Put a job into its queue, where it waits if another one of its key is there."""
        waits = job.ordered_key is not None and job.ordered_key in queue.taken_keys()
        job.visible_at, job.due_at = (NEVER, due_at) if waits else (due_at, None)
        queue.jobs[job.job_id] = job

    def remove(self, queue: Queue, job: Waiting) -> None:
        """Take a job out of its queue; the next one of its key comes up, unless that is stopped."""
        del queue.jobs[job.job_id]
        if job.ordered_key is not None and job.ordered_key not in queue.taken_keys():
            self.let_next(queue, job.ordered_key)

    def remove_letter(self, queue: Queue, number: int) -> None:
        letter = queue.dead.pop(number)
        if letter.stops and letter.job.ordered_key is not None:
            self.let_next(queue, letter.job.ordered_key)

    def let_next(self, queue: Queue, key: str) -> None:
        """Of those that wait the one that came first; what has expired there goes with it."""
        waiting = sorted(n for n, job in queue.jobs.items() if job.ordered_key == key)
        if waiting and queue.jobs[waiting[0]].is_over(self.now):
            for number in list(waiting):
                if queue.jobs[number].is_over(self.now):
                    self.expire(queue, queue.jobs.pop(number))
                    waiting.remove(number)
        if waiting:
            job = queue.jobs[waiting[0]]
            assert job.due_at is not None
            job.visible_at, job.due_at = max(job.due_at, self.now), None

    # -- what the time does --------------------------------------------------------------------

    def clean_jobs(self) -> None:
        """What expires goes; who lost its worker at the last attempt dies; old letters go."""
        for queue in self.queues.values():
            for job in list(queue.jobs.values()):
                held = job.lease_token is not None and job.visible_at > self.now
                if job.job_id in queue.jobs and job.is_over(self.now) and not held:
                    self.remove(queue, job)
                    self.expire(queue, job)
            for job in list(queue.jobs.values()):
                lost = job.visible_at <= self.now
                if lost and job.last_attempt and queue.is_exhausted(job):
                    self.bury_lost(queue, job)
            if queue.retention is not None:
                for number, letter in list(queue.dead.items()):
                    if letter.ended_at + queue.retention <= self.now:
                        self.remove_letter(queue, number)

    def expire(self, queue: Queue, job: Waiting) -> None:
        self.note_lost(queue, job)
        self.archive(queue, job, "expired")

    def archive(
        self, queue: Queue, job: Waiting, outcome: str, result: Any = None, *, always: bool = False
    ) -> None:
        """Where the settings say so."""
        if queue.archive or always:
            queue.archived[job.job_id] = Ended(
                job, job.attempt, self.now, job.last_error, outcome, result
            )
        if queue.keep_results:
            event = outcome if outcome in ("cancelled", "expired", "replaced") else "finished"
            self.note(queue, job, event, result=result)

    def note(self, queue: Queue, job: Waiting, event: str, **told: Any) -> None:
        queue.events.append(Event(job.job_id, event, job.attempt, self.now, **told))

    def note_lost(self, queue: Queue, job: Waiting) -> None:
        """Whoever takes a job away whose lease has run out notes the attempt."""
        if job.lease_token is not None:
            self.note(queue, job, "lost")

    def bury(self, queue: Queue, job: Waiting, attempt: int, error: str | None) -> None:
        stops = job.ordered_key is not None and queue.after_dead_letter == "stop"
        queue.dead[job.job_id] = Ended(job, attempt, self.now, error, stops=stops)
        self.remove(queue, job)

    def bury_lost(self, queue: Queue, job: Waiting) -> None:
        """Where its worker did not say what was wrong, what the one before had said stays."""
        error = job.last_error
        self.note_lost(queue, job)
        if job.lease_token is not None:
            error = error or LAST_LEASE_RAN_OUT
            if not error.endswith(LAST_LEASE_RAN_OUT):
                error = f"{error}\n{LAST_LEASE_RAN_OUT}"
        self.bury(queue, job, job.attempt, error)

    def vanished(self, queue: str, left: Collection[int]) -> None:
        """Claims remove what has expired where it holds up its key: ordered, or limited."""
        target = self.queues[queue]
        for job in list(target.jobs.values()):
            if job.job_id in left or job.job_id not in target.jobs:
                continue
            if target.ordered and job.due_at is not None:
                continue
            assert target.ordered or target.max_leased_per_key is not None
            assert job.is_over(self.now)
            assert job.due_at is not None or job.visible_at <= self.now
            self.remove(target, job)
            self.expire(target, job)
        assert set(target.jobs) == set(left)

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
            job = target.archived.pop(number).job
            kept = self.shortest_of(target, job)
            assert kept is not None
            assert job.enqueued_at + kept <= self.now

    def forget_events(self, queue: str, left: Collection[tuple[Any, ...]]) -> None:
        """Retention has removed events: they must have been old enough."""
        target = self.queues[queue]
        kept = [e for e in target.events if (e.job_id, e.event, e.attempt, e.ended_at) in left]
        for event in target.events:
            if event not in kept:
                assert target.shortest is not None
                assert event.ended_at + target.shortest <= self.now
        target.events = kept

    def shortest_of(self, queue: Queue, job: Waiting) -> timedelta | None:
        return queue.shortest
