"""The options of the data source ``pgq``, checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg

from pgq.spark._bounds import FROM, ID, Bound, moment, refused
from pgq.spark._place import VIEW, WRITING, connect, conninfo_of, known, length, retry_of, urls_of
from pgq.spark._retry import RETRY
from pgq.spark._topics import Bounds, Topics

__all__ = ["Options", "count", "name_of", "options_of_shards", "parse_options"]


@dataclass(frozen=True)
class Options:
    """The options of a read; the repr has no credentials."""

    topics: Topics
    conninfo: str = field(repr=False)
    start: Bounds | None = None
    end: Bounds | None = None
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay: timedelta = timedelta(minutes=15)
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = True
    consumer_group: str | None = None
    retry: float = RETRY
    shard: int | None = None
    """Which database this is for, where what is read is spread over several."""

    @property
    def limits(self) -> dict[str, int | None]:
        """Those that need to know where a batch starts."""
        return {
            "maxOffsetsPerTrigger": self.max_offsets,
            "minOffsetsPerTrigger": self.min_offsets,
        }

    @property
    def of_streams(self) -> dict[str, object]:
        """Those that a batch has not."""
        return {**self.limits, "consumerGroup": self.consumer_group}

    def connect(self) -> psycopg.Connection[Any]:
        """A connection in autocommit that a pooler may serve."""
        return connect(self.conninfo, self.retry)


_NAMES = (
    "topic",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "consumerGroup",
)
_DIVIDED = (
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
)
"""Those that have something else for each database."""
_SELECTIONS = ("topic", "subscribe", "subscribePattern", "assign")


def options_of_shards(options: Mapping[str, str]) -> list[Options]:
    """The options of a read for each database; there may be several URLs, with bounds of each."""
    given = {name.lower(): value for name, value in options.items()}
    urls = urls_of(given)
    if len(urls) == 1:
        return [parse_options(given)]
    bounds = {name.lower(): name for name in _DIVIDED if name.lower() in given}
    divided = {low: _divided(name, given[low], len(urls)) for low, name in bounds.items()}
    return [
        parse_options(
            {**given, **{low: parts[shard] for low, parts in divided.items()}, "url": url}, shard
        )
        for shard, url in enumerate(urls)
    ]


def _divided(name: str, text: str, shards: int) -> list[str]:
    """A bound for each shard: a word is for all, of JSON there is a part for each."""
    if text.strip().lower() in ("earliest", "latest"):
        return [text] * shards
    try:
        parts = json.loads(text)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(parts) != shards:
        raise refused(
            name, f"is {text!r}; for {shards} databases it must be a list with a part for each"
        )
    return [json.dumps(part) for part in parts]


def parse_options(options: Mapping[str, str], shard: int | None = None) -> Options:
    """Check the options of a read; their names are not case sensitive, as everywhere in Spark."""
    given = known(options, (*_NAMES, *WRITING))
    topics = _topics(given)
    max_offsets = count(given, "maxOffsetsPerTrigger")
    min_offsets = count(given, "minOffsetsPerTrigger")
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise refused("minOffsetsPerTrigger", "is more than 'maxOffsetsPerTrigger'")
    return Options(
        topics=topics,
        conninfo=conninfo_of(given, given.get("url", "")),
        start=_bounds(given, topics, "starting"),
        end=_bounds(given, topics, "ending"),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_delay=length(given, "maxTriggerDelay", Options.max_delay),
        min_partitions=count(given, "minPartitions"),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
        include_headers=_flag(given, "includeHeaders", default=True),
        consumer_group=name_of(given, "consumerGroup"),
        retry=retry_of(given),
        shard=shard,
    )


# ---------------------------------------------------------------------------- topics


def _topics(given: Mapping[str, str]) -> Topics:
    found = [name for name in _SELECTIONS if name.lower() in given]
    if len(found) > 1:
        raise refused(found[0], f"and {found[1]!r} both say what to read: give one of them")
    text = given[found[0].lower()].strip() if found else ""
    if not text:
        raise refused("topic", f"is missing: the name of the topic to read{'' if given else VIEW}")
    if found[0] == "topic":
        if "," in text:
            raise refused("topic", f"takes one topic, not {text!r}: 'subscribe' takes several")
        return Topics((text,))
    if found[0] == "subscribe":
        return Topics(tuple(sorted({name.strip() for name in text.split(",")} - {""})))
    if found[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise refused("subscribePattern", f"is no regular expression: {error}") from None
        return Topics(pattern=text)
    return _assigned(text)


def _assigned(text: str) -> Topics:
    try:
        found = json.loads(text)
        assigned = {topic: frozenset(numbers) for topic, numbers in found.items() if numbers}
        if not assigned or not all(
            isinstance(number, int) and number >= 0
            for numbers in assigned.values()
            for number in numbers
        ):
            raise ValueError
    except (ValueError, AttributeError, TypeError):
        raise refused(
            "assign", f'is {text!r}; it must have partitions of topics, {{"readings": [0, 1]}}'
        ) from None
    return Topics(tuple(sorted(assigned)), assigned=assigned)


# ---------------------------------------------------------------------------- bounds


def _bounds(given: Mapping[str, str], topics: Topics, side: str) -> Bounds | None:
    """Bounds that are given; as with Kafka's source, the first of these takes the place of others.

    A time for all, times of partitions, offsets.
    """
    check = Bound.start if side == "starting" else Bound.end
    name = f"{side}Timestamp"
    if name.lower() in given:
        return Bounds(check(name, "", moment(name, given[name.lower()])))
    name = f"{side}OffsetsByTimestamp"
    if name.lower() in given:
        parts = _by_topic(name, given[name.lower()], topics)
        return Bounds(
            by_topic={topic: _times(name, topic, part) for topic, part in parts.items()}, name=name
        )
    name = f"{side}Offsets"
    text = given.get(name.lower())
    if text is None:
        return None
    if topics.only is not None:
        return Bounds(check(name, topics.only, text))
    if text.strip().lower() in ("earliest", "latest"):
        return Bounds(check(name, "", text))
    parts = _by_topic(name, text, topics)
    return Bounds(
        by_topic={topic: check(name, topic, json.dumps(part)) for topic, part in parts.items()},
        name=name,
    )


def _by_topic(name: str, text: str, topics: Topics) -> dict[str, Any]:
    """JSON by topic, for each of them in the form for that one alone."""
    try:
        found = json.loads(text)
        ids = found.pop(ID, {})
        found.pop(FROM, None)
        ids = ids if isinstance(ids, dict) else dict.fromkeys(found, ids)
        parts = {
            topic: {topic: part, **({ID: ids[topic]} if topic in ids else {})}
            for topic, part in found.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise refused(name, f"is {text!r}; it must have a part for each topic") from None
    wrong = sorted(parts.keys() ^ set(topics.names)) if topics.pattern is None else []
    if wrong:
        raise refused(name, f"must have a part for each topic that is read, see {wrong[0]!r}")
    return parts


def _times(name: str, topic: str, part: Mapping[str, Any]) -> Bound:
    try:
        return Bound(times={int(p): moment(name, str(time)) for p, time in part[topic].items()})
    except (AttributeError, ValueError):
        raise refused(
            name,
            f"is {part[topic]!r} for topic {topic!r}; it must have milliseconds since 1970-01-01 "
            '00:00 UTC for each partition, {"0": 1700000000000}',
        ) from None


# ---------------------------------------------------------------------------- values


def name_of(given: Mapping[str, str], name: str) -> str | None:
    """A text that is not empty."""
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip():
        raise refused(name, "is empty")
    return text.strip()


def count(given: Mapping[str, str], name: str) -> int | None:
    """A number from 1 on."""
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise refused(name, f"is {text!r}; it must be a whole number from 1 on")
    return int(text)


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise refused(name, f"is {text!r}; it must be true or false")
    return word == "true"
