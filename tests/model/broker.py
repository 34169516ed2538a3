"""What pgq promises, in memory: topics, groups, queues, jobs and schedules as plain Python.

Each method has the name of a function of pgq. It takes that function's arguments and ``got``, what
the database answered; it changes the model and asserts that the answer is a right one, or raises
the error that is to be expected. ``got`` decides only where pgq leaves a choice open: which free
partition, which ids and tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from model.access import Access

__all__ = ["Broker"]


@dataclass
class Broker(Access):
    """The whole model."""

    def cleanup(self, got: Any) -> None:
        """The jobs; what truncation took is told by `forget` and `forget_archived`."""
        self.clean_jobs()
        self.clean_effects()
        self.clean_workers()
