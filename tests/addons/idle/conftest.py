"""The tests of this folder share one database and keep apart by names."""

from support.shared_database import clock, dsn, queue

__all__ = ["clock", "dsn", "queue"]
