"""Making the data source known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException

from pgq.spark._source import KEEPS_PLANS, FilteringDataSource, PgqDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the format "pgq" known to a session.

    From Spark 4.1 on, the session also hands conditions of queries to sources written in Python:
    ``spark.sql.python.filterPushdown.enabled`` is set. Where that is not allowed, Spark filters
    what was read.
    """
    try:
        spark.dataSource.register(_source(spark))
    except AnalysisException as error:
        # Spark 4.0 may have found the format by itself
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _source(spark: SparkSession) -> type[PgqDataSource]:
    if not KEEPS_PLANS:
        return PgqDataSource
    try:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    except PySparkException:
        return PgqDataSource
    return FilteringDataSource
