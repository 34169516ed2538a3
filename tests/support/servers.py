"""The servers of tests: with pgq's files, and in memory where there is room."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from pgq.embedded import Server
from support import coverage
from support.house import MIGRATIONS, ROOT

__all__ = ["FAST", "start"]

# nothing needs to survive a crash of the machine; tests that crash the server use their own
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_prepared_transactions": "20",
    "max_locks_per_transaction": "256",
    "max_wal_size": "256MB",
    **coverage.SETTINGS,
}

MEMORY = "/dev/shm"
ROOM = 1 << 30
"""Bytes that the servers of one process of a run may need."""


def start(server: Server) -> Server:
    """Start a server and make the extension known to it."""
    with _in_memory():
        server.start()
    server.install_extension(ROOT / "pgq.control", sorted(MIGRATIONS.glob("pgq--*.sql")))
    return server


@contextmanager
def _in_memory() -> Iterator[None]:
    """Have temporary folders made in memory.

    A database is a thousand files: on a disk, making and removing one costs several times as much.
    """
    before = tempfile.tempdir
    tempfile.tempdir = MEMORY if _has_room() else before
    try:
        yield
    finally:
        tempfile.tempdir = before


def _has_room() -> bool:
    try:
        about = os.statvfs(MEMORY)
    except OSError:
        return False
    # Linux tells, and nobody else has such a folder
    if about.f_flag & getattr(os, "ST_NOEXEC", 0):
        return False
    free = min(about.f_bavail * about.f_frsize, psutil.virtual_memory().available)
    return free > ROOM * int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
