"""The model's dead letters: what is done to them, and to all jobs of a queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.errors import InvalidParameterValue

from model.content import Content, ends_at
from model.filters import Filter, Found
from model.queues import Ended, Queue, Queues
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

    def _find_letters(self, target: Queue, chosen: Filter) -> Found:
        def meant(letter: Ended) -> bool:
            return chosen.matches(letter.job, letter.last_error, letter.ended_at)

        return chosen.find(
            (number, queue is target, queue is target and meant(letter))
            for queue in self.queues.values()
            for number, letter in queue.dead.items()
        )

    def purge_queue(
        self,
        got: BulkResult,
        queue: str,
        *,
        dead_only: bool | None = None,
        all_jobs: bool | None = None,
        job_id: int | None = None,
        dry_run: bool | None = None,
        **filters: Any,
    ) -> None:
        purged = self._queue(queue)
        chosen = Filter.new(purged, **filters)
        walks = bool(dry_run) or chosen.max_jobs is not None or chosen.after_id is not None
        if bool(dead_only) + bool(all_jobs) + (job_id is not None) + chosen.is_given != 1:
            raise InvalidParameterValue
        if walks and (all_jobs or job_id is not None):
            raise InvalidParameterValue
        if walks or chosen.is_given:
            found = self._find_letters(purged, chosen)
            expected = BulkResult(len(found.ids), found.seen, found.after_id)
            gone = found.ids
        else:
            gone = [number for number in purged.dead if job_id in (None, number)]
            removed = len(gone) + (len(purged.jobs) if all_jobs else 0)
            expected = BulkResult(removed, removed, None)
        assert got == expected
        if dry_run:
            return
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
        per_second: float | None = None,
        dry_run: bool | None = None,
        **filters: Any,
    ) -> None:
        target = self._queue(queue)
        chosen = Filter.new(target, **filters)
        walks = bool(dry_run) or chosen.after_id is not None
        if (job_id is not None) + bool(all_jobs) + chosen.is_given != 1:
            raise InvalidParameterValue
        if job_id is not None and (chosen.max_jobs is not None or per_second is not None or walks):
            raise InvalidParameterValue
        holders = target.key_holders()
        numbers = [number for _, number in self._by_death(target) if job_id in (None, number)]
        after_id = None
        if walks or chosen.is_given:
            found = self._find_letters(target, chosen)
            numbers = [number for number in numbers if number in found.ids]
            seen, after_id = found.seen, found.after_id
        else:
            if chosen.max_jobs is not None:
                keys = {number: target.dead[number].job.unique_key or "" for number in numbers}
                numbers = [n for n in numbers if holders.get(keys[n], n) == n][: chosen.max_jobs]
            seen = len(numbers)
        # a letter stays one while another job has its key
        holders = {k: n for k, n in holders.items() if not target.has_expired(n, self.now)}
        stay = set()
        for number in sorted(numbers):
            key = target.dead[number].job.unique_key
            if key is not None and holders.setdefault(key, number) != number:
                stay.add(number)
        revived = [number for number in numbers if number not in stay]
        assert got == BulkResult(len(revived), seen, after_id)
        if not dry_run:
            self._revive(target, numbers, revived, per_second)

    def _revive(
        self, target: Queue, numbers: list[int], revived: list[int], per_second: float | None
    ) -> None:
        for number in numbers:
            target.free_key(target.dead[number].job.unique_key, self.now)
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
            job.is_newest = False
            job.last_error = letters[number].last_error
            self.place(target, job, moments[number])
