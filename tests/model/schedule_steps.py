"""Steps with schedules."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.content import Content
from model.drawn import members, seldom, topics
from model.machine import Machine

__all__ = ["ScheduleSteps"]

schedules = st.sampled_from(["hourly", "often"])
intervals = st.sampled_from([20, 600, 3600]).map(lambda n: timedelta(seconds=n))
ways = st.sampled_from(["all", "all", "one", "skip", None])
places = st.one_of(st.just({"queue": "mail"}), topics.map(lambda topic: {"topic": topic}))
contents = st.sampled_from(
    [Content(payload={"tick": None}, headers={"a": [1]}), Content(body=b"\x00", key="a")]
)


class ScheduleSteps(Machine):
    """Schedules, and running them."""

    @rule(
        member=members,
        schedule=schedules,
        content=contents,
        every=intervals,
        missed=ways,
        place=places,
        undo=seldom,
    )
    def create_schedule(
        self,
        member: int,
        schedule: str,
        content: Content,
        every: timedelta,
        missed: str | None,
        place: dict[str, str],
        undo: bool,
    ) -> None:
        options = {"every": every, "missed": missed}
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
        every=st.one_of(st.none(), intervals),
        missed=ways,
        undo=seldom,
    )
    def alter_schedule(
        self, member: int, schedule: str, every: timedelta | None, missed: str | None, undo: bool
    ) -> None:
        self.step(member, "alter_schedule", schedule, every=every, missed=missed, undo=undo)

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

    @rule(by=st.sampled_from([20, 600, 3600]), times=st.sampled_from([1, 3]))
    def let_schedules_run(self, by: int, times: int) -> None:
        """As in a life with regular calls, some of which are late."""
        for _ in range(times):
            self.move_clock(by)
            self.step(0, "run_schedules")
