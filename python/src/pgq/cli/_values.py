"""What options may be: lengths of time, points in time, headers, JSON."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NoReturn

import typer

__all__ = [
    "State",
    "a_moment",
    "a_span",
    "a_wait",
    "headers_of",
    "json_of",
    "moment_of",
    "span_of",
    "wait_of",
]


class State(str, Enum):
    """The state of a job."""

    ready = "ready"
    leased = "leased"
    delayed = "delayed"
    waiting = "waiting"
    expired = "expired"
    dead = "dead"
    finished = "finished"


_UNITS = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
    "w": 604800,
    "week": 604800,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_CLOCK = re.compile(r"(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def span_of(text: str, *, numbers: bool = False) -> timedelta:
    """A length of time: 90s, 1h 30m, '7 days', 00:01:30; a bare number only with `numbers`."""
    if isinstance(text, timedelta):
        return text
    rest = text.strip().lower()
    seconds = 0.0
    if clock := _CLOCK.search(rest):
        hours, minutes, left = clock.groups(default="0")
        seconds += int(hours) * 3600 + int(minutes) * 60 + float(left)
        rest = rest.replace(clock.group(), "", 1).strip()
    if re.fullmatch(r"\d+(\.\d+)?", rest):
        if not numbers and not clock:
            raise typer.BadParameter(f"{text!r} has no unit: say {rest}s, {rest}h, '{rest} days'")
        return timedelta(seconds=seconds + float(rest))
    if not rest and not clock:
        _refuse(text)
    for count, unit in _PART.findall(rest):
        size = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if size is None:
            _refuse(text)
        seconds += float(count) * size
    if _PART.sub("", rest).strip():
        _refuse(text)
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        _refuse(text)


def wait_of(text: str) -> timedelta:
    """The same; a bare number is seconds."""
    return span_of(text, numbers=True)


def _refuse(text: str) -> NoReturn:
    raise typer.BadParameter(f"{text!r} is no length of time such as 30s, 12h or '7 days'")


def moment_of(text: str) -> datetime:
    """A point in time: ISO 8601, local where it has no zone; or an age, as '10m ago'."""
    if isinstance(text, datetime):
        return text
    given = text.strip()
    if given.lower() == "now":
        return datetime.now().astimezone()
    if given.lower().endswith("ago"):
        try:
            return datetime.now().astimezone() - span_of(given[:-3])
        except OverflowError:
            pass
    else:
        try:
            # Python 3.10 does not know the Z
            return datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", given)).astimezone()
        except (ValueError, OverflowError):
            pass
    raise typer.BadParameter(f"{text!r} is no time such as 2026-11-23T08:00 or '10m ago'")


def a_span(text: str) -> Any:
    """An option that is a length of time, with its unit."""
    return typer.Option(parser=span_of, metavar="TIME", help=text)


def a_wait(text: str) -> Any:
    """An option that is a length of time, where a number is seconds."""
    return typer.Option(parser=wait_of, metavar="TIME", help=text)


def a_moment(text: str) -> Any:
    """An option that is a point in time."""
    return typer.Option(parser=moment_of, metavar="WHEN", help=text)


def json_of(text: str) -> Any:
    """A JSON value, as strict as the database."""

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=constant)


def headers_of(given: list[str] | None) -> dict[str, Any] | None:
    """Headers given as NAME=VALUE, whose values are JSON where they can be, else texts."""
    if not given:
        return None
    found: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{one!r} is not of the form NAME=VALUE")
        try:
            found[name] = json_of(value)
        except ValueError:
            found[name] = value
    return found
