"""Steps that move the time, and the housekeeping that goes on in it."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import members, seldom
from model.machine import Machine

__all__ = ["HouseSteps"]


class HouseSteps(Machine):
    """The clock, cleanup, and a transaction that stays open."""

    @rule(by=st.sampled_from([1, 5, 30, 200, 700]))
    def advance_clock(self, by: int) -> None:
        self.move_clock(by)

    @rule(member=members, times=st.sampled_from([1, 1, 3]), undo=seldom)
    def cleanup(self, member: int, times: int, undo: bool) -> None:
        for _ in range(times):
            self.step(member, "cleanup", undo=undo)
            self.observe_retention()

    @rule(by=st.sampled_from([200, 700, 4000]))
    def let_time_pass(self, by: int) -> None:
        """As in a life with regular cleanups: segments are sealed, closed, truncated."""
        for _ in range(3):
            self.cleanup(0, 2, False)
            self.move_clock(by)
        self.cleanup(0, 2, False)

    def observe_retention(self) -> None:
        for row in self.run.clients[0].monitor.topic_stats():
            known = self.broker.topics[row.topic].logs[row.partition]
            if row.first_offset != known.first_offset:
                self.broker.forget(row.topic, row.partition, row.first_offset)
        left: dict[str, set[int]] = {queue: set() for queue in self.broker.queues}
        for job in self.run.clients[0].jobs.archived_jobs():
            left[job.queue].add(job.job_id)
        for queue, job_ids in left.items():
            self.broker.forget_archived(queue, job_ids)
        rows = self.run.connections[0].execute(
            "select q.queue, e.job_id, e.event, e.attempt, e.ended_at from pgq.job_event as e"
            " inner join pgq.queue as q using (queue_id)"
        )
        events = {tuple(row) for row in rows}
        for queue in self.broker.queues:
            self.broker.forget_events(queue, {row[1:] for row in events if row[0] == queue})

    @rule()
    def hold_a_snapshot(self) -> None:
        """Somebody who has looked at queues stays open, or ends: floors and segments must wait."""
        if self.run.bystander.info.transaction_status:
            self.run.bystander.rollback()
        else:
            self.run.bystander.execute("select pg_current_xact_id(), count(*) from pgq.queue")
            self.number += 1
