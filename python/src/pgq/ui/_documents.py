"""What the page gets to see of values and rows: plain JSON that JavaScript can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from pgq.cli._output import Raw, columns_of, span

__all__ = ["CUT", "WHOLE", "content", "document", "row"]

_EXACT = 2**53 - 1
"""JavaScript knows whole numbers up to here; larger ones travel as texts."""

CUT = 300
"""Characters of a content in a list."""
WHOLE = 1_000_000
"""Characters of a content that is shown alone."""


def document(value: Any) -> Any:
    """A value as `json.dumps` takes it; lengths of time are texts, times are in UTC."""
    if value is None or isinstance(value, (bool, float)):
        return value if value == value and value not in (float("inf"), float("-inf")) else None
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if isinstance(value, str):  # a Raw one too: the text of JSON stays one
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, timedelta):
        return span(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): document(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return row(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [document(one) for one in value]
    raise TypeError(f"{type(value).__name__} has no place on the page")


def row(one: Any, most: int = CUT) -> dict[str, Any]:
    """A row by the names of its columns; payload and body, if it has them, become `content`."""
    names = columns_of(type(one))
    found = {
        name: document(getattr(one, name)) for name in names if name not in ("payload", "body")
    }
    if "payload" in names:
        found["content"] = content(one.payload, getattr(one, "body", None), most)
    return found


def content(payload: Raw | None, body: bytes | None, most: int) -> dict[str, Any]:
    """A payload or a body: its kind, its size, and its text, of which `most` is shown."""
    if body is not None:
        try:
            kind, text = "text", body.decode()
        except UnicodeDecodeError:
            kind, text = "bytes", body[: most // 2].hex(" ")
        size, cut = len(body), len(body) > most // 2 if kind == "bytes" else len(text) > most
    elif payload is None:
        return {"kind": "none", "text": "", "size": 0, "cut": False}
    else:
        kind, text = "json", str(payload)
        size, cut = len(text.encode()), len(text) > most
    return {"kind": kind, "text": text[:most], "size": size, "cut": cut}
