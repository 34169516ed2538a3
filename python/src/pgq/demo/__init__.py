"""The demo: the flights that left New York in 2013 go through a topic, two groups and a queue."""

from __future__ import annotations

from pgq.demo._common import DemoError
from pgq.demo._main import run

__all__ = ["DemoError", "run"]
