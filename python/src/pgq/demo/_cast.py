"""The demo's processes: started, killed, and dismissed in the end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from typing import Any

from pgq.demo._common import DemoError

__all__ = ["Cast"]


class Cast:
    """The demo's processes."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[SpawnProcess] = []
        self.stop = self._context.Event()
        self.gate = self._context.Event()
        self.killed: SpawnProcess | None = None

    def start(self, function: Callable[..., None], *arguments: Any) -> SpawnProcess:
        process = self._context.Process(target=function, args=arguments, daemon=True)
        # Ctrl-C reaches all processes of a terminal: this one alone decides when the others stop.
        # What is blocked stays blocked in a process that is started.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._processes.append(process)
        return process

    def pipe(self) -> tuple[Pipe, Pipe]:
        return self._context.Pipe(duplex=False)

    def kill(self, process: SpawnProcess) -> None:
        """End a process at once, as a crash would."""
        self.killed = process
        if process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
        process.join()

    def require_health(self) -> None:
        """Raise when a process has failed that nobody killed."""
        for process in self._processes:
            if process is not self.killed and process.exitcode not in (None, 0):
                raise DemoError(f"a process of the demo ended with status {process.exitcode}")

    def dismiss(self) -> None:
        """Ask all to stop, and end those that do not."""
        self.stop.set()
        deadline = time.monotonic() + 5.0
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.terminate()
                process.join(2.0)
            if process.is_alive():
                process.kill()
