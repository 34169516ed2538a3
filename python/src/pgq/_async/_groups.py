"""The groups of the client's methods."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from pgq._async._admin import Admin
from pgq._async._bulk import Bulk
from pgq._async._calling import Calling
from pgq._async._jobs import Jobs
from pgq._async._monitor import Monitor
from pgq._async._schedules import Schedules

__all__ = ["Groups"]


class Groups(Calling):
    """Methods beside a program's daily ones, on the same connection."""

    @cached_property
    def admin(self) -> Admin:
        """Topics, groups, queues and subscriptions with their settings, access, and cleanup."""
        return Admin(self._connection, self._encoding)

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules, and writing what is due."""
        return Schedules(self._connection, self._encoding)

    @cached_property
    def jobs(self) -> Jobs:
        """Look at the jobs of a queue, and act on many of them."""
        return Jobs(self._connection, self._encoding)

    @cached_property
    def monitor(self) -> Monitor:
        """Figures of topics, queues and groups, the workers, and failures of cleanup."""
        return Monitor(self._connection, self._encoding)

    @cached_property
    def bulk(self) -> Bulk:
        """Bulk writes of many writers, and reading by ranges of offsets, as Spark does it."""
        return Bulk(self._connection, self._encoding)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            for group, kind in _KINDS.items():
                if not name.startswith("_") and hasattr(kind, name):
                    raise AttributeError(f"{name} is in a group: client.{group}.{name}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_KINDS = {"admin": Admin, "schedules": Schedules, "jobs": Jobs, "monitor": Monitor, "bulk": Bulk}
