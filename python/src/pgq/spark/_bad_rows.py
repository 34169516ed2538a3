"""Rows that are refused as messages of a topic, so that the others can be written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgq.spark._write_options import WriterOptions

if TYPE_CHECKING:
    import pyarrow

__all__ = ["bad_rows"]


def bad_rows(
    rows: pyarrow.RecordBatch, refused: Mapping[int, str], options: WriterOptions, task: int
) -> pyarrow.RecordBatch:
    """Rows that are refused as messages: the content as bytes, the reason as a header."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places = sorted(refused)
    bad = rows.take(pa.array(places, pa.int64()))
    target = options.topic or options.queue
    names = bad.schema.names
    topics = (
        bad.column(names.index("topic")).to_pylist() if "topic" in names else [target] * len(bad)
    )
    headers = [
        {
            "error": refused[place].encode("ascii", "backslashreplace").decode(),
            "row": str(number),
            "task": str(task),
            "topic" if options.queue is None else "queue": _text(topic),
        }
        for place, number, topic in zip(
            places, bad.column(names.index("number")).to_pylist(), topics, strict=True
        )
    ]
    keys = bad.column(names.index("key")).to_pylist() if "key" in names else [None] * len(bad)
    return pa.RecordBatch.from_pydict(
        {
            "content": pc.fill_null(bad.column(0), b""),
            "key": pa.array([_text(key) for key in keys], pa.string()),
            "headers": pa.array(map(json.dumps, headers), pa.string()),
            "number": bad.column(names.index("number")),
        }
    )


def _text(value: str | bytes | None) -> str | None:
    """A text that the database takes, or None."""
    try:
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return None
    return None if text is None or "\0" in text else text
