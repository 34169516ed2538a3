"""Calls of a group with a dead-letter topic, on a topic that nothing else reads or writes.

A name with ``_poison`` behind it is the function without that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from explorer.draw import LEASES, Arguments, Draw
from explorer.registry import call

__all__ = ["DEAD", "POISON", "known_from_poison"]

POISON = "poison"
"""The name of that topic."""

DEAD = "dead"
"""The name of the topic for its dead letters."""

MEMBER: Arguments = {"topic": POISON, "consumer_group": "g"}


def _place(draw: Draw) -> Arguments:
    return {**MEMBER, "max_messages": draw.rng.choice([1, 2, 100])} | (
        {} if draw.some(0.4) else {"partition": draw.rng.choice([0, 0, 0, 1])}
    )


@call("poison", 3)
def publish_poison(draw: Draw) -> Arguments:
    number = draw.number()
    key = draw.rng.choice(["x", "y", "z"])
    return {"topic": POISON, "payload": json.dumps({"n": number}), "key": key, "#": [number]}


@call("poison", 8)
def poll_poison(draw: Draw) -> Arguments:
    return {**_place(draw), "lease": draw.rng.choice(LEASES)}


@call("poison", 4)
def consume_poison(draw: Draw) -> Arguments:
    return _place(draw)


@call("poison", 8)
def nack_offsets_poison(draw: Draw) -> Arguments:
    more = {"delay": "1 minute"} if draw.some(0.1) else {}
    kind = "poison lease" if draw.some(0.7) else "poison range"
    return {"*": draw.late(kind), **more, "error": "no"}


@call("poison", 3)
def commit_offset_poison(draw: Draw) -> Arguments:
    return {"*": draw.late("poison polled")}


@call("poison", 1)
def release_poll_poison(draw: Draw) -> Arguments:
    return {"*": draw.late("poison lease")}


@call("poison", 4)
def seek_poison(draw: Draw) -> Arguments:
    partition = draw.rng.choice([0, 0, 0, 1])
    if draw.some(0.7):
        return {**MEMBER, "partition": partition, "log_offset": draw.rng.choice([1, 1, 2, 3])}
    place = {} if draw.some(0.5) else {"partition": partition}
    return {**MEMBER, **place, "start": draw.rng.choice(["earliest", "latest"])}


@call("poison", 2)
def extend_poll_poison(draw: Draw) -> Arguments:
    return {"*": draw.late("poison lease"), "lease": draw.rng.choice(LEASES[::-1])}


@call("poison", 2)
def alter_group_poison(draw: Draw) -> Arguments:
    if draw.some(0.3):
        return {**MEMBER, "no_limit": ["max_attempts"]}
    more = {"dead_letter_topic": DEAD} if draw.some(0.7) else {}
    return {**MEMBER, "max_attempts": draw.rng.choice([1, 2, 3]), **more}


@call("poison", 1)
def assign_offsets_poison(draw: Draw) -> Arguments:
    return {"topic": draw.rng.choice([POISON, POISON, DEAD])}


def known_from_poison(name: str, rows: list[dict[str, Any]]) -> Iterator[tuple[str, Arguments]]:
    """What an answer lets later calls name."""
    if not rows or name not in ("poll_poison", "consume_poison"):
        return
    place = {**MEMBER, "partition": rows[0]["partition"]}
    first, last = rows[0]["log_offset"], rows[-1]["log_offset"]
    yield "poison range", {**place, "first_offset": first, "last_offset": last}
    if name == "poll_poison":
        lease = {**place, "lease_token": rows[0]["lease_token"]}
        yield "poison lease", lease
        for committed in {first, last}:
            yield "poison polled", {**lease, "committed_offset": committed}
