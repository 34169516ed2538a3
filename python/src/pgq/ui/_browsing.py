"""Pages of the messages of a topic, older and newer ones, without any group."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from pgq import Client, Message, OffsetOutOfRange
from pgq.messages import PartitionOffsets
from pgq.ui._documents import WHOLE, row
from pgq.ui._query import Query
from pgq.ui._source import Problem

__all__ = ["message", "messages"]

PAGE = 50
BLOCK = 500
"""Messages that are read at a time where only those of one key are wanted."""
LOOKED_AT = 20_000
"""So many messages are looked at for a page, at most; the next one goes on behind them."""


def messages(client: Client, query: Query) -> dict[str, Any]:
    """A page: the newest ones, those before or from some offsets, or from a time on."""
    topic, key = query.text("topic"), query.maybe("key")
    only, at = query.number("partition"), query.moment("at")
    before, since = query.numbers("before"), query.numbers("since")
    places = {
        one.partition: one
        for one in client.bulk.list_offsets(topic, published_at=at)
        if only in (None, one.partition)
    }
    if not places:
        raise Problem(404, f'topic "{topic}" has no partition {only}')
    if at is not None:
        since = {n: int(one.log_offset or one.last_offset + 1) for n, one in places.items()}
    forward = since is not None
    budget = max(LOOKED_AT // len(places), BLOCK)
    starts = (since if forward else before) or {}
    runs = [
        _Run(client, topic, place, starts.get(number), key, forward, budget)
        for number, place in places.items()
    ]
    found = []
    # each partition in its own order, and the partitions by the times of their next messages
    merged = heapq.merge(*runs, key=_time, reverse=not forward)
    for one in merged:
        found.append(one)
        if len(found) == PAGE:
            break
    shown: dict[int, list[int]] = {}
    for one in found:
        shown.setdefault(one.partition, []).append(one.log_offset)
    older, newer = {}, {}
    for run in runs:
        offsets = shown.get(run.partition)
        if len(found) == PAGE:  # what was read and is not shown comes on the next page
            reached = (max(offsets) + 1 if forward else min(offsets)) if offsets else run.start
        else:
            reached = run.reached
        near = run.start
        older[run.partition], newer[run.partition] = (near, reached) if forward else (reached, near)
    if forward:
        found.reverse()
    return {
        "messages": [row(one) for one in found],
        "older": _cursor(older) if any(older[n] > places[n].first_offset for n in older) else None,
        "newer": _cursor(newer) if any(newer[n] <= places[n].last_offset for n in newer) else None,
        "at_end": not forward and before is None,
        "looked_at": sum(run.looked_at for run in runs),
    }


def message(client: Client, query: Query) -> dict[str, Any]:
    """One message, with all of its content."""
    topic, partition = query.text("topic"), query.whole("partition")
    offset = query.whole("log_offset")
    [found] = client.bulk.fetch_range(topic, partition, offset, offset)
    return row(found, WHOLE)


def _time(one: Message) -> Any:
    return one.published_at


def _cursor(places: dict[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(places.items()))


class _Run:
    """The wanted messages of one partition, one after the other, read in blocks."""

    def __init__(
        self,
        client: Client,
        topic: str,
        place: PartitionOffsets,
        start: int | None,
        key: str | None,
        forward: bool,
        budget: int,
    ) -> None:
        self.partition = place.partition
        first, last = place.first_offset, place.last_offset
        if start is None:
            start = first if forward else last + 1
        self.start = min(max(start, first), last + 1)
        self.reached = self.start
        """Up to where it has read: of the offsets that are still to come the nearest one."""
        self._first, self._last = first, last
        self._client, self._topic, self._key = client, topic, key
        self._forward, self._budget = forward, budget
        self.looked_at = 0

    def __iter__(self) -> Iterator[Message]:
        most = PAGE if self._key is None else BLOCK
        while self.looked_at < self._budget:
            if self._forward:
                low, high = self.reached, min(self.reached + most - 1, self._last)
            else:
                low, high = max(self.reached - most, self._first), self.reached - 1
            if low > high:
                return
            try:
                block = self._client.bulk.fetch_range(self._topic, self.partition, low, high)
            except OffsetOutOfRange:  # retention was here meanwhile
                return
            self.looked_at += len(block)
            wanted = [one for one in block if self._key is None or one.key == self._key]
            self.reached = high + 1 if self._forward else low
            yield from wanted if self._forward else reversed(wanted)
