"""Random operations on a real database and on the model in memory: both must always agree.

``PGQ_MODEL=long`` runs many more, and others each time; by default it is the same every time.
What a failure prints is the shortest way to it that was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from model.access_steps import AccessLives
from model.crons import SEASONS
from model.drawn import (
    GROUPS,
    MODES,
    QUEUES,
    TOPICS,
    dead_ends,
    late,
    limited,
    limits,
    lives,
    other_topic,
    seldom,
)
from model.effect_steps import EffectSteps
from model.failing_steps import FailingSteps
from model.house_steps import HouseSteps
from model.job_lives import JobLives
from model.limit_steps import LimitSteps
from model.looking import Looking
from model.machine import BEGIN, Run
from model.note_steps import NoteSteps
from model.once_steps import OnceSteps
from model.schedule_lives import ScheduleLives
from model.schedule_steps import ScheduleSteps
from model.subscription_steps import SubscriptionSteps


class Comparison(
    FailingSteps,
    EffectSteps,
    SubscriptionSteps,
    LimitSteps,
    NoteSteps,
    ScheduleSteps,
    OnceSteps,
    HouseSteps,
    Looking,
):
    """All steps, in any order."""

    @initialize(
        season=st.sampled_from(SEASONS),
        first=st.sampled_from([1, 2, 3]),
        keep=lives,
        ttl=lives,
        attempts=st.sampled_from([None, 1, 2, 5]),
        skip=seldom,
        modes=st.tuples(st.sampled_from(MODES), st.sampled_from(MODES)),
        ordered=st.tuples(st.booleans(), st.booleans()),
        dead_end=dead_ends,
        deferred=late,
        limit=limits,
        other=limits,
        tries=st.tuples(*[st.sampled_from([None, 1, 2, 3])] * 2),
    )
    def begin(
        self,
        season: datetime,
        first: int,
        keep: timedelta | None,
        ttl: timedelta | None,
        attempts: int | None,
        skip: bool,
        modes: tuple[str, str],
        ordered: tuple[bool, bool],
        dead_end: str | None,
        deferred: bool | None,
        limit: dict[str, Any],
        other: dict[str, Any],
        tries: tuple[int | None, int | None],
    ) -> None:
        self.move_clock((season - BEGIN) // timedelta(seconds=1))
        ten_minutes = timedelta(minutes=10)
        blue = {"partitions": first, "deferred": deferred, **limited(retention=keep)}
        self.step(0, "create_topic", "blue", **blue)
        self.step(0, "create_topic", "red", partitions=2, retention=ten_minutes)
        for topic, group, most in zip(
            TOPICS * 2, GROUPS + GROUPS[::-1], (*tries, None, None), strict=True
        ):
            out_of_range = "skip" if skip or topic == "red" else None
            settings: dict[str, Any] = {"start": None, "out_of_range": out_of_range}
            if most is not None:
                settings |= {"max_attempts": most, "dead_letter_topic": other_topic(topic)}
            self.step(0, "create_group", topic, group, **settings)
        hour = timedelta(hours=1)
        work, mail = (
            {"unique_until": mode, "ordered": one, "after_dead_letter": dead_end}
            for mode, one in zip(modes, ordered, strict=True)
        )
        self.make_queue("work", attempts, ttl, keep, **work, limits=limit)
        self.make_queue("mail", 3, ten_minutes, hour, archive=False, **mail, limits=other)

    def teardown(self) -> None:
        self.run.bystander.rollback()
        for queue in QUEUES:
            self.claim_all(queue)
        self.look()


@pytest.fixture
def run(dsn: str) -> Iterator[Run]:
    run = Run(dsn)
    yield run
    run.close()


def compare(
    run: Run,
    steps: type[Comparison | ScheduleLives | AccessLives | JobLives],
    examples: int,
    length: int,
) -> None:
    class Machine(steps):  # type: ignore[misc, valid-type]
        pass

    Machine.run = run
    long = os.environ.get("PGQ_MODEL") == "long"
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=1000 if long else examples,
            stateful_step_count=80 if long else length,
            derandomize=not long,
            print_blob=False,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )


def test_database_and_model_agree(run: Run) -> None:
    compare(run, Comparison, 15, 50)


def test_jobs_agree(run: Run) -> None:
    JobLives.reached = set()
    compare(run, JobLives, 12, 30)
    assert JobLives.reached >= {
        *("cancel_jobs", "retry_jobs", "redrive", "purge_queue"),
        *("waiting", "leased", "blocked", "finished", "failed"),
        *("cancelled", "expired", "replaced", "gone"),
        *("duplicate keep", "duplicate replace", "duplicate postpone"),
        *("attempt failed", "attempt rejected", "attempt lost"),
    }


def test_schedules_agree(run: Run) -> None:
    compare(run, ScheduleLives, 6, 2)


def test_access_agrees(run: Run) -> None:
    compare(run, AccessLives, 25, 50)
