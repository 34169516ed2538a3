"""A text that stands for the contents of a write, whatever their order and their tasks.

It is kept with a write that has a name, so that other rows under the same name are an error and
not left out in silence.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

if TYPE_CHECKING:
    import pyarrow

__all__ = ["aggregates", "checksum", "digest"]


def digest(rows: int, total: int | None) -> str:
    """The text, from the number of rows and the sum of their checksums."""
    return f"crc32:{rows}:{total or 0}"


def aggregates() -> tuple[Column, Column]:
    """What Spark computes of the column content: the columns ``rows`` and ``total``."""
    return F.count(F.lit(1)).alias("rows"), F.sum(F.crc32("content")).alias("total")


def checksum(contents: pyarrow.Array) -> int:
    """The sum of the checksums of a column of bytes, as Spark has it."""
    if contents.null_count:
        return sum(zlib.crc32(content) for content in contents.to_pylist() if content is not None)
    _, offsets, data = contents.buffers()
    if data is None:
        return 0
    # cut out of Arrow's own buffer
    place, crc32, held = contents.offset, zlib.crc32, memoryview(data)
    bounds = memoryview(offsets).cast("i")[place : place + len(contents) + 1].tolist()
    return sum([crc32(held[start:end]) for start, end in pairwise(bounds)])
