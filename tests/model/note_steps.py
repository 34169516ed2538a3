"""Steps of jobs that come too early, and of those that are made due before their time."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import choices, leases, members, queues, seldom, sizes
from model.queue_steps import QueueSteps
from model.workers import waits

__all__ = ["NoteSteps"]

delays = st.sampled_from(
    [timedelta(0), timedelta(seconds=5), timedelta(seconds=40), timedelta(days=20)]
)


class NoteSteps(QueueSteps):
    """Snoozes and retries, of jobs that wait for whatever it is."""

    @rule(member=members, queue=queues, full=st.booleans(), data=st.data())
    def come_too_early(self, member: int, queue: str, full: bool, data: st.DataObject) -> None:
        """Jobs are snoozed; then some of them are retried, and some wait."""
        for _ in range(data.draw(st.integers(2, 6))):
            if full:
                self.fill_queue(queue)
            size, lease = data.draw(sizes), data.draw(leases)
            got = self.step(member, "claim_job", queue, max_jobs=size, lease=lease, label=None)
            self.note_claim(got)
            for job in got[:2] if isinstance(got, list) else ():
                token = uuid4() if data.draw(seldom) else job.lease_token
                undo = data.draw(seldom)
                later = {"delay": data.draw(delays)}
                self.step(member, "release_job", job.job_id, token, **later, undo=undo)
            if data.draw(st.booleans()):
                self.move_clock(10)
            self.retry_some(member, data.draw(choices), data.draw(seldom))

    @rule(member=members, which=choices, undo=seldom)
    def retry_some(self, member: int, which: int, undo: bool) -> None:
        """One that waits, and any, which may have ended."""
        known = self.broker.queues.values()
        some = sorted(n for each in known for n in (*each.jobs, *each.dead, *each.archived))
        now = self.broker.now
        waiting = sorted(n for each in known for n, job in each.jobs.items() if waits(job, now))
        for numbers in (waiting, some):
            if numbers:
                self.step(member, "retry_job", numbers[which % len(numbers)], undo=undo)
