"""What a group with a dead-letter topic promises one call after the other: where it stands after a
seek, whose lease it is, and which attempt.

Who changes a partition of a group locks it to the end, so what counts is the order of the commits;
nothing is told of what ended too close to be told apart.
"""

from __future__ import annotations

from explorer.check_groups import LONG_LEASE, SLACK
from explorer.history import Event, History

__all__ = ["check_poison_turns", "seeks_of"]

GIVING = ("poll_poison", "consume_poison")
MOVING = (*GIVING, "commit_offset_poison", "nack_offsets_poison", "seek_poison")
"""They may move the position."""
ENDING = ("commit_offset_poison", "nack_offsets_poison", "release_poll_poison", "seek_poison")
"""They may end a lease."""


def seeks_of(history: History) -> dict[int, list[tuple[Event, int]]]:
    """The committed seeks, by partition, and where each went to."""
    found: dict[int, list[tuple[Event, int]]] = {}
    for event in history.committed("seek_poison"):
        for row in event.rows:
            found.setdefault(row["partition"], []).append((event, row["position"]))
    return found


def check_poison_turns(history: History) -> None:
    """Hold what was given in each partition against what was said before."""
    seeks = seeks_of(history)
    events = history.committed()
    partitions = {
        row["partition"]
        for event in events
        if event.call.endswith("_poison")
        for row in event.rows
        if "partition" in row
    }
    for partition in sorted(partitions):
        here = [event for event in events if _concerns(event, partition)]
        given = [e for e in here if e.call in GIVING and e.rows]
        for event, position in seeks.get(partition, ()):
            _check_seek(history, event, position, here, given)
        for event in given:
            if event.call == "poll_poison":
                _check_lease(history, event, here, given)
                _check_attempt(history, event, here, partition)


def _concerns(event: Event, partition: int) -> bool:
    """Whether a call may have done something in a partition."""
    if not event.call.endswith("_poison"):
        return False
    if event.rows and "partition" in event.rows[0]:
        return any(row["partition"] == partition for row in event.rows)
    return event.arguments.get("partition", partition) == partition


def _before(one: Event, other: Event) -> bool:
    """Whether one was certainly first."""
    if one.transaction is other.transaction:
        return one.index < other.index
    return one.order[:2] < other.order[:2]


def _between(events: list[Event], first: Event, last: Event) -> list[Event]:
    """Those that may have been between two others."""
    return [
        e
        for e in events
        if e is not first and e is not last and not _before(e, first) and not _before(last, e)
    ]


def _after(event: Event, given: list[Event]) -> Event | None:
    """What was given next."""
    return next((e for e in given if _before(event, e)), None)


def _check_seek(
    history: History, seek: Event, position: int, here: list[Event], given: list[Event]
) -> None:
    """What is given next begins where the seek went to."""
    then = _after(seek, given)
    if then is None or any(e.call in MOVING for e in _between(here, seek, then)):
        return
    first = then.rows[0]["log_offset"]
    if first != position:
        told = f"{seek.statement} answered {position}, then {then.statement} gave {first}"
        history.violate("no effect", told)


def _check_lease(history: History, poll: Event, here: list[Event], given: list[Event]) -> None:
    """Nobody is given anything while the lease lasts, unless its holder ends it."""
    then = _after(poll, given)
    if then is None:
        return
    until = _until(history, poll)
    for event in _between(here, poll, then):
        if event.call in ENDING or event in given:
            return
        held = event.call == "extend_poll_poison" and event.rows[0]["extend_poll"]
        mine = event.arguments.get("lease_token") == poll.rows[0]["lease_token"]
        if held and mine and _before(event, then):
            until = max(until, _until(history, event))
    _, most = history.clock(then.started, then.ended)
    if most < until:
        history.violate("two leases", f"{then.statement} took what {poll.statement} had leased")


def _until(history: History, event: Event) -> int:
    """Up to when a lease lasts for sure."""
    least, _ = history.clock(event.started, event.ended)
    return least + LONG_LEASE[event.arguments["lease"]] - SLACK


def _check_attempt(history: History, poll: Event, here: list[Event], partition: int) -> None:
    """It is no later attempt than there were since attempts were last forgotten."""
    attempt, first = poll.rows[0]["attempt"], poll.rows[0]["log_offset"]
    if attempt is None:
        return
    forgot = None
    for event in here:
        lifted = event.call == "alter_group_poison" and event.rows[0]["max_attempts"] is None
        if _before(event, poll) and (event.call == "seek_poison" or lifted):
            forgot = event
    tries = [
        e
        for e in here
        if _tried(e, partition, first)
        and not (_before(poll, e) or (forgot is not None and _before(e, forgot)))
    ]
    # who had a lease when the limit was lifted may have lost it since
    most = len(tries) + (forgot is not None and forgot.call == "alter_group_poison")
    if attempt > most:
        told = f"{poll.statement} says that {first} is tried for the {attempt}. time"
        since = "" if forgot is None else f" since {forgot.statement}"
        history.violate("attempts", f"{told}, it was {most} at most{since}")


def _tried(event: Event, partition: int, log_offset: int) -> bool:
    """Whether it counts as an attempt at a message."""
    if event.call == "poll_poison":
        return any(
            (row["partition"], row["log_offset"]) == (partition, log_offset) for row in event.rows
        )
    return (
        event.call == "nack_offsets_poison"
        and event.rows[0]["nack_offsets"] is True
        and event.arguments.get("first_offset", log_offset) == log_offset
        and "first_offset" in event.arguments
    )
