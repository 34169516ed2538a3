"""What a worker that sleeps is promised: no job is due before the time that it was told."""

from __future__ import annotations

from explorer.database import Link
from explorer.history import History
from explorer.script import written

__all__ = ["check_due"]

MARGIN = 2
"""Seconds that the checks may take."""
NEVER = 5000
"""Seconds for which nothing may be due where no time was told."""

TOLD = """
select q.queue, d.due, q.paused, extract(epoch from d.due - pgq._clock())::integer as seconds,
    j.first_due, d.due is null or d.due > j.first_due as is_late
from pgq.queue as q
cross join lateral (select pgq.next_due(q.queue) as due) as d
cross join lateral (
    select min(k.visible_at) as first_due
    from pgq.job as k
    where k.queue_id = q.queue_id and k.due_at is null
        and k.visible_at < 'infinity'
        and (k.expires_at is null or k.expires_at > greatest(k.visible_at, pgq._clock()))
) as j
where not q.paused
order by q.queue
"""


def check_due(history: History, link: Link) -> None:
    """With all sessions at rest: hold what is told against the jobs, and against a claim."""
    clock = sum(seconds for _, seconds in history.moves)
    for row in link.rows(TOLD):
        queue, due = row["queue"], row["due"]
        if row["first_due"] is not None and row["is_late"]:
            history.violate("sleeps past", f"{queue}: told {due}, due at {row['first_due']}")
            continue
        seconds = NEVER if due is None else min(row["seconds"] - MARGIN, NEVER)
        if seconds <= 0:
            continue
        link.rows("begin")
        link.set_clock(clock + seconds)
        answer = link.ask(f"select job_id from pgq.claim_job({written(queue)}, 100)")
        link.rows("rollback")
        link.set_clock(clock)
        if str(answer):
            history.violate("sleeps past", f"{queue}: told {due}, {seconds} s later {answer}")
