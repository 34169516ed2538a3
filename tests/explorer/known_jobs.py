"""What the answers tell of the jobs of a queue: who got them, and who finished them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from explorer.check_log import FOREVER, MARGIN, number_of
from explorer.database import Row
from explorer.history import Event, History, Order
from explorer.keyed_calls import KEYED
from explorer.settings import kept_for
from explorer.tick_calls import KEYED_TICKS, TARGET, TICK_KEY, TICK_NUMBERS
from explorer.writes import written_chunks

__all__ = ["Claimed", "Job", "Queue", "note_claims", "note_jobs", "same_id"]


FINISHED: dict[str, Callable[[Event], list[int]]] = {
    "ack": lambda e: [e.arguments["job_id"]] if e.rows[0]["ack"] else [],
    "archive_job": lambda e: [e.arguments["job_id"]] if e.rows[0]["archive_job"] else [],
    "ack_batch": lambda e: [
        row["job_id"] for row in e.rows if row["job_id"] in e.arguments["job_ids"]
    ],
    "archive_job_batch": lambda e: [row["job_id"] for row in e.rows],
    "finish_and_claim": lambda e: e.arguments.get("job_ids") or [],
    "cancel_job": lambda e: [e.arguments["job_id"]] if e.rows[0]["cancel_job"] else [],
}
"""The jobs that a call has finished or cancelled, by its answer."""


@dataclass
class Claimed:
    event: Event
    token: str
    attempt: int
    counts: bool
    """Whether its attempt counts: at first unless it was only prefetched; see check_queue."""


@dataclass
class Job:
    """A committed job, and what became of it."""

    number: int
    event: Event
    job_id: int | None = None
    key: str | None = None
    chunk: Event | None = None
    """Of a bulk write: the call that has written it, which is not always the one that counts."""
    claims: list[Claimed] = field(default_factory=list)
    finished: list[Event] = field(default_factory=list)


@dataclass
class Queue:
    name: str
    history: History
    cut: Order | None
    drained_at: int
    ordered: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)

    def since_cut(self, *calls: str) -> list[Event]:
        return [
            event
            for event in self.history.committed(*calls)
            if event.arguments.get("queue") == self.name
            and (self.cut is None or event.order > self.cut)
        ]

    def may_be_gone(self, job: Job) -> bool:
        """Whether it may have been purged, cancelled beside others, expired, or died long ago."""
        if self.cut is not None and job.event.transaction.started <= self.cut[0]:
            return True  # an enqueue beside a drop goes with the queue that it found
        for event in self.since_cut("purge_queue", "cancel_jobs"):
            if event.transaction.ended >= job.event.transaction.started:
                return True
        history = self.history
        settings = self.since_cut("create_queue", "alter_queue")
        dies = any(e.rows[0]["max_attempts"] is not None for e in settings)
        if job.claims and (dies or history.committed("enqueue_unique", "reject_job")):
            begun = min(claimed.event.started for claimed in job.claims)
            passed = history.passed(begun, history.last_cleanup())
            if passed >= self._shortest("retention", job) - MARGIN:
                return True
        last = history.clock(history.tick, history.tick)[1]
        passed = history.passed(job.event.transaction.started, history.tick)
        passed += self.drained_at - last
        return passed >= self._shortest("job_ttl", job) - MARGIN

    def may_be_out_of_the_archive(self, job: Job) -> bool:
        """Whether retention may have removed by now what became of it."""
        passed = self.history.passed(job.event.started, self.history.last_cleanup())
        return passed >= self._shortest("retention", job) - MARGIN

    def _shortest(self, setting: str, job: Job) -> int:
        """The seconds that were in force when the job came, or are fewer since then."""
        shorter = in_force = FOREVER
        # a later create_queue found the queue, and may have ended after one that changed it
        for event in [*self.since_cut("create_queue")[:1], *self.since_cut("alter_queue")]:
            seconds = kept_for(event.rows[0][setting]) or FOREVER
            if event.transaction.ended <= job.event.transaction.started:
                in_force = seconds
            else:
                shorter = min(shorter, seconds)
        return min(shorter, in_force)


def note_jobs(queue: Queue) -> None:
    calls = ("enqueue", "enqueue_unique", "enqueue_batch", "enqueue_batch_unique", *KEYED)
    for event in queue.since_cut(*calls):
        if len(event.rows) != len(event.numbers):
            queue.history.violate("wrong answer", f"{event.statement}: {event.answer}")
        for number, key, row in zip(event.numbers, _keys(event), event.rows):
            if not row["duplicate"]:
                queue.jobs[number] = Job(number, event, row["job_id"], key)
    for event, chunk in written_chunks(queue.history, "queue", queue.name, queue.cut):
        for number, key in zip(chunk.numbers, _keys(chunk), strict=True):
            queue.jobs[number] = Job(number, event, None, key, chunk)
    if queue.name == TARGET:
        for event in queue.history.committed("run_schedules"):
            for row in event.rows:
                if row["schedule"] == KEYED_TICKS and row["job_id"] is not None:
                    number = TICK_NUMBERS + row["job_id"]
                    queue.jobs[number] = Job(number, event, row["job_id"], TICK_KEY)


def _keys(event: Event) -> list[str | None]:
    """The keys of what a call has written."""
    given = event.arguments
    return given.get("keys") or [given.get("key")] * len(event.numbers)


def note_claims(queue: Queue) -> None:
    by_id = {job.job_id: job for job in queue.jobs.values() if job.job_id is not None}
    for event in queue.since_cut():
        if not (event.rows and {"job_id", "lease_token", "attempt"} <= event.rows[0].keys()):
            continue
        for place, row in enumerate(event.rows):
            number = number_of(row)
            job = queue.jobs.get(number) if number is not None else None
            if job is None:
                kind = "payload lost" if number is None else "ghost"
                queue.history.violate(kind, f"{event.statement} gave {row}")
                continue
            same_id(queue, job, row, event.statement)
            by_id[row["job_id"]] = job
            begun = place == 0 or not event.arguments.get("prefetch")
            job.claims.append(Claimed(event, row["lease_token"], row["attempt"], begun))
    for event in queue.history.committed():
        for job_id in FINISHED[event.call](event) if event.call in FINISHED else ():
            if job_id in by_id:
                by_id[job_id].finished.append(event)


def same_id(queue: Queue, job: Job, row: Row, told: str) -> None:
    if job.job_id is None:
        job.job_id = row["job_id"]
    if job.job_id != row["job_id"]:
        queue.history.violate(
            "wrong content", f"{told} gave job {row['job_id']} what job {job.job_id} holds"
        )
