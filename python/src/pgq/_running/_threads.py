"""What threads wait with; `_tasks` has the same for asyncio."""

from __future__ import annotations

import concurrent.futures
import inspect
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

__all__ = [
    "Bell",
    "Cancelled",
    "Future",
    "InvalidStateError",
    "Notice",
    "Running",
    "Semaphore",
    "accepts",
    "answer",
    "call",
    "new_future",
    "notices",
    "signals",
    "spawn",
]

Future = concurrent.futures.Future
InvalidStateError = concurrent.futures.InvalidStateError
Semaphore = threading.Semaphore
Notice = psycopg.Notify


class Cancelled(BaseException):
    """Never raised: nobody can stop a thread."""


class Bell:
    """Wakes whoever waits for it, once for each ring."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._pipe: tuple[socket.socket, socket.socket] | None = None

    def ring(self) -> None:
        """Wake whoever waits, or whoever waits next."""
        self._event.set()
        if self._pipe is not None:
            self._pipe[1].send(b"!")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it rings; False: the time was up before."""
        if not self._event.wait(timeout):
            return False
        self._event.clear()
        return True

    def wait_with(self, descriptor: int, timeout: float) -> None:
        """Wait until it rings, or until there is something to read."""
        if self._pipe is None:
            self._pipe = socket.socketpair()
        if self._event.is_set():
            self._event.clear()
            return
        ready, _, _ = select.select([descriptor, self._pipe[0].fileno()], [], [], timeout)
        if self._pipe[0].fileno() in ready:
            self._pipe[0].recv(64)
            self._event.clear()

    def close(self) -> None:
        """Free what `wait_with` needed."""
        pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            end.close()


class Running:
    """Something that runs beside its caller."""

    def __init__(self, thread: threading.Thread, errors: list[BaseException]) -> None:
        self._thread = thread
        self._errors = errors

    def interrupt(self) -> None:
        """Do nothing: a thread cannot be stopped. Its job says `lost`, and `check` raises."""

    def resume(self) -> bool:
        """There is nothing to go on behind."""
        return False

    def join(self, timeout: float | None = None) -> bool:
        """Wait for its end; False: the time was up before. Its error is raised."""
        self._thread.join(timeout)
        if self._errors:
            raise self._errors[0]
        return not self._thread.is_alive()


def spawn(function: Callable[..., None], *arguments: Any, name: str) -> Running:
    """Run a function beside the caller; the thread does not keep the program alive."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return Running(thread, errors)


def accepts(function: Callable[..., Any]) -> None:
    """Raise TypeError for a handler that cannot run here."""
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{getattr(function, '__qualname__', function)} is a coroutine function:"
            " it needs the asynchronous class"
        )


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a handler."""
    return function(*arguments)


def notices(connection: psycopg.Connection[Any], bell: Bell, timeout: float) -> list[Notice]:
    """What has come by NOTIFY, as soon as something has; the bell ends the wait as well."""
    bell.wait_with(connection.fileno(), timeout)
    return list(connection.notifies(timeout=0))


def new_future() -> concurrent.futures.Future[Any]:
    """What somebody will be told later."""
    return concurrent.futures.Future()


def answer(future: concurrent.futures.Future[Any]) -> Any:
    """What a future was told."""
    return future.result()


@contextmanager
def signals(heard: Callable[[], None]) -> Iterator[None]:
    """Within this block SIGTERM and SIGINT call `heard`, if this is the main thread.

    They do so in a thread of its own: the main thread may hold the lock that `heard` needs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, frame: object) -> None:
        threading.Thread(target=heard, daemon=True).start()

    before = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
