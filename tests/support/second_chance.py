"""Which tests may fail once on a busy machine: those of browsers, Spark and killed processes.

They are marked ``outside``. So are those of terminals, and the explorer: it takes a session for
waiting by what the server shows, so another process with a lock disturbs it, and a finding of its
own comes again with its seed. Where all tests are required, a run in which any other has failed
ends with 10 instead of 1: what fails in SQL once has failed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_runtest_logreport",
    "pytest_sessionfinish",
]

FOLDERS = {
    *("cli", "demo", "drivers", "embedded", "explorer", "exporter", "fault_runs", "faults"),
    *("local_spark", "pgbouncer", "push", "servers", "spark", "ui", "worker"),
}
INSIDE_FAILED = 10

_failed: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark them."""
    for item in items:
        folder = Path(item.path).relative_to(config.rootpath / "tests").parts[0]
        if folder in FOLDERS:
            item.add_marker("outside")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what has failed and may not."""
    if report.failed and "outside" not in report.keywords:
        _failed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Say so."""
    if _failed and os.environ.get("PGQ_REQUIRE_ALL") and session.exitstatus == 1:
        session.exitstatus = INSIDE_FAILED
