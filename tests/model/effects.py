"""The model's effects of jobs: what is noted of them, and that none of them happens twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.errors import InvalidParameterValue, NullValueNotAllowed

from model.queues import Waiting
from model.schedules import Schedules
from pgq import EffectState, LeaseLost

__all__ = ["Effects", "Noted"]


@dataclass
class Noted:
    """An effect that was begun: by whom it was begun or finished, and its result."""

    lease_token: UUID
    attempt: int
    begun_at: datetime
    finished_at: datetime | None = None
    result: Any = None


@dataclass
class Effects(Schedules):
    """``effects``: by the id of the job and the name. ``running``: what may have happened, as
    somebody was told to do it."""

    effects: dict[tuple[int, str], Noted] = field(default_factory=dict)
    running: set[tuple[int, str]] = field(default_factory=set)

    def _unfinished(self, job_id: int) -> Waiting | None:
        found = [queue.jobs[job_id] for queue in self.queues.values() if job_id in queue.jobs]
        return found[0] if found else None

    def _check_effect(self, job_id: int, lease_token: UUID, effect: str | None) -> None:
        if job_id is None or lease_token is None or effect is None:
            raise NullValueNotAllowed
        if not 1 <= len(effect) <= 255:
            raise InvalidParameterValue

    def _noted(self, job_id: int, lease_token: UUID, effect: str) -> Noted | None:
        """What is noted, for whoever has a say in it: who began it, and who has the job."""
        noted = self.effects.get((job_id, effect))
        job = self._unfinished(job_id)
        holds = job is not None and job.lease_token == lease_token
        return noted if noted is not None and (holds or noted.lease_token == lease_token) else None

    def begin_effect(
        self,
        got: EffectState,
        job_id: int,
        lease_token: UUID,
        effect: str,
        *,
        at_least_once: bool | None,
    ) -> None:
        self._check_effect(job_id, lease_token, effect)
        job = self._unfinished(job_id)
        if job is None or job.lease_token != lease_token or job.visible_at <= self.now:
            raise LeaseLost
        noted = self.effects.get((job_id, effect))
        if noted is None or (noted.finished_at is None and at_least_once):
            noted = Noted(lease_token, job.attempt, self.now)
            self.effects[job_id, effect] = noted
            state = "begun"
            # at most once, unless it was said that it did not happen
            assert at_least_once or (job_id, effect) not in self.running
            self.running.add((job_id, effect))
        else:
            state = "interrupted" if noted.finished_at is None else "finished"
        assert got == EffectState(state, noted.result, noted.attempt, noted.begun_at)

    def finish_effect(
        self, got: bool, job_id: int, lease_token: UUID, effect: str, *, result: Any
    ) -> None:
        self._check_effect(job_id, lease_token, effect)
        noted = self._noted(job_id, lease_token, effect)
        if noted is None:
            assert got is False
        elif noted.finished_at is not None:
            # again
            assert got is (noted.lease_token == lease_token)
        else:
            assert got is True
            noted.lease_token, noted.finished_at = lease_token, self.now
            noted.result = result

    def delete_effect(self, got: bool, job_id: int, lease_token: UUID, effect: str) -> None:
        self._check_effect(job_id, lease_token, effect)
        noted = self._noted(job_id, lease_token, effect)
        assert got is (noted is not None and noted.finished_at is None)
        if got:
            del self.effects[job_id, effect]
            self.running.discard((job_id, effect))

    def clean_effects(self) -> None:
        """They stay as long as their job, as a dead letter too."""
        living = {n for queue in self.queues.values() for n in (*queue.jobs, *queue.dead)}
        self.effects = {place: n for place, n in self.effects.items() if place[0] in living}
