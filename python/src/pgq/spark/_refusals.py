"""Rows that the database would refuse, found on the workers before anything is sent.

An error of a task is one that Spark tries again, with the same end. So the worker only notes what
is wrong, and the driver says it, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Check", "RowRefused", "checker"]

Check = Callable[[Any], dict[int, str]]
"""What finds the rows of a record batch that are refused: their places, and why."""


class RowRefused(ValueError):
    """A row of a DataFrame is none that the database can have; nothing is tried again."""


def checker(contents: str | None, *, strict: bool = False, most_bytes: int | None = None) -> Check:
    """What finds the rows that are refused, in record batches with the content first.

    contents: the name of the first column when it is JSON, else None. strict: whether to parse all
    JSON, which takes about as long as all else; otherwise that is left to the database. most_bytes:
    how large a content may be; that of JSON is left to the database, which measures it parsed. It
    is sent to the workers as it is, so it uses nothing of this package.
    """
    is_json_column = {"key": False, "headers": True, "label": False}

    def shown(value: bytes) -> str:
        try:
            text: str | bytes = value.decode()
        except UnicodeDecodeError:
            text = value
        return f"{text[:100]!r}{'…' if len(text) > 100 else ''}"

    def invalid(values: list[bytes | None]) -> dict[int, str]:
        found = {}
        for place, value in enumerate(values):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                found[place] = "is not valid UTF-8"
        return found

    def with_nul(values: list[bytes | None], *, is_json: bool) -> dict[int, str]:
        reason = "has a NUL, which no text in PostgreSQL can have"
        return {
            place: reason
            for place, value in enumerate(values)
            if value is not None and (b"\0" in value or (is_json and has_escaped_nul(value)))
        }

    def has_escaped_nul(value: bytes) -> bool:
        import json

        if b"\\u0000" not in value:
            return False
        # a backslash before it may be a character of its own
        try:
            return "\0" in texts_of(json.loads(value))
        except (ValueError, RecursionError):
            return False

    def texts_of(value: Any) -> str:
        # all texts of a value one behind the other
        if isinstance(value, dict):
            return "".join(key + texts_of(item) for key, item in value.items())
        if isinstance(value, list):
            return "".join(map(texts_of, value))
        return value if isinstance(value, str) else ""

    def malformed(values: list[bytes | None], *, is_object: bool) -> dict[int, str]:
        import json
        from decimal import Decimal

        def number(text: str) -> str:
            # as large as PostgreSQL takes them
            is_long = len(text) > 1000 or "e" in text.lower()
            if is_long and Decimal(text).adjusted() >= 131072:
                raise ValueError("a number is too large")
            return text

        def constant(text: str) -> None:
            raise ValueError(f"{text} is no number of JSON")

        found = {}
        for place, value in enumerate(values):
            if value is None:
                continue
            try:
                parsed = json.loads(
                    value.decode(), parse_int=number, parse_float=number, parse_constant=constant
                )
                texts_of(parsed).encode()
            except (ValueError, ArithmeticError) as error:
                found[place] = f"is no JSON that PostgreSQL takes ({error})"
            except RecursionError:
                found[place] = "is nested too deeply"
            else:
                if is_object and not isinstance(parsed, dict):
                    found[place] = "is no JSON object"
        return found

    def refused(column: Any, *, is_json: bool, is_object: bool) -> dict[int, str]:
        import pyarrow as pa

        held = column.cast(pa.binary())
        found: dict[int, str] = {}
        # Arrow checks a whole column at once; only one that has such a row is gone through.
        try:
            held.cast(pa.string())
        except pa.ArrowInvalid:
            found = invalid(held.to_pylist())
        data = held.buffers()[2]
        whole = b"" if data is None else data.to_pybytes()
        # a single byte is looked for much faster than several
        if b"\0" in whole or (is_json and b"\\" in whole and b"\\u0000" in whole):
            found = {**with_nul(held.to_pylist(), is_json=is_json), **found}
        if strict and is_json:
            found = {**malformed(held.to_pylist(), is_object=is_object), **found}
        return found

    def too_large(column: Any) -> dict[int, str]:
        import pyarrow.compute as pc

        sizes = pc.binary_length(column)
        if most_bytes is None or (pc.max(sizes).as_py() or 0) <= most_bytes:
            return {}
        return {
            place: f"column value has {size} bytes; at most {most_bytes} are taken"
            " (max_message_bytes)"
            for place, size in enumerate(sizes.to_pylist())
            if size is not None and size > most_bytes
        }

    def check(batch: Any) -> dict[int, str]:
        reasons = too_large(batch.column(0)) if contents is None else {}
        if batch.column(0).null_count:
            for place, is_null in enumerate(batch.column(0).is_null().to_pylist()):
                if is_null:
                    reasons[place] = f"column {contents or 'value'}: a message must not be null"
        for number, name in enumerate(batch.schema.names):
            if number == 0 and contents is None:
                continue
            if number > 0 and name not in is_json_column:
                continue
            column = batch.column(number)
            is_json = number == 0 or is_json_column[name]
            found = refused(column, is_json=is_json, is_object=number > 0)
            for place, reason in found.items():
                text = shown(column[place].as_buffer().to_pybytes())
                label = contents if number == 0 else name
                reasons.setdefault(place, f"column {label} {reason}: {text}")
        return reasons

    return check
