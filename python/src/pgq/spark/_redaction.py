"""Keeping credentials out of the logs of Spark Connect."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pgq.spark._connection import is_classic

__all__ = ["hide_credentials"]

_REDACTION = "spark.sql.redaction.string.regex"
# an option in the text of a request to Spark Connect
_SECRET_OPTION = r'''key: "(?i:ssl)?password"\s+value: "(?:[^"\\]|\\.)*"'''


def hide_credentials(spark: SparkSession) -> None:
    """Have a server of Spark Connect leave credentials out of its event log.

    It logs every request as text, with all options. What is to be left out of such texts can be
    set, and is set for this session, beside what the user left out already.
    """
    if is_classic(spark):
        return
    pattern = spark.conf.get(_REDACTION, None)
    if not pattern:
        spark.conf.set(_REDACTION, _SECRET_OPTION)
    elif _SECRET_OPTION not in pattern:
        spark.conf.set(_REDACTION, f"(?:{pattern})|{_SECRET_OPTION}")
