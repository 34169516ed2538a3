"""What publish and enqueue read: JSON lines, values, CSV, lines, or one whole body.

Each item knows the line that it began in. What cannot be used is an item too, a `BadLine`, so that
none is lost in silence.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import IO, Any

from pgq.cli._output import Raw
from pgq.cli._values import json_of

__all__ = ["BadLine", "Format", "Item", "read"]


class Format(str, Enum):
    """How the input is read."""

    jsonl = "jsonl"
    values = "values"
    csv = "csv"
    lines = "lines"
    raw = "raw"


@dataclass(slots=True)
class Item:
    """A message or job to be written: its content is JSON text (`payload`) or bytes (`body`)."""

    line: int
    payload: Raw | None = None
    body: bytes | None = None
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class BadLine:
    """A line that cannot be written, and why."""

    line: int
    reason: str


# what consume, tail and peek write besides, so that their output can be read again
_OF_OUTPUT = {
    "topic",
    "queue",
    "partition",
    "log_offset",
    "published_at",
    "job_id",
    "state",
    "attempt",
    "enqueued_at",
    "died_at",
    "due_at",
    "leased_until",
    "expires_at",
    "last_error",
    "max_attempts",
    "priority",
    "stops_key",
    "cut_short",
}
_BYTES = re.compile(r"\\x((?:[0-9a-fA-F]{2})*)")
csv.field_size_limit(1 << 30)
_BLANK = re.compile(r"[ \t\r\n]*")


def read(
    stream: IO[bytes], form: Format, texts: tuple[str, ...], key_column: str | None = None
) -> Iterator[Item | BadLine]:
    """The items of the input; `texts` are the fields that an item may have besides headers."""
    if form is Format.raw:
        yield Item(1, body=stream.read())
    elif form is Format.csv:
        yield from _csv(stream, texts, key_column)
    else:
        one = {Format.jsonl: _object, Format.values: _payload, Format.lines: _bytes}[form]
        for number, line in enumerate(stream, 1):
            try:
                made = one(number, line, texts)
            except (ValueError, RecursionError) as error:
                yield BadLine(number, _why(error))
            else:
                if made is not None:
                    yield made


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos + 1}"
    if isinstance(error, UnicodeError):
        return "not text in UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error)


def _bytes(number: int, line: bytes, texts: tuple[str, ...]) -> Item:
    return Item(number, body=line.removesuffix(b"\n").removesuffix(b"\r"))


def _payload(number: int, line: bytes, texts: tuple[str, ...]) -> Item | None:
    text = line.decode().strip()
    if not text:
        return None
    json_of(text)
    return Item(number, payload=Raw(text))


def _object(number: int, line: bytes, texts: tuple[str, ...]) -> Item | None:
    text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    if not text:
        return None
    if not isinstance(json_of(text), dict):
        raise ValueError("not an object with a payload; --format values takes any JSON")
    members = _members(text)
    item = Item(number)
    for name, (value, raw) in members.items():
        if name == "payload":
            item.payload = raw
        elif name == "body":
            item.body = None if value is None else _body(value)
        elif name == "headers":
            _check_headers(value)
            item.fields[name] = value and raw
        elif name in texts:
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{name} is not a text")
            item.fields[name] = value
        elif name not in _OF_OUTPUT:
            raise ValueError(
                f"unknown field {name}: known are payload, body, headers, " + ", ".join(texts)
            )
    # where rows are shown, the one that a message does not have is null
    if item.body is not None and item.payload == "null":
        item.payload = None
    if (item.payload is None) == (item.body is None):
        raise ValueError("one of payload and body is needed")
    return item


def _check_headers(value: Any) -> None:
    if value is not None and not isinstance(value, dict):
        raise ValueError("headers is not an object")


def _body(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("body is not a text")
    found = _BYTES.fullmatch(value)
    return bytes.fromhex(found.group(1)) if found else value.encode()


def _members(text: str) -> dict[str, tuple[Any, Raw]]:
    """The members of a JSON object, each with the text of its value: numbers keep their digits."""
    decoder = json.JSONDecoder()
    found: dict[str, tuple[Any, Raw]] = {}
    place = _skip(text, 1)
    while text[place] != "}":
        name, place = decoder.raw_decode(text, place)
        place = _skip(text, _skip(text, place) + 1)
        value, end = decoder.raw_decode(text, place)
        found[name] = value, Raw(text[place:end])
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return found


def _skip(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    assert found is not None
    return found.end()


def _csv(
    stream: IO[bytes], texts: tuple[str, ...], key_column: str | None
) -> Iterator[Item | BadLine]:
    # what is no UTF-8 becomes surrogates, which are found below: the other rows go on
    lines = (
        line.decode("utf-8-sig" if number == 0 else "utf-8", "surrogateescape")
        for number, line in enumerate(stream)
    )
    rows = csv.reader(lines, strict=True)
    names: list[str] | None = None
    while True:
        first = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadLine(first, f"not CSV: {error}")
            continue
        if not row:
            continue
        if names is None:
            names = row
            if len(set(names)) < len(names):
                raise ValueError("two columns of the CSV have one name")
            if key_column is not None and key_column not in names:
                raise ValueError(f"the CSV has no column {key_column}")
            continue
        try:
            yield _row(first, names, row, texts, key_column)
        except ValueError as error:
            yield BadLine(first, _why(error))


def _row(
    number: int, names: list[str], row: list[str], texts: tuple[str, ...], key_column: str | None
) -> Item:
    if len(row) != len(names):
        raise ValueError(f"{len(row)} fields, but the header has {len(names)}")
    "".join(row).encode()
    values = dict(zip(names, row))
    if "payload" not in values and "body" not in values:
        # any table: a message for each row
        key = values[key_column] or None if key_column is not None else None
        fields = {} if key is None else {"key": key}
        return Item(number, payload=Raw(json.dumps(values, ensure_ascii=False)), fields=fields)
    item = Item(number)
    for name, value in values.items():
        if name == "payload" and value:
            json_of(value)
            item.payload = Raw(value)
        elif name == "body" and value:
            item.body = _body(value)
        elif name == "headers" and value:
            _check_headers(json_of(value))
            item.fields[name] = Raw(value)
        elif name in texts:
            item.fields[name] = value or None
        elif name not in _OF_OUTPUT and name not in ("payload", "body", "headers"):
            raise ValueError(
                f"unknown column {name}: known are payload, body, headers, " + ", ".join(texts)
            )
    if (item.payload is None) == (item.body is None):
        raise ValueError("one of payload and body is needed")
    return item
