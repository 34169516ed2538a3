"""Random operations on a real database and on the model in memory: both must always agree.

``PGQ_MODEL=long`` runs many more, and others each time; by default it is the same every time.
What a failure prints is the shortest way to it that was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from model.drawn import GROUPS, MODES, TOPICS, limited, lives, seldom
from model.house_steps import HouseSteps
from model.looking import Looking
from model.machine import Run
from model.member_steps import MemberSteps
from model.queue_steps import QueueSteps
from model.schedule_steps import ScheduleSteps


class Comparison(MemberSteps, QueueSteps, ScheduleSteps, HouseSteps, Looking):
    """All steps, in any order."""

    @initialize(
        first=st.sampled_from([1, 2, 3]),
        keep=lives,
        ttl=lives,
        attempts=st.sampled_from([None, 1, 2, 5]),
        skip=seldom,
        modes=st.tuples(st.sampled_from(MODES), st.sampled_from(MODES)),
    )
    def begin(
        self,
        first: int,
        keep: timedelta | None,
        ttl: timedelta | None,
        attempts: int | None,
        skip: bool,
        modes: tuple[str, str],
    ) -> None:
        ten_minutes = timedelta(minutes=10)
        self.step(0, "create_topic", "blue", partitions=first, **limited(retention=keep))
        self.step(0, "create_topic", "red", partitions=2, retention=ten_minutes)
        for topic in TOPICS:
            out_of_range = "skip" if skip or topic == "red" else None
            for group in GROUPS:
                self.step(0, "create_group", topic, group, start=None, out_of_range=out_of_range)
        hour = timedelta(hours=1)
        self.make_queue("work", attempts, ttl, keep, unique_until=modes[0])
        self.make_queue("mail", 3, ten_minutes, hour, archive=False, unique_until=modes[1])

    def teardown(self) -> None:
        self.run.bystander.rollback()
        self.look()


@pytest.fixture
def run(dsn: str) -> Iterator[Run]:
    run = Run(dsn)
    yield run
    run.close()


def test_database_and_model_agree(run: Run) -> None:
    class Machine(Comparison):
        pass

    Machine.run = run
    long = os.environ.get("PGQ_MODEL") == "long"
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=1000 if long else 60,
            stateful_step_count=80 if long else 50,
            derandomize=not long,
            print_blob=False,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
