"""Steps of jobs alone: filters, results and duplicates meet more of them here than among all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from model.drawn import MODES, dead_ends, limits, lives
from model.duplicate_steps import DuplicateSteps
from model.filter_steps import FilterSteps
from model.house_steps import HouseSteps
from model.limit_steps import LimitSteps
from model.looking import Looking
from model.note_steps import NoteSteps
from model.result_steps import ResultSteps
from pgq import BulkResult, EnqueueResult, JobAttempt, JobResult

__all__ = ["JobLives"]


class JobLives(
    FilterSteps, ResultSteps, DuplicateSteps, NoteSteps, LimitSteps, HouseSteps, Looking
):
    """``reached``: what answers have told, in all examples."""

    reached: ClassVar[set[str]]

    @initialize(mode=st.sampled_from(MODES), dead_end=dead_ends, keep=lives, limit=limits)
    def begin(
        self, mode: str, dead_end: str | None, keep: timedelta | None, limit: dict[str, Any]
    ) -> None:
        hour = timedelta(hours=1)
        ends: dict[str, Any] = {"unique_until": mode, "after_dead_letter": dead_end}
        self.make_queue("work", 2, keep, hour, ordered=True, **ends, limits={"keep_results": True})
        self.make_queue("mail", 3, timedelta(minutes=10), keep, **ends, limits=limit)

    def step(self, member: int, function: str, /, *arguments: Any, **options: Any) -> Any:
        got = super().step(member, function, *arguments, **options)
        for each in got if isinstance(got, list) else [got]:
            if isinstance(each, BulkResult) and each.taken and not options.get("dry_run"):
                self.reached.add(function)
            elif isinstance(each, JobResult):
                self.reached.add(each.state)
            elif isinstance(each, EnqueueResult) and each.duplicate:
                self.reached.add(f"duplicate {self.broker.queues[arguments[0]].on_duplicate}")
            elif isinstance(each, JobAttempt):
                self.reached.add(f"attempt {each.outcome}")
        return got

    def teardown(self) -> None:
        self.run.bystander.rollback()
        self.look()
        self.look_at_results(0)
