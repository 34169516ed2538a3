"""The one error of this package."""

__all__ = ["SparkSetupError"]


class SparkSetupError(RuntimeError):
    """Java, the JDBC driver or PySpark is missing here; the message says what to do."""
