"""Steps with queues where a duplicate changes the job that waits under its unique key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import LABELS, QUEUES, labels, members, seldom, sizes, uniques
from model.queue_steps import QueueSteps

__all__ = ["DuplicateSteps"]

ways: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        *({"on_duplicate": "replace"}, {"on_duplicate": "replace", "keep_results": True}),
        {"on_duplicate": "postpone"},
        {"on_duplicate": "postpone", "debounce_max": timedelta(seconds=15)},
    ]
)
acts = st.sampled_from(
    [*["enqueue", "batch", "claim"] * 2, *["nack", "release", "lose"] * 2, "ack", "cancel"]
)
waits = st.sampled_from([None, None, timedelta(0), timedelta(seconds=10)])
wishes = st.sampled_from([None, None, None, *LABELS])
# by which the older one comes back while the newer one waits
scripts = st.sampled_from(
    [
        ["enqueue", "claim", "enqueue", "nack"],
        ["enqueue", "claim", "batch", "release"],
        ["enqueue", "claim", "enqueue", "lose", "claim"],
    ]
)
news = st.sampled_from([*["news"] * 4, *QUEUES])


class DuplicateSteps(QueueSteps):
    """Duplicates of jobs that wait, that a worker has, or that come back."""

    @rule(
        member=members,
        queue=news,
        way=ways,
        ordered=st.booleans(),
        ttl=st.sampled_from([None, timedelta(minutes=10)]),
        data=st.data(),
    )
    def write_again(
        self,
        member: int,
        queue: str,
        way: dict[str, Any],
        ordered: bool,
        ttl: timedelta | None,
        data: st.DataObject,
    ) -> None:
        if queue == "news" and queue in self.broker.queues and data.draw(seldom):
            self.step(member, "drop_queue", queue)
        if queue not in self.broker.queues:
            self.make_queue(queue, 3, ttl, None, ordered=ordered, limits=way)
        held: list[tuple[int, Any]] = []
        for what in data.draw(scripts) + data.draw(st.lists(acts, min_size=2, max_size=8)):
            if what in ("enqueue", "batch"):
                keys = ["one", *[data.draw(uniques) for _ in range(2)]]
                delay = data.draw(waits)
                name = [data.draw(labels)] * 3
                turns = ["k" if key else None for key in keys]
                plain = (name, keys, turns, 0, delay, None, what == "enqueue")
                self.enqueue(member, queue, *plain, data.draw(seldom))
            elif what == "claim":
                wanted = {"max_jobs": data.draw(sizes), "label": data.draw(wishes)}
                got = self.step(member, "claim_job", queue, lease=None, **wanted)
                self.note_claim(got)
                if isinstance(got, list):
                    held += [(job.job_id, job.lease_token) for job in got]
            elif what == "lose":
                self.move_clock(31)
            elif held:
                job_id, token = held.pop(0)
                if what == "nack":
                    self.step(member, what, job_id, token, delay=timedelta(0), error="again")
                elif what == "release":
                    self.step(member, "release_job", job_id, token)
                elif what == "ack":
                    self.step(member, what, job_id, token)
                else:
                    self.step(member, "cancel_job", job_id)
            self.move_clock(data.draw(st.sampled_from([0, 0, 1, 12])))
