"""The model's dead letters: what is done to them, and to all jobs of a queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.errors import InvalidParameterValue

from model.content import Content, ends_at
from model.queues import Queue, Queues
from pgq import BulkResult, DeadLetter

__all__ = ["Letters"]


@dataclass
class Letters(Queues):
    """Reading, redriving and purging them."""

    def fetch_dead_letters(
        self,
        got: list[DeadLetter],
        queue: str,
        *,
        max_jobs: int | None,
        after_died_at: datetime | None = None,
        after_job_id: int | None = None,
    ) -> None:
        target = self._queue(queue)
        if (after_died_at is None) is not (after_job_id is None):
            raise InvalidParameterValue
        after = (after_died_at, after_job_id)
        page = [each for each in self._by_death(target) if after_job_id is None or each > after]
        assert [(d.died_at, d.job_id) for d in got] == page[: 100 if max_jobs is None else max_jobs]
        for found in got:
            letter = target.dead[found.job_id]
            assert Content.of(found) == letter.job.content
            assert (found.queue, found.stops_key) == (queue, letter.stops)
            assert (found.attempt, found.last_error) == (letter.attempt, letter.last_error)
            assert (found.priority, found.label) == (letter.job.priority, letter.job.label)

    def _by_death(self, queue: Queue) -> list[tuple[datetime, int]]:
        return sorted((letter.ended_at, number) for number, letter in queue.dead.items())

    def purge_queue(
        self,
        got: BulkResult,
        queue: str,
        *,
        dead_only: bool | None = None,
        all_jobs: bool | None = None,
        died_before: datetime | None = None,
        job_id: int | None = None,
    ) -> None:
        purged = self._queue(queue)
        given = (dead_only or None, all_jobs or None, died_before, job_id)
        if sum(each is not None for each in given) != 1:
            raise InvalidParameterValue
        gone = [
            number
            for died_at, number in self._by_death(purged)
            if job_id in (None, number) and (died_before is None or died_at < died_before)
        ]
        assert got.taken == len(gone) + (len(purged.jobs) if all_jobs else 0)
        assert got.after_id is None
        if all_jobs:
            purged.jobs.clear()
        for number in gone:
            self.remove_letter(purged, number)

    def redrive(
        self,
        got: BulkResult,
        queue: str,
        *,
        job_id: int | None = None,
        all_jobs: bool | None = None,
        max_jobs: int | None = None,
        per_second: float | None = None,
    ) -> None:
        target = self._queue(queue)
        if (job_id is not None) is bool(all_jobs):
            raise InvalidParameterValue
        if job_id is not None and (max_jobs is not None or per_second is not None):
            raise InvalidParameterValue
        holders = target.key_holders()
        chosen = [number for _, number in self._by_death(target) if job_id in (None, number)]
        if max_jobs is not None:
            keys = {number: target.dead[number].job.unique_key or "" for number in chosen}
            chosen = [n for n in chosen if holders.get(keys[n], n) == n][:max_jobs]
        for number in chosen:
            target.free_key(target.dead[number].job.unique_key, self.now)
        holders = target.key_holders()
        stay = set()
        for number in sorted(chosen):
            # a letter stays one while another job has its key
            key = target.dead[number].job.unique_key
            if key is not None and holders.setdefault(key, number) != number:
                stay.add(number)
        revived = [number for number in chosen if number not in stay]
        assert got.taken == len(revived)
        assert got.after_id is None
        apart = timedelta(0) if per_second is None else timedelta(seconds=1 / per_second)
        moments = {number: self.now + place * apart for place, number in enumerate(revived)}
        letters = {number: target.dead.pop(number) for number in revived}
        # those that stopped their key come first
        for number in sorted(revived, key=lambda n: (not letters[n].stops, n)):
            job: Any = letters[number].job
            job.attempt = 0
            job.last_attempt = False
            job.expires_at = ends_at(moments[number], target.job_ttl)
            job.lease_token = None
            job.last_error = letters[number].last_error
            self.place(target, job, moments[number])
