"""What a dead-letter topic promises: a message is processed, or is there once, and none is lost."""

from __future__ import annotations

from collections import Counter

from explorer.check_poison_turns import check_poison_turns, seeks_of
from explorer.database import Link
from explorer.history import Event, History
from explorer.poison_calls import DEAD, POISON

__all__ = ["check_poison"]

Place = tuple[int, int]

STORED = f"""
select partition, log_offset, key, payload
from pgq.messages
where topic = '{POISON}'
"""
LETTERS = f"""
select
    (headers ->> 'pgq_partition')::integer as partition,
    (headers ->> 'pgq_offset')::bigint as log_offset,
    (headers ->> 'pgq_attempts')::integer as attempts,
    key,
    payload
from pgq.messages
where topic = '{DEAD}'
"""


def check_poison(history: History, link: Link) -> None:
    """Hold what the dead-letter topic has against what members were given and have said."""
    if not link.rows(f"select from pgq.list_topics() where topic = '{POISON}'"):
        return
    fewest = _fewest_attempts(history)
    seeks = seeks_of(history)
    stored = {(m["partition"], m["log_offset"]): m for m in link.rows(STORED)}
    letters = link.rows(LETTERS)
    dead = Counter((letter["partition"], letter["log_offset"]) for letter in letters)
    consumed, done, tried = _told(history)
    for place, times in consumed.items():
        # each seek back lets it come once more
        if times + dead[place] > 1 + _back(seeks, place):
            history.violate("range given out twice", f"consume gave {place} {times} times")
    for letter in letters:
        place = letter["partition"], letter["log_offset"]
        if dead[place] > 1 + _back(seeks, place):
            history.violate("dead letter twice", f"{place} is there {dead[place]} times")
        if any(letter[part] != stored[place][part] for part in ("key", "payload")):
            history.violate("wrong content", f"{letter} was {stored[place]}")
        if tried[place] < fewest * dead[place] or letter["attempts"] < fewest:
            history.violate("given up early", f"{letter} was tried {tried[place]} times")
    for lag in link.rows(f"select * from pgq.group_lag where topic = '{POISON}'"):
        partition, committed = lag["partition"], lag["committed_offset"]
        for log_offset in range(1, committed + 1):
            place = partition, log_offset
            ahead = any(position > log_offset for _, position in seeks.get(partition, ()))
            if not ahead and place not in consumed and place not in done and place not in dead:
                history.violate("skipped", f"{place} was never processed, nor given up")
        for place in [*dead, *consumed]:
            if place[0] == partition and place[1] > committed and not _back(seeks, place):
                history.violate("range given out twice", f"{place} is ahead of {committed}")
    check_poison_turns(history)
    _drain(history, link, len(stored))


def _fewest_attempts(history: History) -> int:
    """The lowest max_attempts that the group ever had."""
    settings = history.committed("create_group", "alter_group_poison")
    rows = [e.rows[0] for e in settings if e.arguments["topic"] == POISON]
    return min(row["max_attempts"] for row in rows if row["max_attempts"] is not None)


def _back(seeks: dict[int, list[tuple[Event, int]]], place: Place) -> int:
    """How many seeks may have let a message come again."""
    return sum(position <= place[1] for _, position in seeks.get(place[0], ()))


def _told(history: History) -> tuple[Counter[Place], set[Place], Counter[Place]]:
    """What was consumed how often, what was committed by a lease, and how often each was tried."""
    consumed: Counter[Place] = Counter()
    tried: Counter[Place] = Counter()
    given: dict[str, list[Place]] = {}
    done: set[Place] = set()

    def places(event: Event) -> list[Place]:
        return [(row["partition"], row["log_offset"]) for row in event.rows]

    for event in history.committed("consume_poison"):
        consumed.update(places(event))
    for event in history.committed("poll_poison"):
        tried.update(places(event))
        for row in event.rows:
            place = row["partition"], row["log_offset"]
            given.setdefault(row["lease_token"], []).append(place)
    for event in history.committed("commit_offset_poison"):
        last = event.arguments["committed_offset"]
        done |= {p for p in given.get(event.arguments["lease_token"], []) if p[1] <= last}
    for event in history.committed("nack_offsets_poison"):
        if event.rows[0]["nack_offsets"] and "first_offset" in event.arguments:
            span = range(event.arguments["first_offset"], event.arguments["last_offset"] + 1)
            tried.update((event.arguments["partition"], log_offset) for log_offset in span)
    return consumed, done, tried


def _drain(history: History, link: Link, number: int) -> None:
    """In the end the group gets to the end."""
    for _ in range(number + 1):
        if not link.rows(f"select * from pgq.consume('{POISON}', 'g')"):
            break
    for lag in link.rows(f"select * from pgq.group_lag where topic = '{POISON}' and lag > 0"):
        history.violate("stuck", f"there is something left: {lag}")
