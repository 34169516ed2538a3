"""What idempotency keys promise: within the window, one key is one job or message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.history import Event, History
from explorer.settings import kept_for

__all__ = ["check_keys", "new_numbers", "published_numbers"]

MARGIN = 60
"""Seconds of a trial that may pass by themselves, and more."""
USUAL = 86400
"""The window of those that were created without one."""

Place = tuple[object, ...]


@dataclass(frozen=True)
class Answer:
    """What a committed call has answered for a key."""

    event: Event
    key: str
    place: Place
    """A job_id, or a partition and an offset."""
    duplicate: bool


def new_numbers(event: Event, size: int) -> list[int]:
    """The messages of a batch that were written, of which the answer says how many are new."""
    keys = event.arguments.get("idempotency_keys") or [None] * len(event.numbers)
    without = sum(key is None for key in keys)
    new: list[int] = []
    seen = size == without  # it was known before
    for number, key in zip(event.numbers, keys, strict=True):
        if key is None or not seen:
            new.append(number)
        seen = seen or key is not None
    return new


def published_numbers(event: Event) -> list[int]:
    """The messages of a publish_batch that were written."""
    rows = [row for row in event.rows if not row["duplicate"]]
    if any(row["first_offset"] is None for row in event.rows):  # as in a deferred topic
        keys = event.arguments.get("idempotency_keys") or [None] * len(event.numbers)
        known = len(rows) < len(event.rows)  # a key stands there once at most
        return [n for n, key in zip(event.numbers, keys) if key is None or not known]
    size = sum(row["last_offset"] - row["first_offset"] + 1 for row in rows)
    numbers = new_numbers(event, size)
    return numbers if len(numbers) == size else []


def check_keys(history: History) -> None:
    """Check the answers for each key of each queue and topic."""
    for what in ("queue", "topic"):
        drops = {e.arguments[what]: e.order for e in history.committed(f"drop_{what}")}
        by_key: dict[tuple[str, str], list[Answer]] = {}
        for event in history.committed("enqueue", "enqueue_batch", "publish", "publish_batch"):
            name = event.arguments.get(what)
            # one beside a drop may have found the one before
            if name is None or (name in drops and event.started <= drops[name][0]):
                continue
            for answer in _answers(event):
                by_key.setdefault((name, answer.key), []).append(answer)
        for (name, _), answers in by_key.items():
            _check_key(history, what, name, answers)


def _answers(event: Event) -> Iterator[Answer]:
    key = event.arguments.get("idempotency_key")
    if key is not None:
        row = dict(event.rows[0])
        duplicate = row.pop("duplicate")
        yield Answer(event, key, tuple(row.values()), duplicate)
        return
    keys = event.arguments.get("idempotency_keys") or []
    if event.call == "enqueue_batch":
        for each, row in zip(keys, event.rows):
            if each is not None:
                yield Answer(event, each, (row["job_id"],), row["duplicate"])
    elif any(keys):
        [each] = {key for key in keys if key is not None}
        for row in event.rows:
            first = (row["partition"], row["first_offset"])
            if row["duplicate"]:
                yield Answer(event, each, first, True)
                continue
            if row["first_offset"] is None:
                if len(event.rows) == 1:
                    yield Answer(event, each, first, False)
                continue
            new = new_numbers(event, row["last_offset"] - row["first_offset"] + 1)
            number = event.numbers[keys.index(each)]
            if number in new:
                place = (row["partition"], row["first_offset"] + new.index(number))
                yield Answer(event, each, place, False)


def _check_key(history: History, what: str, name: str, answers: list[Answer]) -> None:
    windows = [
        kept_for(event.rows[0]["idempotency_window"]) or 0
        for event in history.committed(f"create_{what}", f"alter_{what}")
        if event.arguments[what] == name
    ]
    shortest = min([USUAL, *windows])
    written: list[Answer] = []
    for answer in answers:
        told = f"{answer.event.statement} answered {answer.place}"
        if answer.duplicate:
            # a batch that has a key twice may have written the first of them itself
            itself = answer.event.call.endswith("_batch")
            known = {each.place for each in written}
            if answer.place not in known and not itself:
                history.violate("no original", f"{told}, of {sorted(map(str, known))}")
            continue
        for before in written:
            first = min(before.event.started, answer.event.started)
            passed = history.passed(first, max(before.event.ended, answer.event.ended))
            if passed < shortest - MARGIN:
                history.violate("key twice", f"{told}, and {before.event.statement} {before.place}")
        written.append(answer)
