"""What limits of queues promise: no more jobs are leased than was ever allowed."""

from __future__ import annotations

from explorer.database import Link
from explorer.history import History

__all__ = ["check_limits"]


def check_limits(history: History, link: Link) -> None:
    """Of queues that had a max_leased from the first; in the end it is lifted."""
    most: dict[str, int] = {}
    for event in history.committed("create_queue"):
        limit = event.arguments.get("max_leased")
        if limit is not None:
            most.setdefault(event.arguments["queue"], limit)
    for event in history.committed("alter_queue"):
        queue = event.arguments["queue"]
        if queue in most:
            most[queue] = max(most[queue], event.arguments.get("max_leased") or 0)
    for event in history.committed("drop_queue"):
        most.pop(event.arguments["queue"], None)
    for row in link.rows(
        "select q.queue, count(*) filter (where j.lease_token is not null"
        " and j.visible_at > pgq._clock()) as leased from pgq.queue as q"
        " inner join pgq.job as j using (queue_id) where q.max_leased is not null group by q.queue"
    ):
        if row["leased"] > most.get(row["queue"], row["leased"]):
            history.violate("too many leased", f"queue {row['queue']} has {row['leased']}")
    for queue in most:
        link.ask(
            f"select * from pgq.alter_queue(queue => '{queue}', no_limit => array['max_leased'])"
        )
