"""Topics and queues as DataFrames: Spark reads, writes and streams through pgq's functions.

Needs the extra ``pgq-sql[spark]`` on the driver, or ``pgq-sql[spark-cluster]``, the same without
pyspark; pyarrow on the workers; and the JDBC driver of PostgreSQL among Spark's jars. The data
source needs pgq itself on the workers.
"""

from importlib.util import find_spec

# Only looked for: each process of Spark that reads would need half a second to import them. Pandas
# is what the driver needs, and Pgq looks for; workers do without.
if missing := [name for name in ("pyarrow", "pyspark") if find_spec(name) is None]:
    from pgq._extras import install

    extra = "spark" if "pyspark" in missing else "spark-cluster"
    raise ModuleNotFoundError(
        f"pgq.spark needs the module {missing[0]}: {install(extra)}", name=missing[0]
    )

import pyspark

if int(pyspark.__version__.split(".")[0]) < 4:
    raise ImportError(f"pgq.spark needs PySpark 4.0 or newer, this is {pyspark.__version__}")

from pgq.spark._client import Pgq, Step
from pgq.spark._commit import PartlyWritten
from pgq.spark._json import to_json
from pgq.spark._lag import Lag, LagListener, PartitionLag, lag
from pgq.spark._refusals import RowRefused
from pgq.spark._register import register
from pgq.spark._source import PgqDataSource
from pgq.spark._write import WriteResult

__all__ = [
    "Lag",
    "LagListener",
    "PartitionLag",
    "PartlyWritten",
    "Pgq",
    "PgqDataSource",
    "RowRefused",
    "Step",
    "WriteResult",
    "lag",
    "register",
    "to_json",
]
