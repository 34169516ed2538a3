"""A text that stands for the rows of a write, whatever their order and their tasks.

It is kept with a write that has a name, so that other rows under the same name are an error and
not left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = ["aggregates", "digest", "summer"]

_COLUMNS = ("partition", "key", "headers", "label")
"""What a row has beside its content. They come first: no text has a byte that parts them."""

_NULL, _END = b"\xfe", b"\xff"


def digest(rows: int, total: int | None) -> str:
    """The text, from the number of rows and the sum of their checksums."""
    return f"crc32:{rows}:{total or 0}"


def aggregates(columns: Iterable[str]) -> tuple[Column, Column]:
    """What Spark computes of rows with these columns: the columns ``rows`` and ``total``."""
    parts = []
    for name in _COLUMNS:
        text = F.col(name).cast("string").cast("binary") if name in columns else F.lit(None)
        parts += [F.coalesce(text, F.lit(_NULL)), F.lit(_END)]
    total = F.sum(F.crc32(F.concat(*parts, "content")))
    return F.count(F.lit(1)).alias("rows"), total.alias("total")


def summer() -> Callable[[Any], int]:
    """The sum of the checksums of a record batch, with the content first, as Spark has it.

    It is sent to the workers as it is, so it uses nothing of this package.
    """
    names, null, end = _COLUMNS, _NULL, _END

    def total(batch: Any) -> int:
        from itertools import pairwise
        from zlib import crc32

        import pyarrow as pa
        import pyarrow.compute as pc

        parts: list[Any] = []
        for name in names:
            place = batch.schema.get_field_index(name)
            if place < 0:
                parts.append(null)
            else:
                texts = batch.column(place).cast(pa.string()).cast(pa.binary())
                parts.append(pc.fill_null(texts, null))
        contents, before = batch.column(0), 0
        if all(part is null for part in parts):
            # all rows begin alike: Arrow's own buffer is cut
            before = crc32(end.join([*parts, b""]))
        else:
            contents = pc.binary_join_element_wise(*parts, contents, end)
        _, offsets, data = contents.buffers()
        held = memoryview(b"" if data is None else data)
        place = contents.offset
        bounds = memoryview(offsets).cast("i")[place : place + len(contents) + 1].tolist()
        return sum([crc32(held[start:stop], before) for start, stop in pairwise(bounds)])

    return total
