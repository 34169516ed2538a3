"""Steps of those who ask what has become of jobs, and which of their attempts went wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import members, queues, seldom
from model.house_steps import HouseSteps
from model.queue_steps import QueueSteps

__all__ = ["ResultSteps"]

ends = st.sampled_from(
    ["ack", "archive_job", "archive_job", "nack", "reject_job", "cancel_job", "lose", "keep"]
)
keeps = st.sampled_from([None, None, True, True, False])


class ResultSteps(QueueSteps, HouseSteps):
    """Jobs end in all ways; meanwhile results are kept, or are not any more."""

    @rule(member=members, queue=queues, keep=keeps, undo=seldom, data=st.data())
    def ask_for_results(
        self, member: int, queue: str, keep: bool | None, undo: bool, data: st.DataObject
    ) -> None:
        if keep is not None:
            self.step(member, "alter_queue", queue, keep_results=keep)
        self.fill_queue(queue)
        for _ in range(data.draw(st.integers(1, 3))):
            got = self.step(member, "claim_job", queue, max_jobs=2, lease=None, label=None)
            self.note_claim(got)
            for job in got if isinstance(got, list) else ():
                self.end(member, job, undo, data)
                for asked in ("get_result", "job_history"):
                    self.step(member, asked, job.job_id)
            self.move_clock(data.draw(st.sampled_from([0, 1, 40, 700])))
            if data.draw(seldom):
                self.cleanup(member, 1, False)

    def end(self, member: int, job: Any, undo: bool, data: st.DataObject) -> None:
        what = data.draw(ends)
        held = (job.job_id, job.lease_token)
        told: dict[str, Any] = {}
        if what in ("nack", "reject_job"):
            told["error"] = data.draw(st.sampled_from([None, "no answer"]))
            told["worker"] = data.draw(st.sampled_from([None, "w1"]))
            told["began_at"] = data.draw(st.sampled_from([None, self.broker.now]))
        if what == "nack":
            told["delay"] = timedelta(0)
        elif what == "archive_job":
            told["outcome"] = None
            told["result"] = data.draw(st.sampled_from([None, 7, {"rows": 3}]))
        if what == "cancel_job":
            self.step(member, what, job.job_id, undo=undo)
        elif what == "lose":
            self.move_clock(31)
        elif what != "keep":
            self.step(member, what, *held, **told, undo=undo)

    @rule(member=members)
    def look_at_results(self, member: int) -> None:
        """Of one that has ended in each way, of some that have not, and of one that never was."""
        known = list(self.broker.queues.values())
        some: dict[Any, int] = {e.event: e.job_id for q in known for e in q.events}
        some |= {job.due_at is None: n for q in known for n, job in q.jobs.items()}
        for job_id in sorted({0, *some.values()}):
            self.step(member, "get_result", job_id)
            self.step(member, "job_history", job_id)
