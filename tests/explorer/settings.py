"""Settings of topics, groups, queues and schedules: what was answered last is what is in force."""

from __future__ import annotations

import re
from typing import Any

from explorer.database import Link, Row
from explorer.history import History

__all__ = ["check_settings", "kept_for"]

Name = tuple[str, ...]

NAMES: dict[str, tuple[Any, ...]] = {
    "topic": (("topic",),),
    "queue": (("queue",),),
    "group": (("topic", "consumer_group"), "drop_topic"),
    "schedule": (("schedule",),),
}
"""What names each of them, and what else drops it."""

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
    for what, (named_by, *also_drops) in NAMES.items():
        listed: dict[Name, Row] = {
            tuple(row[part] for part in named_by): row
            for row in link.rows(f"select * from pgq.list_{what}s()")
        }
        last: dict[Name, tuple[tuple[int, int], Row | None, str]] = {}
        doubtful = set()
        made: set[tuple[Name, object]] = set()
        altered = f"alter_{what}", f"alter_{what}_poison"
        calls = (f"create_{what}", *altered, f"drop_{what}", *also_drops)
        for event in history.committed(*calls):
            name = tuple(event.arguments[part] for part in named_by if part in event.arguments)
            if event.call.startswith("create"):
                one = (name, event.rows[0]["created_at"])
                if name in last and (
                    last[name][1] is not None or (one in made and last[name][0][0] > event.ended)
                ):
                    # It was there already, and was answered as the snapshot showed it; a drop may
                    # have been committed between the answer and the commit.
                    continue
                made.add(one)
            when = (event.transaction.ended, event.transaction.place)
            row = event.rows[0] if not event.call.startswith("drop") else None
            # a topic is dropped with all its groups
            concerned = (
                [known for known in last if known[: len(name)] == name] if row is None else []
            )
            for each in concerned or [name]:
                if each in last and last[each][0] == when and when[1]:
                    doubtful.add(each)
                last[each] = (when, row, event.statement)
        for name, (_, row, statement) in last.items():
            if name in doubtful:
                continue
            found = listed.get(name)
            if _without_time(row) != _without_time(found):
                history.violate("no effect", f"{statement} answered {row}, in force is {found}")
        for name in listed.keys() - last.keys():
            history.violate("ghost", f"{what} {name} was never committed")
    _check_partitions_of_groups(history, link)


def _check_partitions_of_groups(history: History, link: Link) -> None:
    """A group reads each partition of its topic, and does the same out of range in all of them."""
    for row in link.rows(
        "select t.topic, g.consumer_group, g.out_of_range, p.partition,"
        " l.out_of_range as in_partition"
        " from pgq.consumer_group as g"
        " inner join pgq.topic as t using (topic_id)"
        " inner join pgq.partition as p using (topic_id)"
        " left join pgq.group_partition as l"
        " on l.group_id = g.group_id and l.partition = p.partition"
        " where l.out_of_range is distinct from g.out_of_range"
    ):
        history.violate("torn group", f"group and partition differ: {row}")


MOVING = {"updated_at", "restricted", "paused", "next_at", "last_at", "last_error"}
"""What other calls change as well."""


def _without_time(row: Row | None) -> Row | None:
    if row is None:
        return None
    return {name: value for name, value in row.items() if name not in MOVING}
