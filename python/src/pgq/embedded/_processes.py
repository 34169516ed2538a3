"""Processes that are not children of this Python: whether they live, and how they are ended."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from pgq.embedded._memory import SharedMemory

__all__ = ["alive", "end_orphan", "is_postgres", "kill_tree", "wait_until"]


def alive(pid: int) -> bool:
    """Whether a process exists and is more than an uncollected exit status."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def is_postgres(pid: int) -> bool:
    """Whether a living process is a server, and not another one that was given the same number."""
    try:
        return alive(pid) and psutil.Process(pid).name() == "postgres"
    except psutil.NoSuchProcess:
        return False


def kill_tree(pid: int, data: Path) -> SharedMemory:
    """SIGKILL a postmaster and all below it; it is stopped first, so that it starts no more.

    Returns the shared memory that they had no time to remove. ``data`` is the server's data folder.
    """
    try:
        postmaster = psutil.Process(pid)
        postmaster.suspend()
        family = [postmaster, *postmaster.children(recursive=True)]
    except psutil.NoSuchProcess:
        return SharedMemory()
    left = SharedMemory.of(data, family)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until(lambda: not any(alive(process.pid) for process in family), 10.0)
    return left


def end_orphan(pid: int, data: Path) -> None:
    """End the server of a Python that is gone; it removes its shared memory itself if it can."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).send_signal(signal.SIGQUIT)
    if not wait_until(lambda: not alive(pid), 10.0):
        kill_tree(pid, data).remove()


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Look again and again; False when the condition does not hold in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
