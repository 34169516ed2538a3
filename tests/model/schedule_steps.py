"""Steps with schedules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.content import Content
from model.crons import CRONS, ZONES
from model.drawn import TOPICS, members, seldom, topics
from model.machine import Machine

__all__ = ["CONTENTS", "CRON_TIMES", "PLACES", "SCHEDULES", "ScheduleSteps"]

SCHEDULES = ["hourly", "often"]
PLACES = [{"queue": "mail"}, *({"topic": topic} for topic in TOPICS)]
CONTENTS = [Content(payload={"tick": None}, headers={"a": [1]}), Content(body=b"\x00", key="a")]
CRON_TIMES: list[dict[str, Any]] = [
    {"cron": cron, "time_zone": zone} for cron in CRONS for zone in (None, *ZONES)
]

schedules = st.sampled_from(SCHEDULES)
intervals = st.sampled_from([20, 600, 3600]).map(lambda n: timedelta(seconds=n))
zones = st.sampled_from([None, *ZONES])
# how it is said when the ticks are
crons = st.fixed_dictionaries({"cron": st.sampled_from(list(CRONS)), "time_zone": zones})
times: st.SearchStrategy[dict[str, Any]] = st.one_of(
    intervals.map(lambda every: {"every": every}), crons, crons
)
# most of them are refused
odd_times: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"time_zone": "Asia/Kolkata"},
        {"every": timedelta(hours=1), "time_zone": "UTC"},
        {"every": timedelta(hours=1), "cron": "@hourly"},
        {"cron": "0 * * *"},
        {"cron": "@hourly", "time_zone": "Europe/Berln"},
    ]
)
waits = st.sampled_from([20, 600, 3600])
ways = st.sampled_from(["all", "all", "one", "skip", None])
places = st.one_of(st.just({"queue": "mail"}), topics.map(lambda topic: {"topic": topic}))
contents = st.sampled_from(CONTENTS)


class ScheduleSteps(Machine):
    """Schedules, and running them."""

    @rule(
        member=members,
        schedule=schedules,
        content=contents,
        times=st.one_of(times, times, odd_times),
        missed=ways,
        place=places,
        undo=seldom,
    )
    def create_schedule(
        self,
        member: int,
        schedule: str,
        content: Content,
        times: dict[str, Any],
        missed: str | None,
        place: dict[str, str],
        undo: bool,
    ) -> None:
        options = {**times, "missed": missed}
        self.step(
            member,
            "create_schedule",
            schedule,
            **vars(content),
            **options,
            **place,
            undo=undo,
            model=(schedule, content),
            extra={**options, "place": place},
        )

    @rule(
        member=members,
        schedule=schedules,
        times=st.one_of(times, times, odd_times, zones.map(lambda zone: {"time_zone": zone})),
        missed=ways,
        undo=seldom,
    )
    def alter_schedule(
        self, member: int, schedule: str, times: dict[str, Any], missed: str | None, undo: bool
    ) -> None:
        self.step(member, "alter_schedule", schedule, **times, missed=missed, undo=undo)

    @rule(
        member=members,
        schedule=schedules,
        verb=st.sampled_from(["drop", "pause", "resume", "resume"]),
        undo=seldom,
    )
    def pause_or_drop(self, member: int, schedule: str, verb: str, undo: bool) -> None:
        self.step(member, f"{verb}_schedule", schedule, undo=undo)

    @rule(member=members, max_ticks=st.sampled_from([None, None, 4]), undo=seldom)
    def run_schedules(self, member: int, max_ticks: int | None, undo: bool) -> None:
        self.step(member, "run_schedules", max_ticks=max_ticks, undo=undo)

    @rule(by=waits, times=st.sampled_from([1, 3]))
    def let_schedules_run(self, by: int, times: int) -> None:
        """As in a life with regular calls, some of which are late."""
        for _ in range(times):
            self.move_clock(by)
            self.step(0, "run_schedules")
