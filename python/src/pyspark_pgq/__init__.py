"""Spark looks for data sources in modules with such names, so ``format("pgq")`` needs no Python."""

from contextlib import suppress

# an error here would be one of all data sources
with suppress(ImportError):
    from pgq.spark._source import PgqDataSource as DefaultSource  # noqa: F401
