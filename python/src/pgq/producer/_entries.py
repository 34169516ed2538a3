"""What was given to a producer, and how it becomes batches and answers; no input or output."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pgq.messages import PublishBatchResult

__all__ = [
    "Entry",
    "Full",
    "OutcomeUnknown",
    "Place",
    "Published",
    "columns",
    "in_order",
    "is_data",
    "runs",
]


LARGEST = 2**24
"""Bytes of one call: the server takes no more than 1 GB, and has it in memory several times."""


class OutcomeUnknown(psycopg.OperationalError):
    """The connection was lost before the answer: the batch has committed, or it has not.

    A producer with ``idempotent=True`` asks again instead, and nothing is written twice.
    """


class Full(Exception):
    """So much waits to be written that no more is taken: wait for some of the answers."""


@dataclass(slots=True)
class Entry:
    """One message or job, and who waits for it."""

    future: Any
    at: float
    payload: Jsonb | None = None
    body: bytes | None = None
    key: str | None = None
    headers: Jsonb | None = None
    label: str | None = None
    unique_key: str | None = None
    idempotency_key: str | None = None
    generated: bool = False
    """Whether the producer made that key."""
    options: tuple[tuple[str, Any], ...] = ()
    """What is one for a whole batch."""
    marker: bool = False
    """Nothing to write: its answer says that all before it were answered."""

    @property
    def size(self) -> int:
        """About how many bytes it is."""
        texts = (getattr(json, "obj", None) for json in (self.payload, self.headers))
        parts: tuple[Any, ...] = (*texts, self.key, self.body)
        return sum(len(part) for part in parts if hasattr(part, "__len__"))

    @property
    def shape(self) -> tuple[Any, ...]:
        """What the entries of one call have in common."""
        keyed = (self.idempotency_key is not None, self.generated)
        return (self.marker, self.payload is None, *keyed, self.options)


@dataclass(frozen=True, slots=True)
class Published:
    """A message that is written, and where it stands, as far as the producer could learn it."""

    partition: int | None = None
    """None: its batch went to several partitions, or a part of it had been published before, and
    the producer may not ask, or had no connection for it until the `timeout`."""
    log_offset: int | None = None
    """None: as above, or it has none yet."""
    duplicate: bool | None = None
    """Whether it had been published before, and stands there since then; None: as above."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message of some key stands."""

    log_offset: int
    key: str | None


def runs(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Entries that can go into one call, in the order in which they came."""
    for _, run in groupby(entries, key=lambda entry: entry.shape):
        part: list[Entry] = []
        size = 0
        for entry in run:
            size += entry.size
            if part and size > LARGEST:
                yield part
                part, size = [], entry.size
            part.append(entry)
        yield part


def columns(entries: Sequence[Entry], names: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a batch; a list in which nothing is given is left out."""
    lists = {
        argument: [getattr(entry, field) for entry in entries] for field, argument in names.items()
    }
    given = {
        argument: values
        for argument, values in lists.items()
        if any(value is not None for value in values)
    }
    return {**given, **dict(entries[0].options)}


def in_order(
    entries: Sequence[Entry],
    ranges: Sequence[PublishBatchResult],
    places: Mapping[int, Sequence[Place]],
) -> list[Published]:
    """Where each message of a batch stands, if none of them was a duplicate.

    In each partition they stand in the order of the batch. Where there are several partitions,
    `places` says which keys stand where in each.
    """
    partitions = {found.partition for found in ranges}
    if len(partitions) == 1:
        [partition] = partitions
        offsets = iter(_offsets(ranges))
        return [Published(partition, next(offsets, None), False) for _ in entries]
    found: dict[str | None, deque[tuple[int, int]]] = defaultdict(deque)
    for partition, there in sorted(places.items()):
        for place in there:
            found[place.key].append((partition, place.log_offset))
    results = []
    for entry in entries:
        rest = found[entry.key]
        results.append(Published(*rest.popleft(), False) if rest else Published())
    return results


def _offsets(ranges: Sequence[PublishBatchResult]) -> Iterator[int]:
    for found in ranges:
        if found.first_offset is not None and found.last_offset is not None:
            yield from range(found.first_offset, found.last_offset + 1)


def is_data(error: BaseException) -> bool:
    """Whether one of the entries is what the database does not like, rather than all of them."""
    state = getattr(error, "sqlstate", None) or ""
    return (
        state.startswith(("22", "23", "54"))
        or (isinstance(error, psycopg.DataError) and not state)
        or isinstance(error, UnicodeError)
    )
