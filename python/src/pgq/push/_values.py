"""How single values of the configuration are read; each says what it wants."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

__all__ = [
    "choice",
    "count",
    "duration",
    "flag",
    "header_lines",
    "numbers",
    "secret",
    "text",
    "texts",
    "url",
]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 366 * 86400.0

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = {"host", "content-length", "content-type", "transfer-encoding", "connection"}


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text that is not empty")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """One text, or a list of them."""
    found = value if isinstance(value, list) else [value]
    if not found:
        raise ValueError("must not be an empty list")
    return tuple(text(item) for item in found)


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def count(least: int, most: int) -> Any:
    """A whole number between two bounds."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return read


def numbers(value: Any) -> tuple[int, ...]:
    """A list of partitions, each of them once."""
    one = count(0, 2**31 - 1)
    if not isinstance(value, list) or not value:
        raise ValueError("must be a list of partition numbers, such as [0, 1]")
    found = tuple(one(item) for item in value)
    if len({*found}) != len(found):
        raise ValueError("names a partition twice")
    return found


def choice(*allowed: str) -> Any:
    """One of a few words."""

    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError("must be " + " or ".join(f'"{word}"' for word in allowed))
        return str(value)

    return read


def duration(value: Any) -> float:
    """Seconds, from a number and its unit."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('must be a duration such as "200ms", "5s", "1m", "2h" or "1d"')
    seconds = float(match[1]) * _SECONDS[match[2]]
    if not 0.001 <= seconds <= _LONGEST:
        raise ValueError('must be a duration from "1ms" to "366d"')
    return seconds


def url(value: Any) -> str:
    """Where to send to; a name and a password belong in a header."""
    parts = urlsplit(text(value))
    if parts.scheme not in ("http", "https"):
        raise ValueError("must begin with http:// or https://")
    if not parts.hostname:
        raise ValueError("names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or a password; give the header Authorization")
    if parts.fragment:
        raise ValueError("must not have a fragment (#…)")
    if re.search(r"[\x00-\x20\x7f]", value):
        raise ValueError("must not hold blanks or control characters")
    parts.port  # noqa: B018  raises ValueError for a bad one
    try:
        host = httpx.URL(value).raw_host
    except httpx.InvalidURL as error:
        raise ValueError(f"is no url: {error}") from None
    if not host:
        raise ValueError("names no host")
    return str(value)


def secret(value: str) -> bytes:
    """The key in a secret of the Standard Webhooks; no message shows any of it."""
    encoded = value.removeprefix("whsec_")
    if encoded == value:
        raise ValueError('must be secrets of the form "whsec_…" with base64 behind it')
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError('has no base64 behind "whsec_"') from None
    if not 24 <= len(key) <= 64:
        raise ValueError(f"must be keys of 24 to 64 bytes, this one has {len(key)}")
    return key


def header_lines(value: Any) -> tuple[tuple[str, str], ...]:
    """Further headers of the requests."""
    if not isinstance(value, Mapping):
        raise ValueError('must be a table such as { Authorization = "Bearer …" }')
    for name, content in value.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header")
        if name.lower() in _OWN_HEADERS or name.lower().startswith("webhook-"):
            raise ValueError(f"the header {name} is set by the push worker")
        if not isinstance(content, str) or not re.fullmatch(r"[\x20-\x7e\t]*", content):
            raise ValueError(f"the header {name} must be a text of printable ASCII")
    return tuple(value.items())
