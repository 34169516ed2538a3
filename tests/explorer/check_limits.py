"""What limits of queues promise in the end: no more jobs are leased than was ever allowed.

What they promise on the way there is checked in check_handed_out.
"""

from __future__ import annotations

from explorer.database import Link
from explorer.history import Event, History

__all__ = ["check_limits"]


def check_limits(history: History, link: Link) -> None:
    """Of queues that had a limit from the first; in the end all are lifted."""
    most: dict[str, int] = {}
    for event in history.committed("create_queue"):
        limit = event.arguments.get("max_leased")
        if limit is not None:
            most.setdefault(event.arguments["queue"], limit)
    for event in history.committed("alter_queue"):
        queue = event.arguments["queue"]
        if queue in most:
            most[queue] = max(most[queue], event.arguments.get("max_leased") or 0)
            if "max_leased" in (event.arguments.get("no_limit") or ()):
                del most[queue]
    for event in history.committed("drop_queue"):
        most.pop(event.arguments["queue"], None)
    for row in link.rows(
        "select q.queue, count(*) filter (where j.lease_token is not null"
        " and j.visible_at > pgq._clock()) as leased from pgq.queue as q"
        " inner join pgq.job as j using (queue_id) where q.max_leased is not null group by q.queue"
    ):
        # leases that had run out last again when the clock is set back
        too_many = row["leased"] > most.get(row["queue"], row["leased"])
        if too_many and not history.went_back():
            history.violate("too many leased", f"queue {row['queue']} has {row['leased']}")
    for row in link.rows("select * from pgq.list_queues()"):
        _check_pauses(history, row["queue"])
        if row["paused"]:
            link.rows(f"select pgq.resume_queue('{row['queue']}')")
        if row["max_leased"] is not None or row["rate_limit"] is not None:
            link.rows(
                f"select * from pgq.alter_queue(queue => '{row['queue']}',"
                " no_limit => array['max_leased', 'rate_limit'])"
            )


def _claims(history: History, queue: str) -> list[Event]:
    return [
        event
        for event in history.committed("claim_job", "claim_job_keyed", "finish_and_claim")
        if event.arguments["queue"] == queue
    ]


def _check_pauses(history: History, queue: str) -> None:
    """A claim that began behind a pause gets nothing, until something else comes."""
    others = ("resume_queue", "pause_queue", "create_queue", "drop_queue")
    changes = [e for e in history.committed(*others) if e.arguments["queue"] == queue]
    for event in _claims(history, queue):
        before = [e for e in changes if e.transaction.ended < event.transaction.started]
        beside = [e for e in changes if e not in before and e.started <= event.ended]
        last = before[-1] if before else None
        tied = last is not None and any(e.order[:2] == last.order[:2] for e in before[:-1])
        if event.rows and last is not None and last.call == "pause_queue" and not (beside or tied):
            history.violate("claimed though paused", event.statement)
