"""Clusters of two servers take time: all of this folder is left out of `make test`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pgq.embedded import Server

StartServer = Callable[..., Server]
StartStandby = Callable[..., Server]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def start_standby(start_server: StartServer) -> StartStandby:
    """Start a streaming replica of a server; takes settings for it."""

    def start(primary: Server, name: str = "standby", **settings: str) -> Server:
        folder = primary.directory / name
        primary.run(
            "pg_basebackup",
            *("-D", folder / "data", "--write-recovery-conf", "--checkpoint=fast"),
            as_owner=True,
        )
        folder.chmod(0o755)
        return start_server(folder, settings={"fsync": "off", "hot_standby": "on", **settings})

    return start
