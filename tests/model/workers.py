"""The model's producers and workers: which jobs a claim gives, and how they end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import InvalidParameterValue

from model.content import Content, ends_at
from model.duplicates import is_outdated, merge
from model.key_limits import Rooms, judge, park, rise
from model.letters import Letters
from model.limits import has_room, most_claims, note_claims
from model.once import Noted, followers, must_be_found
from model.queues import Queue, Waiting
from pgq import EnqueueResult, Job, LeaseLost, QueueFull

__all__ = ["Workers", "waits"]


def waits(job: Waiting, now: datetime) -> bool:
    """Whether it waits for nothing but its time."""
    later = job.lease_token is None and job.due_at is None and job.visible_at > now
    return later and not job.is_over(now)


@dataclass
class Workers(Letters):
    """Jobs one by one, and as batches. ``due_before``: since when those of the last claim were;
    ``left``: the jobs that it has left in the database, and the dead letters."""

    due_before: dict[int, datetime] = field(default_factory=dict)
    rooms: Rooms = field(default_factory=Rooms)
    left: frozenset[int] = frozenset()

    # -- producers -----------------------------------------------------------------------------

    def enqueue_batch(
        self,
        got: list[EnqueueResult],
        queue: str,
        contents: Sequence[Content],
        *,
        labels: Sequence[str | None],
        unique_keys: Sequence[str | None],
        priority: int | None,
        delay: timedelta | None,
        max_attempts: int | None,
        idempotency_keys: Sequence[str | None] | None = None,
    ) -> None:
        target = self._queue(queue)
        if idempotency_keys is not None:
            options = {"priority": priority, "delay": delay, "max_attempts": max_attempts}
            arrays = {"labels": labels, "unique_keys": unique_keys}
            self._enqueue_once(got, queue, contents, idempotency_keys, arrays, options)
            return
        if not has_room(target, self._new_jobs(target, unique_keys), self.now, got):
            raise QueueFull
        for key in unique_keys:
            target.free_key(key, self.now)
        known = [n for q in self.queues.values() for n in (*q.jobs, *q.dead, *q.archived)]
        newest = max([0, *known])
        holders = target.key_holders()
        for added, content, label, key in zip(got, contents, labels, unique_keys, strict=True):
            if key in holders:
                assert added == EnqueueResult(holders[key], duplicate=True)
                if target.on_duplicate != "keep":
                    merge(target, target.jobs[holders[key]], content, delay, self.now)
                continue
            job_id = added.job_id
            assert job_id > newest
            assert not added.duplicate
            newest = job_id
            if key is not None:
                holders[key] = job_id
            job = Waiting(
                job_id=job_id,
                content=content,
                enqueued_at=self.now,
                expires_at=ends_at(self.now, target.job_ttl),
                priority=0 if priority is None else priority,
                label=label,
                visible_at=self.now,
                unique_key=key,
                max_attempts=max_attempts,
                ordered_key=content.key if target.ordered else None,
                is_newest=key is not None,
            )
            if key is not None:
                target.newest[key] = content
            self.place(target, job, self.now + (target.delay if delay is None else delay))

    def _new_jobs(self, target: Queue, unique_keys: Sequence[str | None]) -> int:
        """How many are not duplicates."""
        keys = [key for key in unique_keys if key is not None]
        holders = target.key_holders().items()
        taken = {key for key, holder_id in holders if not target.has_expired(holder_id, self.now)}
        return len(unique_keys) - len(keys) + len(set(keys) - taken)

    def enqueue(
        self,
        got: EnqueueResult,
        queue: str,
        content: Content,
        *,
        label: str | None,
        unique_key: str | None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> None:
        target = self._queue(queue)
        note = target.noted.get(idempotency_key or "")
        if must_be_found(note, self.now):
            assert note is not None
            assert got == note.place
            return
        # a refusal is the same for whatever answer
        added = got if isinstance(got, type) else [got]
        self.enqueue_batch(
            added, queue, [content], labels=[label], unique_keys=[unique_key], **options
        )
        if idempotency_key is not None:
            self._note_job(target, idempotency_key, got.job_id)

    def _note_job(self, target: Queue, idempotency_key: str, job_id: int) -> None:
        place = EnqueueResult(job_id, duplicate=True)
        window = target.idempotency_window
        target.noted[idempotency_key] = Noted.new(self.now, place, window)

    def _enqueue_once(
        self,
        got: list[EnqueueResult],
        queue: str,
        contents: Sequence[Content],
        idempotency_keys: Sequence[str | None],
        arrays: Mapping[str, Sequence[str | None]],
        options: Mapping[str, Any],
    ) -> None:
        target = self._queue(queue)
        leaders = followers(target.noted, idempotency_keys, self.now)
        new = [place for place, leader in enumerate(leaders) if place == leader]
        # a refusal is the same for whatever answer
        added = got if isinstance(got, type) else [got[place] for place in new]
        chosen = {name: [array[place] for place in new] for name, array in arrays.items()}
        some = [contents[place] for place in new]
        self.enqueue_batch(added, queue, some, **chosen, **options)
        for place, leader in enumerate(leaders):
            key = idempotency_keys[place]
            if isinstance(leader, Noted):
                assert got[place] == leader.place
            elif leader != place:
                assert got[place] == EnqueueResult(got[leader].job_id, duplicate=True)
            elif key is not None:
                self._note_job(target, key, got[place].job_id)

    # -- claims --------------------------------------------------------------------------------

    def due(self, queue: Queue, label: str | None = None) -> list[Waiting]:
        """The jobs whose time has come and is not over, in the order of claims."""
        return sorted(
            (
                job
                for job in queue.jobs.values()
                if job.visible_at <= self.now
                and not job.is_over(self.now)
                and label in (None, job.label)
            ),
            key=lambda job: (job.priority, job.visible_at, job.job_id),
        )

    def claim_job(
        self,
        got: list[Job],
        queue: str,
        *,
        max_jobs: int | None,
        lease: timedelta | None,
        label: str | None,
        held: Collection[int] = (),
    ) -> None:
        """Those that had all their attempts are passed over; see `buried`."""
        target = self._queue(queue)
        wanted = most_claims(target, 1 if max_jobs is None else max_jobs, self.now)
        if target.paused:
            wanted = 0
        limited = target.max_leased_per_key is not None and wanted > 0
        holders = self.rooms.holders
        if limited:
            holders |= rise(target, self.rooms, self.now)
        free = self._free(target, label, held)
        if self._end_outdated(target, free[:wanted]):
            free = self._free(target, label, held)
        taken = free[:wanted]
        assert not any(is_outdated(target, job, self.now) for job in taken)
        if limited:
            taken, aside = judge(target, free, holders, label, wanted, self.now)
            for job in aside:
                self.note_lost(target, job)
                park(job)
        note_claims(target, len(taken), self.now)
        assert [job.job_id for job in got] == [job.job_id for job in taken]
        assert len({job.lease_token for job in got}) <= 1
        self.due_before = {job.job_id: job.visible_at for job in taken}
        for job, claimed in zip(taken, got, strict=True):
            self.note_lost(target, job)
            job.attempt += 1
            job.last_attempt = target.is_exhausted(job)
            job.visible_at = self.now + (target.lease if lease is None else lease)
            job.lease_token = claimed.lease_token
            job.lost_lease = job.is_newest = False
            assert claimed.attempt == job.attempt
            assert claimed.leased_until == job.visible_at
            assert claimed.enqueued_at == job.enqueued_at
            assert (claimed.priority, claimed.label) == (job.priority, job.label)
            assert Content.of(claimed) == job.content

    def _free(self, queue: Queue, label: str | None, held: Collection[int]) -> list[Waiting]:
        """Those that a claim can give."""
        return [
            job
            for job in self.due(queue, label)
            if job.job_id not in held and not queue.is_exhausted(job)
        ]

    def _end_outdated(self, queue: Queue, met: Sequence[Waiting]) -> list[Waiting]:
        """A claim that meets one with a lost lease ends it, and maybe others: `left` tells."""
        gone = [
            job
            for job in queue.jobs.values()
            if job.job_id not in self.left
            and job.lease_token is not None
            and job.visible_at <= self.now
            and not job.is_over(self.now)
            and is_outdated(queue, job, self.now)
        ]
        assert not gone or any(job in gone for job in met)
        for job in gone:
            self.note_lost(queue, job)
            self._replace(queue, job)
        return gone

    def _replace(self, queue: Queue, job: Waiting) -> None:
        """What was enqueued last is still to be worked on."""
        assert job.content != queue.newest[job.unique_key or ""]
        self.remove(queue, job)
        self.archive(queue, job, "replaced")

    def finish_and_claim(
        self,
        got: list[Job],
        queue: str,
        *,
        job_ids: Sequence[int],
        lease_token: UUID,
        **options: Any,
    ) -> None:
        if {job.job_id for _, job in self._held(job_ids, lease_token)} != set(job_ids):
            raise LeaseLost
        self._queue(queue)
        self.ack_batch(list(set(job_ids)), job_ids, lease_token)
        self.claim_job(got, queue, **options)

    def _held(self, job_ids: Sequence[int], lease_token: UUID) -> Iterator[tuple[Queue, Waiting]]:
        for queue in self.queues.values():
            for job in list(queue.jobs.values()):
                if job.job_id in job_ids and job.lease_token == lease_token:
                    yield queue, job

    # -- how jobs end --------------------------------------------------------------------------

    def archive_job_batch(
        self,
        got: list[int],
        job_ids: Sequence[int],
        lease_token: UUID,
        *,
        outcome: str | None,
        result: Any,
        always: bool = True,
    ) -> None:
        held = list(self._held(job_ids, lease_token))
        assert sorted(got) == sorted(job.job_id for _, job in held)
        for queue, job in held:
            self.remove(queue, job)
            self.archive(queue, job, outcome or "archived", result, always=always)

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
        worker: str | None = None,
        began_at: datetime | None = None,
        uncounted: int = 0,
    ) -> None:
        held = sorted(self._held(job_ids, lease_token), key=lambda pair: pair[1].job_id)
        assert sorted(got) == [job.job_id for _, job in held]
        for queue, job in held:
            if not uncounted:
                self.note(queue, job, "failed", error=error, worker=worker, began_at=began_at)
            backoff = min(queue.backoff * 2 ** (job.attempt - 1), queue.backoff_max)
            job.visible_at = self.now + (backoff if delay is None else delay)
            job.last_attempt = False
            job.last_error = error or job.last_error
            job.attempt -= uncounted
            if queue.is_exhausted(job):
                job.lease_token = None
                self.bury(queue, job, job.attempt, job.last_error)
                continue
            # with another one that waits under its key it goes on without, or not at all
            if queue.unique_until == "claimed":
                queue.free_key(job.unique_key, self.now)
            if is_outdated(queue, job, self.now):
                self._replace(queue, job)
            elif queue.key_holders().get(job.unique_key or "", job.job_id) != job.job_id:
                job.unique_key = None
            job.lease_token = None

    def release_job_batch(self, got: list[int], job_ids: Sequence[int], lease_token: UUID) -> None:
        self.nack_batch(got, job_ids, lease_token, delay=timedelta(0), error=None, uncounted=1)

    def reject_job(
        self, got: bool, job_id: int, lease_token: UUID, *, error: str | None, **told: Any
    ) -> None:
        held = list(self._held([job_id], lease_token))
        assert got is bool(held)
        for queue, job in held:
            self.note(queue, job, "rejected", error=error, **told)
            self.bury(queue, job, job.attempt, error or job.last_error)

    def cancel_job(self, got: bool, job_id: int) -> None:
        found = [queue for queue in self.queues.values() if job_id in queue.jobs]
        assert got is bool(found)
        for queue in found:
            self.cancel(queue, queue.jobs[job_id])

    def cancel(self, queue: Queue, job: Waiting) -> None:
        self.remove(queue, job)
        self.archive(queue, job, "cancelled")

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
            until = self.now + (queue.lease if lease is None else lease)
            job.visible_at = max(job.visible_at, until)

    def ack(self, got: bool, job_id: int, lease_token: UUID) -> None:
        self.ack_batch([job_id] if got else [], [job_id], lease_token)

    def nack(self, got: bool, job_id: int, lease_token: UUID, **options: Any) -> None:
        self.nack_batch([job_id] if got else [], [job_id], lease_token, **options)

    def release_job(
        self,
        got: bool,
        job_id: int,
        lease_token: UUID,
        *,
        delay: timedelta | None = None,
        error: str | None = None,
    ) -> None:
        if delay is not None:
            for _, job in self._held([job_id], lease_token):
                if job.is_over(self.now + delay):
                    raise InvalidParameterValue
        given = {"delay": delay or timedelta(0), "error": error, "uncounted": 1}
        self.nack_batch([job_id] if got else [], [job_id], lease_token, **given)

    def archive_job(self, got: bool, job_id: int, lease_token: UUID, **options: Any) -> None:
        self.archive_job_batch([job_id] if got else [], [job_id], lease_token, **options)

    def extend_lease(self, got: bool, job_id: int, lease_token: UUID, **options: Any) -> None:
        self.extend_lease_batch([job_id] if got else [], [job_id], lease_token, **options)
