"""Making the data source known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from pgq.spark._source import PgqDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the format "pgq" known to a session.

    In later versions of Spark this is ``spark.dataSource.register(PgqDataSource)``, which Spark 4.0
    refuses where it has found the format by itself.
    """
    try:
        spark.dataSource.register(PgqDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
