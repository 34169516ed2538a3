"""Rows that the database would refuse, found on the workers before anything is sent.

An error of a task is one that Spark tries again, with the same end. So the worker only notes what
is wrong, and the driver says it, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["RowRefused", "checker"]


class RowRefused(ValueError):
    """A row of a DataFrame is none that the database can have; nothing is tried again."""


def checker(contents: str | None) -> Callable[[Any], tuple[int, str] | None]:
    """What finds the first row of a record batch that is refused: its place, and why.

    contents: the name of the first column when it is JSON, else None. It is sent to the workers as
    it is, so it uses nothing of this package.
    """

    def first_invalid(column: Any) -> int | None:
        # Arrow checks a whole column at once; only one that has such a row is gone through.
        import pyarrow as pa

        try:
            column.cast(pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            for place, value in enumerate(column.cast(pa.binary()).to_pylist()):
                try:
                    (value or b"").decode()
                except UnicodeDecodeError:
                    return place
        return None

    def first_nul(column: Any, *, is_json: bool) -> int | None:
        import json

        import pyarrow as pa
        import pyarrow.compute as pc

        values = column.cast(pa.binary())
        patterns = [b"\0", *([b"\\u0000"] if is_json else [])]
        found = [pc.match_substring(values, pattern) for pattern in patterns]
        for place, hits in enumerate(zip(*(hit.to_pylist() for hit in found), strict=True)):
            if hits[0]:
                return place
            if any(hits):
                # a backslash before it may be a character of its own
                text = values[place].as_py().decode()
                try:
                    json.loads(text)
                except ValueError:
                    continue
                if "\0" in repr_of(json.loads(text)):
                    return place
        return None

    def repr_of(value: Any) -> str:
        # all texts of a value one behind the other
        if isinstance(value, dict):
            return "".join(key + repr_of(item) for key, item in value.items())
        if isinstance(value, list):
            return "".join(map(repr_of, value))
        return value if isinstance(value, str) else ""

    def has_any(column: Any, *, is_json: bool) -> bool:
        # The usual column has neither anywhere in its bytes, which is quickly found out.
        data = column.buffers()[2]
        held = b"" if data is None else data.to_pybytes()
        # a single byte is looked for much faster than several
        return b"\0" in held or (is_json and b"\\" in held and b"\\u0000" in held)

    def check(batch: Any) -> tuple[int, str] | None:
        found: list[tuple[int, str]] = []
        if batch.column(0).null_count:
            place = batch.column(0).is_null().to_pylist().index(True)
            found.append((place, f"column {contents or 'value'}: a message must not be null"))
        columns = {"key": False, "headers": True, "label": False}
        names = dict(enumerate(batch.schema.names))
        for number, name in names.items():
            if number == 0 and contents is None:
                continue
            if number > 0 and name not in columns:
                continue
            shown = contents if number == 0 else name
            is_json = number == 0 or columns[name]
            column = batch.column(number)
            place = first_invalid(column)
            if place is not None:
                found.append((place, f"column {shown} is not valid UTF-8"))
            elif has_any(column, is_json=is_json):
                place = first_nul(column, is_json=is_json)
                if place is not None:
                    found.append(
                        (place, f"column {shown} has a NUL, which no text in PostgreSQL can have")
                    )
        return min(found) if found else None

    return check
