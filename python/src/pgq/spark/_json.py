"""Columns of Spark as JSON, without loss: all digits of times, their zones, and null fields."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

__all__ = ["text", "to_json"]

_OPTIONS = {
    "ignoreNullFields": "false",
    # Spark's own formats end at milliseconds. XXXXX: before 1900 zones have seconds, too.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def to_json(column: Column | str) -> Column:
    """The JSON of a struct, a map or an array, as :meth:`Pgq.publish` makes it of ``payload``.

    Spark's own ``to_json`` leaves out null fields and drops microseconds unless it is told not to.
    For ``write.format("pgq")``, which takes the payload as a string.
    """
    return F.to_json(column, _OPTIONS)


def text(column: Column, kind: T.DataType) -> Column:
    """A value as a text; a time has the same form as in JSON, which keeps its zone."""
    if not isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        return column.cast("string")
    listed = to_json(F.array(column))
    # without ["…"]
    return F.when(column.isNotNull(), F.substring(listed, F.lit(3), F.length(listed) - 4))
