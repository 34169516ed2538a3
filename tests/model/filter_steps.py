"""Steps with calls that are about the jobs, or the dead letters, that match a filter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import LABELS, members, queues, seldom
from model.queue_steps import QueueSteps

__all__ = ["FilterSteps"]

UNFINISHED = ("cancel_jobs", "retry_jobs")

calls = st.sampled_from([*UNFINISHED, "redrive", "purge_queue"])
errors = st.sampled_from(["timed out", "no answer", "at 100%", None])
texts = st.sampled_from(["timed out", "timed", "no ", "100%", "%", "lease of the last", ""])
aheads = st.sampled_from([-60, -1, 0, 1, 10, 30, 60])
names = st.sampled_from(
    [
        *(["label"], ["error_contains"], ["label", "error_contains"], ["key"], []),
        *(["since"], ["before"], ["since", "before"], ["label", "before"]),
    ]
)


class FilterSteps(QueueSteps):
    """Jobs of some labels fail with some errors, at some times; then calls pick from them."""

    @rule(member=members, queue=queues, data=st.data())
    def pick_jobs(self, member: int, queue: str, data: st.DataObject) -> None:
        self.fill_queue(queue)
        for error in data.draw(st.lists(errors, min_size=1, max_size=3)):
            got = self.step(member, "claim_job", queue, max_jobs=2, lease=None, label=None)
            self.note_claim(got)
            for job in got if isinstance(got, list) else ():
                held = (job.job_id, job.lease_token)
                what = data.draw(st.sampled_from(["nack", "nack", "reject_job", "lease"]))
                if what == "reject_job":
                    self.step(member, what, *held, error=error)
                elif what == "nack":
                    delay = timedelta(seconds=data.draw(st.sampled_from([0, 30, 300])))
                    self.step(member, what, *held, delay=delay, error=error)
            self.move_clock(data.draw(st.sampled_from([1, 1, 40])))
        for _ in range(data.draw(st.integers(2, 6))):
            self.pick(member, queue, data)

    def pick(self, member: int, queue: str, data: st.DataObject) -> None:
        """What one call would do; then it does so, and others go on with its after_id."""
        what = data.draw(calls)
        time = "due" if what in UNFINISHED else "died"
        drawn: dict[str, Any] = {
            "label": data.draw(st.sampled_from(LABELS)),
            "error_contains": data.draw(texts),
            "since": self.broker.now + timedelta(seconds=data.draw(aheads)),
            "before": self.broker.now + timedelta(seconds=data.draw(aheads)),
            "key": "k",
        }
        chosen = data.draw(names)
        given = {f"{time}_{n}" if n in ("since", "before") else n: drawn[n] for n in chosen}
        if not chosen:
            given["all_jobs" if what != "purge_queue" else "dead_only"] = not data.draw(seldom)
        if what == "cancel_jobs":
            given["leased"] = data.draw(st.booleans())
        if what == "redrive":
            given["per_second"] = data.draw(st.sampled_from([None, None, 0.5]))
        given["max_jobs"] = data.draw(st.sampled_from([None, None, 1, 2]))
        known = sorted(n for each in self.broker.queues.values() for n in (*each.jobs, *each.dead))
        given["after_id"] = data.draw(st.sampled_from([None, None, None, 0, 1]))
        if given["after_id"] == 1 and known:
            given["after_id"] = known[len(known) // 2]
        undo, walk = data.draw(seldom), data.draw(st.booleans())
        got = self.step(member, what, queue, **given, dry_run=True)
        if data.draw(st.booleans()):
            return
        got = self.step(member, what, queue, **given, undo=undo)
        self.run.forget_rooms()
        while walk and not undo and not isinstance(got, type) and got.after_id is not None:
            given["after_id"] = got.after_id
            got = self.step(member, what, queue, **given)
            self.run.forget_rooms()
