"""Whole lives of schedules: they are made, run, altered, paused, and lose what they write to."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.crons import SEASONS, ZONES
from model.drawn import limited, seldom
from model.looking import Looking
from model.schedule_steps import CONTENTS, CRON_TIMES, PLACES, SCHEDULES, ScheduleSteps

__all__ = ["ScheduleLives"]

# fixed times that the clocks of Berlin skip, or have twice
CHANGED = [
    {"cron": cron, "time_zone": "Europe/Berlin"} for cron in ("30 2 * * *", "0,45 1-3 * * *")
] * 5

OTHER_TIMES: list[dict[str, Any]] = [
    *CRON_TIMES,
    *[{"time_zone": zone} for zone in ZONES] * 10,
    *[{"every": timedelta(hours=1)}] * 5,
    {},
]

numbers = st.lists(st.integers(0, 2**32), min_size=2, max_size=2)


class ScheduleLives(ScheduleSteps, Looking):
    """Schedules alone: among all other steps they rarely come to write something."""

    @initialize(lives=st.tuples(*[numbers] * len(SEASONS)), undo=seldom)
    def begin(self, lives: tuple[list[int], ...], undo: bool) -> None:
        for season, chosen in zip(SEASONS, lives, strict=True):
            # months of ticks would have been missed
            for schedule in list(self.broker.schedules):
                self.step(0, "drop_schedule", schedule)
            self.move_clock((season - self.broker.now) // timedelta(seconds=1))
            self.live(chosen, undo)

    def turn_target(self, member: int, place: dict[str, str], there: bool) -> None:
        """Make or drop it, unless that is done."""
        [(kind, name)] = place.items()
        if there is (name in (self.broker.topics if kind == "topic" else self.broker.queues)):
            return
        if not there:
            self.step(member, f"drop_{kind}", name)
        elif kind == "topic":
            self.step(member, "create_topic", name, partitions=2, **limited(retention=None))
        else:
            options = limited(max_attempts=3, job_ttl=None, retention=None)
            self.step(member, "create_queue", name, **options)

    @rule(numbers=numbers, undo=seldom)
    def live(self, numbers: list[int], undo: bool) -> None:
        """Chosen by numbers, so that few examples are of many kinds."""
        for number in numbers:
            rng = random.Random(number)
            schedule, place = rng.choice(SCHEDULES), rng.choice(PLACES)
            if schedule in self.broker.schedules:
                self.step(0, "drop_schedule", schedule)
            self.turn_target(0, place, True)
            times = rng.choice([*CRON_TIMES, *CHANGED, {"every": timedelta(minutes=7)}])
            missed = rng.choice([*["all"] * 4, "one", "skip", None])
            self.create_schedule(0, schedule, rng.choice(CONTENTS), times, missed, place, undo)
            if undo:
                self.create_schedule(1, schedule, rng.choice(CONTENTS), times, missed, place, False)
            for _ in range(rng.randint(1, 4)):
                if rng.random() < 0.3:
                    self.alter_schedule(1, schedule, rng.choice(OTHER_TIMES), None, undo)
                verb = rng.choice(["pause", "resume", "resume", None, None, None])
                if verb is not None:
                    self.pause_or_drop(1, schedule, verb, undo)
                if rng.random() < 0.3:
                    self.turn_target(1, place, rng.random() < 0.7)
                self.move_clock(rng.choice([20, 600, 1200, 3600, 5000]))
                if undo:
                    self.run_schedules(0, None, True)
                self.run_schedules(1, rng.choice([None, 4]), False)

    def teardown(self) -> None:
        self.look()
