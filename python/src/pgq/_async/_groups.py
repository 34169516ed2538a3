"""The groups of the client's methods."""

from __future__ import annotations

from functools import cached_property

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
