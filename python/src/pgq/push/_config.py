"""The configuration of the push worker: a TOML file with a table ``[[push]]`` for each target."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgq.push import _values as read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Config", "ConfigError", "Push", "load", "parse"]


class ConfigError(ValueError):
    """The configuration is wrong; the message names the key, and the line where that is known."""


@dataclass(frozen=True, kw_only=True)
class Push:
    """One topic that is sent to one place, for one consumer group."""

    topic: str
    consumer_group: str
    url: str = field(repr=False)
    name: str = ""
    """What logs and figures call it; without one 'topic to group'."""
    partitions: tuple[int, ...] | None = None
    """None: all of the topic."""
    max_messages: int = 100
    poll: float = 1.0
    """Seconds between two looks for messages when there were none."""
    timeout: float = 30.0
    """Seconds for a whole request, from the look-up of the host to the status of the answer."""
    lease: float = 30.0
    """Seconds after which another worker takes over what a dead one had."""
    concurrency: int = 16
    """How many partitions are sent at one time."""
    backoff: float = 1.0
    backoff_max: float = 60.0
    max_retry_after: float = 3600.0
    max_attempts: int | None = None
    """A setting of the group, like the next two; None: what it has, or none."""
    dead_letter_topic: str | None = None
    """Where a message goes that failed max_attempts times."""
    out_of_range: str | None = None
    start: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    allow_private: bool = False
    ca_file: str | None = None
    """Certificates of authorities that are trusted besides the usual ones."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """All that a push worker does."""

    pushes: tuple[Push, ...]
    database: str | None = field(default=None, repr=False)
    grace: float = 10.0
    """Seconds that requests under way have to end when the worker is told to stop."""
    heartbeat: float = 10.0
    """Seconds between two heartbeats, which `list_workers` shows."""


_READ: dict[str, Callable[[Any], Any]] = {
    "name": read.text,
    "topic": read.text,
    "consumer_group": read.text,
    "partitions": read.numbers,
    "url": read.url,
    "max_messages": read.count(1, 10000),
    "poll": read.duration,
    "timeout": read.duration,
    "lease": read.duration,
    "concurrency": read.count(1, 1000),
    "backoff": read.duration,
    "backoff_max": read.duration,
    "max_retry_after": read.duration,
    "max_attempts": read.count(1, 1000000),
    "dead_letter_topic": read.text,
    "out_of_range": read.choice("error", "skip"),
    "start": read.choice("earliest", "latest"),
    "headers": read.header_lines,
    "secrets": read.texts,
    "secret_env": read.texts,
    "allow_private": read.flag,
    "ca_file": read.text,
}
_READ_ABOVE: dict[str, Callable[[Any], Any]] = {
    "database": read.text,
    "grace": read.duration,
    "heartbeat": read.duration,
}


def load(path: Path) -> Config:
    """Read a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return parse(text, source=str(path))


def parse(
    text: str, *, source: str = "config", environment: Mapping[str, str] | None = None
) -> Config:
    """Read a text; secrets that it does not hold come from the environment."""
    known = os.environ if environment is None else environment
    return _Reader(text, source, known).config()


class _Reader:
    def __init__(self, text: str, source: str, environment: Mapping[str, str]) -> None:
        self._lines = text.splitlines()
        self._source = source
        self._environment = environment
        try:
            self._document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{source}: {error}") from None

    def config(self) -> Config:
        tables = self._document.pop("push", None)
        found = {
            key: self._value(_READ_ABOVE, key, value, None) for key, value in self._document.items()
        }
        if not isinstance(tables, list) or not tables or not isinstance(tables[0], dict):
            raise self._error("there is no table [[push]], so there is nothing to do")
        pushes = tuple(self._push(index, table) for index, table in enumerate(tables))
        self._check_apart(pushes)
        return Config(pushes=pushes, **found)

    def _push(self, index: int, table: dict[str, Any]) -> Push:
        found = {key: self._value(_READ, key, value, index) for key, value in table.items()}
        for key in ("topic", "consumer_group", "url"):
            if key not in found:
                raise self._error("is missing", key, index)
        found.setdefault("name", f"{found['topic']} to {found['consumer_group']}")
        found["secrets"] = self._secrets(index, found)
        push = Push(**found)
        if push.dead_letter_topic is not None and push.max_attempts is None:
            raise self._error("needs max_attempts beside it", "dead_letter_topic", index)
        if push.max_attempts is not None and push.dead_letter_topic is None:
            raise self._error("needs dead_letter_topic beside it", "max_attempts", index)
        if push.dead_letter_topic == push.topic:
            raise self._error("must be another topic", "dead_letter_topic", index)
        if push.backoff_max < push.backoff:
            raise self._error("must not be below backoff", "backoff_max", index)
        if push.lease < 1:
            raise self._error('must be at least "1s"', "lease", index)
        if push.ca_file is not None and not Path(push.ca_file).is_file():
            raise self._error("is no file", "ca_file", index)
        return push

    def _secrets(self, index: int, found: dict[str, Any]) -> tuple[bytes, ...]:
        """Those that are given first, then those of the environment; any of them may be several."""
        given = [("secrets", found.pop("secrets", ()))]
        for name in found.pop("secret_env", ()):
            words = self._environment.get(name, "").split()
            if not words:
                raise self._error(f"the variable {name} is not set", "secret_env", index)
            given.append(("secret_env", tuple(words)))
        keys = []
        for key, words in given:
            for word in words:
                try:
                    keys.append(read.secret(word))
                except ValueError as error:
                    raise self._error(str(error), key, index) from None
        return tuple(keys)

    def _check_apart(self, pushes: tuple[Push, ...]) -> None:
        """Two that read the same partitions for the same group would get half of it each."""
        for index, push in enumerate(pushes):
            for other in pushes[:index]:
                if push.name == other.name and (push.topic, push.consumer_group) != (
                    other.topic,
                    other.consumer_group,
                ):
                    raise self._error(f'"{push.name}" is there twice', "name", index)
                if (push.topic, push.consumer_group) != (other.topic, other.consumer_group):
                    continue
                if (
                    push.partitions is None
                    or other.partitions is None
                    or {*push.partitions} & {*other.partitions}
                ):
                    raise self._error(
                        f'topic "{push.topic}" is sent for this group already; give it a group of'
                        " its own, or partitions of its own",
                        "consumer_group",
                        index,
                    )
                for key in ("out_of_range", "max_attempts", "dead_letter_topic"):
                    if getattr(push, key) != getattr(other, key):
                        raise self._error(
                            f'is a setting of the group "{push.consumer_group}", and says something'
                            f' else above, in "{other.name}"',
                            key,
                            index,
                        )

    def _value(
        self,
        known: Mapping[str, Callable[[Any], Any]],
        key: str,
        value: Any,
        index: int | None,
    ) -> Any:
        if key not in known:
            raise self._error(f"unknown; known are {', '.join(known)}", key, index)
        try:
            return known[key](value)
        except ValueError as error:
            raise self._error(str(error), key, index) from None

    def _error(self, message: str, key: str | None = None, index: int | None = None) -> ConfigError:
        place = self._source
        line = self._line(key, index)
        if line is not None:
            place += f":{line}"
        if index is not None:
            place += f": [[push]] number {index + 1}"
        if key is not None:
            place += f": {key}"
        return ConfigError(f"{place}: {message}")

    def _line(self, key: str | None, index: int | None) -> int | None:
        """The line of a key, or of its table where the key is not written as usual."""
        table = -1
        found = None
        for number, line in enumerate(self._lines, 1):
            if re.match(r"\s*\[\[\s*push\s*\]\]", line):
                table += 1
                if table == index:
                    found = number
            elif (
                key is not None
                and table == (-1 if index is None else index)
                and re.match(rf"\s*\[?(push\.)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]", line)
            ):
                return number
        return found
