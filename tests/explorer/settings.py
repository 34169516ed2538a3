"""Settings of topics and queues: what was answered last is what is in force."""

from __future__ import annotations

import re

from explorer.database import Link, Row
from explorer.history import History

__all__ = ["check_settings", "kept_for"]

_LENGTH = re.compile(r"(?:(\d+) days?)? ?(?:(\d+):(\d+):(\d+))?")


def kept_for(retention: str | None) -> int | None:
    """The seconds of an interval as PostgreSQL writes it; None: for ever."""
    if retention is None:
        return None
    match = _LENGTH.fullmatch(retention)
    assert match is not None, retention
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def check_settings(history: History, link: Link) -> None:
    """The settings in force are those of the last call that changed them."""
    for what in ("topic", "queue"):
        listed: dict[str, Row] = {
            row[what]: row for row in link.rows(f"select * from pgq.list_{what}s()")
        }
        last: dict[str, tuple[tuple[int, int], Row | None, str]] = {}
        doubtful = set()
        for event in history.committed(f"create_{what}", f"alter_{what}", f"drop_{what}"):
            name = event.arguments[what]
            if event.call.startswith("create") and name in last and last[name][1] is not None:
                continue  # it was there already, and was answered as the snapshot showed it
            when = (event.transaction.ended, event.transaction.place)
            if name in last and last[name][0] == when and when[1]:
                doubtful.add(name)
            row = event.rows[0] if not event.call.startswith("drop") else None
            last[name] = (when, row, event.statement)
        for name, (_, row, statement) in last.items():
            if name in doubtful:
                continue
            found = listed.get(name)
            if _without_time(row) != _without_time(found):
                history.violate("no effect", f"{statement} answered {row}, in force is {found}")
        for name in listed.keys() - last.keys():
            history.violate("ghost", f"{what} {name} was never committed")


def _without_time(row: Row | None) -> Row | None:
    if row is None:
        return None
    return {name: value for name, value in row.items() if name != "updated_at"}
