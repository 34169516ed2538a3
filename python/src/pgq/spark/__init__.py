"""Topics and queues as DataFrames: Spark reads, writes and streams through pgq's functions.

Needs the extra ``pgq[spark]`` on the driver, pyarrow on the workers, and the JDBC driver of
PostgreSQL among Spark's jars; the data source needs pgq itself on the workers.
"""

try:
    import pandas  # noqa: F401  what PySpark asks for to exchange rows by Arrow
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"pgq.spark needs the module {error.name}: pip install 'pgq[spark]'", name=error.name
    ) from None

from pgq.spark._client import Pgq, Step
from pgq.spark._source import PgqDataSource
from pgq.spark._write import WriteResult

__all__ = ["Pgq", "PgqDataSource", "Step", "WriteResult"]
