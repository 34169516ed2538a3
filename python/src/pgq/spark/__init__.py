"""Topics and queues as DataFrames: Spark reads, writes and streams through pgq's functions.

Needs the extra ``pgq[spark]`` on the driver, pyarrow on the workers, and the JDBC driver of
PostgreSQL among Spark's jars; the data source needs pgq itself on the workers.
"""

from importlib.util import find_spec

# PySpark asks for the first two to exchange rows by Arrow. They are only looked for: each process
# of Spark that reads would need half a second to import them.
if missing := [name for name in ("pandas", "pyarrow", "pyspark") if find_spec(name) is None]:
    raise ModuleNotFoundError(
        f"pgq.spark needs the module {missing[0]}: pip install 'pgq[spark]'", name=missing[0]
    )

from pgq.spark._client import Pgq, Step
from pgq.spark._source import PgqDataSource
from pgq.spark._write import WriteResult

__all__ = ["Pgq", "PgqDataSource", "Step", "WriteResult"]
