"""The options of the data source ``pgq``, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgq.spark._bounds import Bound, Where, moment, refused
from pgq.spark._connection import Location

__all__ = ["Options", "parse_options"]


@dataclass(frozen=True)
class Options:
    """The options of a read; the repr has no credentials."""

    topic: str
    conninfo: str = field(repr=False)
    start: Bound | None = None
    end: Bound | None = None
    max_offsets: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True

    def connect(self) -> psycopg.Connection[Any]:
        """A connection in autocommit that a pooler may serve."""
        return psycopg.connect(
            self.conninfo,
            autocommit=True,
            prepare_threshold=None,
            fallback_application_name="pgq spark",
        )


_NAMES = {
    name.lower(): name
    for name in (
        "url",
        "user",
        "password",
        "topic",
        "subscribe",
        "startingOffsets",
        "startingTimestamp",
        "endingOffsets",
        "endingTimestamp",
        "maxOffsetsPerTrigger",
        "minPartitions",
        "failOnDataLoss",
    )
}


def parse_options(options: Mapping[str, str]) -> Options:
    """Check the options of a read; their names are not case sensitive, as everywhere in Spark."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(given.keys() - _NAMES.keys())
    if unknown:
        # names alone: what they are set to may be a secret
        raise ValueError(
            f"unknown option {', '.join(map(repr, unknown))}; the data source pgq knows "
            + ", ".join(_NAMES.values())
        )
    topic = _topic(given)
    return Options(
        topic=topic,
        conninfo=_conninfo(given),
        start=_bound(Bound.start, given, topic, "startingOffsets", "startingTimestamp"),
        end=_bound(Bound.end, given, topic, "endingOffsets", "endingTimestamp"),
        max_offsets=_count(given, "maxOffsetsPerTrigger"),
        min_partitions=_count(given, "minPartitions"),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
    )


def _topic(given: Mapping[str, str]) -> str:
    if "topic" in given and "subscribe" in given:
        raise refused("topic", "and 'subscribe' mean the same: give one of them")
    topic = given.get("topic", given.get("subscribe", "")).strip()
    if not topic:
        raise refused("topic", "is missing: the name of the topic to read")
    if "," in topic:
        raise refused("subscribe", f"takes one topic, not {topic!r}: read each by itself")
    return topic


def _conninfo(given: Mapping[str, str]) -> str:
    """The place for psycopg. No message here shows the URL, which may hold a password."""
    url = given.get("url", "")
    credentials = {name: given[name] for name in ("user", "password") if name in given}
    if not url:
        raise refused("url", "is missing: jdbc:postgresql://host:port/database")
    try:
        if url.startswith(("postgresql://", "postgres://")):
            return make_conninfo(url, **credentials)
        conninfo = Location(url, credentials).conninfo()
        conninfo_to_dict(conninfo)
    except (ValueError, psycopg.Error):
        raise refused(
            "url",
            "is no URL of a PostgreSQL database: it has the form "
            "jdbc:postgresql://host:port/database or postgresql://host:port/database",
        ) from None
    return conninfo


def _bound(
    check: Callable[[str, str, Where], Bound],
    given: Mapping[str, str],
    topic: str,
    offsets: str,
    timestamp: str,
) -> Bound | None:
    """A bound that is given; as with Kafka's source, a timestamp takes the place of the offsets."""
    if timestamp.lower() in given:
        return check(timestamp, topic, moment(timestamp, given[timestamp.lower()]))
    if offsets.lower() in given:
        return check(offsets, topic, given[offsets.lower()])
    return None


def _count(given: Mapping[str, str], name: str) -> int | None:
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
