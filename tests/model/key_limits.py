"""The model's max_leased_per_key: which jobs of a key a claim takes, and which it puts aside.

Which jobs that wait come up is the choice of the database, as long as they are the first of their
keys, and as none is left behind where its key has room: see `left_behind`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from model.queues import NEVER, Queue, Waiting

__all__ = ["Rooms", "judge", "left_behind", "park", "rise", "unpark"]


@dataclass(frozen=True)
class Rooms:
    """What no answer tells: which jobs had a place of their keys when a claim began, and since when
    those are due that it has left aside."""

    holders: frozenset[int] = frozenset()
    parked: dict[int, datetime] = field(default_factory=dict)


def _of_key(queue: Queue, key: str) -> list[Waiting]:
    return [job for job in queue.jobs.values() if job.content.key == key]


def _leased(queue: Queue, key: str, now: datetime) -> int:
    return sum(job.lease_token is not None and job.visible_at > now for job in _of_key(queue, key))


def _keys(queue: Queue) -> Iterator[str]:
    yield from {job.content.key for job in queue.jobs.values() if job.content.key is not None}


def unpark(job: Waiting, now: datetime) -> None:
    """It comes to where claims look."""
    assert job.due_at is not None
    job.visible_at, job.due_at = max(job.due_at, now), None


def park(job: Waiting) -> None:
    """It is put aside, and a lease that has run out is over: its key stays with nobody."""
    job.lost_lease |= job.lease_token is not None
    job.visible_at, job.due_at, job.lease_token = NEVER, job.visible_at, None


def rise(queue: Queue, rooms: Rooms, now: datetime) -> set[int]:
    """What has come up to be met by this claim, which then has a place: the first of their keys."""
    assert queue.max_leased_per_key is not None
    up = set()
    for key in _keys(queue):
        waiting = [
            job for job in _of_key(queue, key) if job.due_at is not None and not job.is_over(now)
        ]
        waiting.sort(key=lambda job: (job.priority, job.due_at, job.job_id))
        risen = [job for job in waiting if rooms.parked.get(job.job_id) != job.due_at]
        assert risen == waiting[: len(risen)]
        if all(job.label is None for job in _of_key(queue, key)):
            # where a claim has found nothing among those that came up before, more of them do
            assert not risen or _leased(queue, key, now) < queue.max_leased_per_key
        for job in risen:
            unpark(job, now)
            up.add(job.job_id)
    return up


def judge(
    queue: Queue,
    due: list[Waiting],
    holders: Collection[int],
    label: str | None,
    wanted: int,
    now: datetime,
) -> tuple[list[Waiting], list[Waiting]]:
    """Which of those that are due, in the order of claims, are taken, and which put aside.

    Who has a place of a key comes before others of its priority, if the claim asks for it.
    """
    assert queue.max_leased_per_key is not None
    free = {job.job_id for job in due if job.content.key is None}
    for key in _keys(queue):
        rivals = [
            job
            for job in _of_key(queue, key)
            if job in due
            or (
                job.job_id in holders
                and job.due_at is None
                and job.visible_at <= now
                and not job.is_over(now)
                and label in (None, job.label)
            )
        ]
        rivals.sort(
            key=lambda job: (
                job.priority,
                job.job_id not in holders,
                job.visible_at,
                job.job_id,
            )
        )
        room = max(queue.max_leased_per_key - _leased(queue, key, now), 0)
        free |= {job.job_id for job in rivals[:room]}
    taken: list[Waiting] = []
    aside = []
    for job in due:
        if len(taken) == wanted:
            break
        (taken if job.job_id in free else aside).append(job)
    return taken, aside


def left_behind(queue: Queue, now: datetime) -> list[int]:
    """Jobs that are due, with room in their keys, when claims have got nothing more."""
    assert queue.max_leased_per_key is not None
    return [
        job.job_id
        for job in queue.jobs.values()
        if (job.due_at or job.visible_at) <= now
        and not job.is_over(now)
        and not queue.is_exhausted(job)
        and (
            job.content.key is None
            or _leased(queue, job.content.key, now) < queue.max_leased_per_key
        )
    ]
