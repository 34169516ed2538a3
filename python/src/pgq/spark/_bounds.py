"""Where a read begins and where it ends: the one grammar of it, for batches and streams.

A bound is ``earliest``, ``latest``, a time, or an offset for each partition, where -2 stands for
the earliest and -1 for the latest one. Spark's options are texts; there offsets are JSON as Kafka's
source takes it, ``{"readings": {"0": 15, "1": -2}}``, and a time is milliseconds since 1970. What a
bound means in the topic as it is, is found in ``_positions``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

__all__ = [
    "CREATED",
    "EARLIEST",
    "FROM",
    "ID",
    "LATEST",
    "SHARDS",
    "Bound",
    "Moment",
    "Where",
    "moment",
    "refused",
    "taken_away",
]

Where = str | datetime | Mapping[int, int]
"""A bound as it is written in Python: a word or JSON, a time, or an offset for each partition."""

Moment = datetime | Mapping[int, datetime]
"""A time for all partitions, or for each."""

EARLIEST, LATEST = -2, -1

ID, FROM = "@id", "@from"
"""Names in the JSON of a stream's position; as a bound it is taken as well."""

SHARDS, CREATED = "@shards", "@created"
"""Names in that of a stream from several databases."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_MILLISECOND = 253_402_300_799_999


@dataclass(frozen=True)
class Bound:
    """Where to start, or what to stop before: one of these, or the end of the topic."""

    earliest: bool = False
    time: datetime | None = None
    offsets: Mapping[int, int] | None = None
    topic_id: int | None = None
    times: Mapping[int, datetime] | None = None

    @property
    def latest(self) -> bool:
        """Whether it is the end of the topic."""
        return not self.earliest and self.moment is None and self.offsets is None

    @property
    def moment(self) -> Moment | None:
        """The time, or that of each partition."""
        return self.time if self.times is None else self.times

    @classmethod
    def start(cls, name: str, topic: str, where: Where) -> Bound:
        """Check where to start; an error says the name of the argument or option."""
        return _parsed(name, topic, where)

    @classmethod
    def end(cls, name: str, topic: str, where: Where) -> Bound:
        """Check what to stop before."""
        bound = _parsed(name, topic, where)
        if bound.earliest or EARLIEST in (bound.offsets or {}).values():
            raise refused(name, f"is {where!r}: nothing ends at the earliest offset")
        return bound

    def of_batch(self, name: str) -> Bound:
        """The same as the start of a batch, which does not begin where the topic ends."""
        if self.latest:
            raise refused(name, "must not be 'latest' in a batch: nothing is there")
        return self


def refused(name: str, problem: str) -> ValueError:
    """The error for a bad argument or option."""
    return ValueError(f"{name!r} {problem}")


def taken_away(before: int, now: int) -> ValueError:
    """The error for a checkpoint of more databases than there are."""
    return ValueError(
        f"the checkpoint is one of {before} databases, and 'url' has {now}: none can be taken away"
    )


def moment(name: str, text: str) -> datetime:
    """The time that an option says."""
    if not text.strip().isdecimal() or int(text) > _LAST_MILLISECOND:
        raise refused(name, f"is {text!r}; it must be milliseconds since 1970-01-01 00:00 UTC")
    return _EPOCH + timedelta(milliseconds=int(text))


def _parsed(name: str, topic: str, where: Where) -> Bound:
    if isinstance(where, datetime):
        if where.tzinfo is None:
            raise refused(name, "needs a time zone: it would mean another time elsewhere")
        return Bound(time=where)
    word = where.strip().lower() if isinstance(where, str) else None
    if word == "latest":
        return Bound()
    if word == "earliest":
        return Bound(earliest=True)
    bound = _offsets(topic, where)
    if bound is None or bound.offsets is None:
        raise refused(
            name,
            f"is {where!r}; it must be 'earliest', 'latest', or have an offset for each partition, "
            f'{{"{topic}": {{"0": 1, "1": 1}}}}',
        )
    for partition, offset in bound.offsets.items():
        if partition < 0:
            raise refused(name, f"has the partition {partition}: they are numbered from 0")
        if offset < 1 and offset not in (EARLIEST, LATEST):
            raise refused(
                name,
                f"is {offset} for partition {partition}: offsets begin at 1; "
                "-2 is the earliest and -1 the latest",
            )
    return bound


def _offsets(topic: str, where: str | Mapping[int, int]) -> Bound | None:
    """The offsets that are given; None when they are not well formed."""
    try:
        if isinstance(where, Mapping):
            return Bound(offsets={_integer(p): _integer(offset) for p, offset in where.items()})
        found = json.loads(where)
        topic_id = found.pop(ID, None)
        found.pop(FROM, None)
        offsets = {_integer(p): _integer(offset) for p, offset in found.pop(topic).items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    if found or not (topic_id is None or isinstance(topic_id, int)):
        return None
    return Bound(offsets=offsets, topic_id=topic_id)


def _integer(value: str | int) -> int:
    if isinstance(value, bool | float):
        raise ValueError(value)
    return int(value)
