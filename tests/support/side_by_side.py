"""How a run is shared out among processes (``pytest -n auto``): by groups of tests."""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["pytest_xdist_auto_num_workers", "pytest_xdist_make_scheduler"]

# What takes longest begins first, so that no process is left alone with it.
FIRST = (
    "spark",
    "spark, killed",
    "tests/explorer/test_explorer.py",
    "tests/spark/test_connect.py",
    "tests/demo/test_demo_spark.py",
    "tests/spark/test_shards_servers.py",
)

# all their tests use the Spark session of the process, or so do those that take long
WITH_SPARK = ("tests/spark/", "tests/local_spark/test_session.py")
# a session of their own, since one process would take longer than all others for the whole
KILLED = (
    "tests/spark/test_cluster.py",
    "tests/spark/test_source_killed.py",
    "tests/spark/test_writer_killed.py",
)
# but these have a JVM of their own
WITHOUT = (
    "tests/spark/test_connect.py",
    "tests/spark/test_credentials.py",
    "tests/spark/test_missing_driver.py",
    "tests/spark/test_shards_servers.py",
    "tests/spark/test_shipping.py",
)


def _group(nodeid: str) -> str:
    """What runs in one process: the tests of a file, and those that use the Spark session."""
    path = nodeid.partition("::")[0]
    if path in KILLED:
        return "spark, killed"
    if path.startswith("tests/documentation/"):
        return "documentation"
    return "spark" if path.startswith(WITH_SPARK) and path not in WITHOUT else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many processes ``-n auto`` means: many tests wait more than they compute."""
    return 0 if os.environ.get("DATABASE_URL") else 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out the groups."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            for group in reversed(FIRST):
                if group in self.workqueue:
                    self.workqueue.move_to_end(group, last=False)
            super()._assign_work_unit(node)

    return Groups(config, log)
