"""Steps that change the limits of queues, and that look whether any job is held up by one."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.drawn import leases, members, queues, seldom, sizes
from model.key_limits import left_behind
from model.queue_steps import QueueSteps

__all__ = ["LimitSteps"]

ten, twenty = timedelta(seconds=10), timedelta(seconds=20)
changes: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        *({"max_leased_per_key": most} for most in (1, 2, 3)),
        *({"no_limit": ["max_leased_per_key"]} for _ in range(2)),
        *({"max_leased": most} for most in (1, 3)),
        {"max_leased": 4, "max_leased_per_key": 2},
        {"max_unfinished": 8},
        {"rate_limit": 2, "rate_interval": ten, "rate_burst": 3},
        {"rate_limit": 3, "rate_interval": twenty, "rate_burst": 2},
        {"max_leased_per_key": 1, "no_limit": ["max_leased", "rate_limit"]},
        *({"no_limit": [name]} for name in ("max_leased", "rate_limit", "max_unfinished")),
    ]
)


class LimitSteps(QueueSteps):
    """alter_queue of limits while jobs are there."""

    @rule(member=members, queue=queues, change=changes, size=sizes, lease=leases, undo=seldom)
    def alter_limits(
        self,
        member: int,
        queue: str,
        change: dict[str, Any],
        size: int | None,
        lease: timedelta | None,
        undo: bool,
    ) -> None:
        """Beside jobs that are leased, and some that are due."""
        known = self.broker.queues.get(queue)
        if queue == "mail" and "max_unfinished" in change:  # see make_queue
            return
        per_key = "max_leased_per_key" in change
        if known is not None and per_key and (known.ordered or known.on_duplicate != "keep"):
            return
        self.fill_queue(queue)
        got = self.step(member, "claim_job", queue, max_jobs=size, lease=lease, label=None)
        self.note_claim(got)
        self.step(member, "alter_queue", queue, **change, undo=undo)
        self.run.forget_rooms()
        got = self.step(member, "claim_job", queue, max_jobs=size, lease=lease, label=None)
        self.note_claim(got)

    @rule(queue=queues)
    def claim_all(self, queue: str) -> None:
        """Whatever is due and has room in its key is handed out; then all is taken back."""
        known = self.broker.queues.get(queue)
        if known is None or known.max_leased_per_key is None:
            return
        # what others have labels for is looked for again after a second at most
        self.move_clock(2)
        broker, tokens = self.broker, list(self.tokens)
        self.broker = copy.deepcopy(broker)
        connection = self.run.connections[0]
        connection.execute("begin")
        try:
            idle = 0
            while idle < 2:  # the first one may have removed what held a place
                got = self.step(0, "claim_job", queue, max_jobs=1000, lease=None, label=None)
                self.note_claim(got)
                idle = 0 if got else idle + 1
            after = self.broker.queues[queue]
            if after.max_leased is None and after.rate_limit is None:
                assert left_behind(after, self.broker.now) == []
        finally:
            connection.execute("rollback")
            self.broker, self.tokens = broker, tokens
