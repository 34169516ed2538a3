"""A Spark session on one's own machine, for the demo, the tests and the benchmarks.

It looks for a Java and for the JDBC driver in a few places and downloads nothing. None of this is
needed on a cluster, which brings a session, a Java and the driver of its own.
"""

from pgq.local_spark._errors import SparkSetupError
from pgq.local_spark._java import find_java
from pgq.local_spark._jdbc import find_jdbc_driver
from pgq.local_spark._session import local_session

__all__ = ["SparkSetupError", "find_java", "find_jdbc_driver", "local_session"]
