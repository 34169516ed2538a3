"""Stopping servers when Python ends, also by a signal that the program does not handle itself."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Protocol

__all__ = ["forget", "watch"]


class _Stoppable(Protocol):
    def stop(self) -> None: ...


_running: list[_Stoppable] = []


def watch(server: _Stoppable) -> None:
    """Have the server stopped at exit, and at signals which the program does not handle itself."""
    if server not in _running:
        _running.append(server)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _stop_and_die)


def forget(server: _Stoppable) -> None:
    """The server is stopped already."""
    with contextlib.suppress(ValueError):
        _running.remove(server)


def _stop_all() -> None:
    for server in list(_running):
        with contextlib.suppress(Exception):
            server.stop()


def _stop_and_die(number: int, frame: FrameType | None) -> None:
    _stop_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    # the first process of a container is not killed by its own signals
    os._exit(128 + number)


atexit.register(_stop_all)
