"""What schedules promise: each tick is written once, and is what was answered."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from explorer.database import Link, Row
from explorer.history import Event, History
from explorer.tick_calls import KEYED_TICKS, TICKS

__all__ = ["check_ticks", "padded"]

STORED = f"""
select
    m.payload ->> 'of' as schedule,
    ((m.headers ->> 'scheduled_at')::timestamptz)::text as tick_at,
    m.place
from (
    select c.payload, c.headers, 'job ' || c.job_id as place
    from pgq.claim_job('{TICKS}', 100000) as c
    union all
    select g.payload, g.headers, g.partition || ':' || g.log_offset
    from pgq.messages as g
    where g.topic = '{TICKS}'
) as m
"""

INTERVALS = {"20 minutes": timedelta(minutes=20), "1 hour": timedelta(hours=1)}


def check_ticks(history: History, link: Link) -> None:
    """Let all that is due be written, and hold what is stored against what was answered."""
    if not history.events("create_schedule"):
        return
    rows = [
        (row, event)
        for event in history.committed("run_schedules")
        for row in event.rows
        if not _was_full(row)
    ]
    _check_twice(history, rows)
    answered = [row for row, _ in rows] + _run_on(history, link)
    for row in answered:
        if row["error"] is not None:
            history.violate("tick refused", str(row))
    # what goes to a queue beside others is looked for there
    own = [row for row in answered if row["schedule"] != KEYED_TICKS]
    expected = Counter((row["schedule"], row["tick_at"], _place(row)) for row in own)
    there = link.rows(f"select from pgq.list_queues() where queue = '{TICKS}'")
    found = link.rows(STORED) if there else []
    stored = Counter((row["schedule"], row["tick_at"], row["place"]) for row in found)
    for tick in expected.keys() | stored.keys():
        if stored[tick] != expected[tick]:
            told = f"{tick} was answered {expected[tick]} times and is there {stored[tick]} times"
            history.violate("tick torn", told)
    _check_gaps(history, answered)


def _was_full(row: Row) -> bool:
    """Whether a queue with a limit had no room, so that the tick is tried again."""
    return row["schedule"] == KEYED_TICKS and str(row["error"]).startswith("MQ010")


def _place(row: Row) -> str:
    if row["job_id"] is not None:
        return f"job {row['job_id']}"
    return f"{row['partition']}:{row['log_offset']}"


def _check_twice(history: History, rows: list[tuple[Row, Event]]) -> None:
    """No tick comes again, unless the schedule was changed between the two."""
    changes = history.committed("alter_schedule", "drop_schedule")
    before: dict[tuple[str, str], Event] = {}
    for row, event in rows:
        first = before.setdefault((row["schedule"], row["tick_at"]), event)
        changed = any(
            change.arguments["schedule"] == row["schedule"]
            and first.order[:2] <= change.order[:2] <= event.order[:2]
            for change in changes
        )
        if first is not event and not changed:
            history.violate("tick twice", f"{row} by {first.statement} and {event.statement}")


def _run_on(history: History, link: Link) -> list[Row]:
    """Write what is due by now, of all schedules."""
    for row in link.rows("select schedule from pgq.list_schedules() where paused"):
        link.rows(f"select pgq.resume_schedule('{row['schedule']}')")
    for row in link.rows("select queue from pgq.list_queues() where max_unfinished is not null"):
        link.rows(f"select pgq.alter_queue('{row['queue']}', no_limit => '{{max_unfinished}}')")
    found: list[Row] = []
    for _ in range(50):
        rows = link.rows("select * from pgq.run_schedules()")
        found += rows
        if not rows:
            break
    for row in link.rows("select * from pgq.list_schedules() where next_at <= pgq._clock()"):
        history.violate("tick stranded", str(row))
    return found


def _check_gaps(history: History, answered: list[Row]) -> None:
    """All ticks of a schedule that was never changed, and makes up for all, are there."""
    created = history.committed("create_schedule")
    changed = {
        event.arguments["schedule"] for event in history.events("alter_schedule", "drop_schedule")
    }
    for name in {event.arguments["schedule"] for event in created} - changed:
        [made, *_] = [e.rows[0] for e in created if e.arguments["schedule"] == name]
        given = next(e.arguments for e in created if e.arguments["schedule"] == name)
        if made["missed"] != "all" or "every" not in given:
            continue
        step = INTERVALS[given["every"]]
        start = datetime.fromisoformat(padded(made["starts_at"]))
        ticks = sorted(
            datetime.fromisoformat(padded(row["tick_at"]))
            for row in answered
            if row["schedule"] == name
        )
        if ticks != [start + step * number for number in range(1, len(ticks) + 1)]:
            history.violate("tick lost", f"{name}: {[str(tick) for tick in ticks]} from {start}")


def padded(text: str) -> str:
    """An offset of hours alone is none for Python."""
    return text + ":00" if text[-3] in "+-" else text
