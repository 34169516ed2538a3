"""Workers: who is listed is who has told of himself last, and was not forgotten since."""

from __future__ import annotations

from explorer.database import Link
from explorer.history import Event, History
from explorer.worker_calls import WORKERS

__all__ = ["check_workers"]

DAY = 86400
MARGIN = 5
"""Seconds by which clocks are off."""


def check_workers(history: History, link: Link) -> None:
    """Hold the list against the heartbeats, before the clock is set ahead."""
    listed = {
        row["worker"]: row["running"] for row in link.rows("select * from pgq.list_workers()")
    }
    for worker in WORKERS:
        events = [
            event
            for event in history.committed("heartbeat", "delete_worker")
            if event.arguments["worker"] == worker
            # one that has an older snapshot finds none, and forgets none
            and event.rows[0].get("delete_worker") is not False
        ]
        # of several that end in one tick either may be the last
        last = [event for event in events if _same_time(event, events[-1])]
        running = listed.get(worker)
        beats = {e.arguments["running"] for e in last if e.call == "heartbeat"}
        forgotten = not last or any(e.call == "delete_worker" for e in last)
        if running is None:
            if not forgotten and not all(_may_be_gone(history, event) for event in last):
                history.violate("worker lost", f"{last[-1].statement}, and it is not listed")
        elif running not in beats:
            told = f"{last[-1].statement} was the last" if last else "it was never committed"
            history.violate("worker differs", f"{worker} is listed with {running}: {told}")


def _same_time(event: Event, last: Event) -> bool:
    mine, its = event.transaction, last.transaction
    if mine is its:
        return event is last
    return mine.ended == its.ended


def _may_be_gone(history: History, event: Event) -> bool:
    """Whether a cleanup may have found that it was not seen for a day."""
    until = history.last_cleanup()
    return history.passed(event.started, until) >= DAY - MARGIN
