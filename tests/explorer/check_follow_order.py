"""What an ordered queue that follows topics promises: of each key, one offset after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.check_log import Topic
from explorer.history import History

if TYPE_CHECKING:
    from explorer.check_followers import Delivered

__all__ = ["check_turns"]

Place = tuple[str, int, str]
"""A topic, a partition and a key."""


def check_turns(
    history: History,
    delivered: dict[int, Delivered],
    keys: dict[int, str | None],
    topics: list[Topic],
) -> None:
    """Hold the order in which the jobs of each key were handed out against their offsets."""
    by_place: dict[Place, list[tuple[int, Delivered]]] = {}
    for number, (topic, partition, log_offset) in _offsets(topics).items():
        key = keys.get(number)
        if key is not None and number in delivered:
            place = (topic, partition, key)
            by_place.setdefault(place, []).append((log_offset, delivered[number]))
    for place, found in by_place.items():
        found.sort(key=lambda one: one[0])
        for at, (_, later) in enumerate(found):
            for log_offset, before in found[:at]:
                wrong = _overtaken(before, later)
                if wrong is not None:
                    told = f"message {later.number} of {place}, before offset {log_offset}"
                    history.violate("overtaken", f"{told}: {wrong}")


def _offsets(topics: list[Topic]) -> dict[int, tuple[str, int, int]]:
    """Where messages stand, as is stored or was answered."""
    places = {
        published.number: (topic.name, partition, log_offset)
        for topic in topics
        for (partition, log_offset), published in topic.at.items()
    }
    for topic in topics:
        for partition, held in topic.stored.items():
            for log_offset, number in held.items():
                places[number] = (topic.name, partition, log_offset)
    return places


def _overtaken(before: Delivered, later: Delivered) -> str | None:
    """Who was given a job while the one before it was not over."""
    for claim in later.claims:
        if not any(event.started <= claim.ended for event in before.finished):
            return claim.statement
    if later.drained is None or before.finished:
        return None
    if before.drained is None or before.drained >= later.drained:
        return "the drain"
    return None
