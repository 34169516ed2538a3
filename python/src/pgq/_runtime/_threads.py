"""What threads wait with; `_tasks` has the same for asyncio."""

from __future__ import annotations

import concurrent.futures
import contextvars
import inspect
import queue
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import psycopg

from pgq._runtime._errors import HandlerTimeout
from pgq._runtime._state import Abandoned

__all__ = [
    "Cancelled",
    "Future",
    "InvalidStateError",
    "Notice",
    "Running",
    "Semaphore",
    "Wakeup",
    "answer",
    "caller",
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


class Wakeup:
    """Wakes the thread or task that waits for it, once for each call of wake."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._pipe: tuple[socket.socket, socket.socket] | None = None

    def wake(self) -> None:
        """Wake the one that waits, or the next one to wait."""
        self._event.set()
        pipe = self._pipe
        if pipe is not None:
            with suppress(OSError):  # it was closed just now
                pipe[1].send(b"!")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is woken; False: the time was up before."""
        if not self._event.wait(timeout):
            return False
        self._event.clear()
        return True

    def wait_with(self, descriptor: int, timeout: float) -> None:
        """Wait until it is woken, or until there is something to read."""
        if self._pipe is None:
            self._pipe = socket.socketpair()
        if self._event.is_set():
            self._event.clear()
            return
        with selectors.DefaultSelector() as selector:  # `select` knows only small descriptors
            selector.register(descriptor, selectors.EVENT_READ)
            selector.register(self._pipe[0], selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(timeout)]
        if self._pipe[0] in ready:
            self._pipe[0].recv(64)
            self._event.clear()

    def close(self) -> None:
        """Free what `wait_with` needed."""
        pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            end.close()


class Running:
    """Something that runs beside its caller."""

    def __init__(self, ended: threading.Event, errors: list[BaseException]) -> None:
        self._ended = ended
        self._errors = errors

    def interrupt(self) -> None:
        """Do nothing: a thread cannot be stopped. Its job says `lost`, and `check` raises."""

    def resume(self) -> bool:
        """There is nothing to go on behind."""
        return False

    def join(self, timeout: float | None = None) -> bool:
        """Wait for its end; False: the time was up before. Its error is raised."""
        self._ended.wait(timeout)
        if self._errors:
            raise self._errors[0]
        return self._ended.is_set()


def spawn(
    function: Callable[..., None],
    *arguments: Any,
    name: str,
    then: Callable[[], None] | None = None,
) -> Running:
    """Run a function beside the caller, and `then` once `join` knows that it has ended.

    The thread does not keep the program alive.
    """
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)
        finally:
            # the thread itself may take its time: whatever it keeps is freed behind this
            ended.set()
            if then is not None:
                then()

    threading.Thread(target=run, name=name, daemon=True).start()
    return Running(ended, errors)


class _Aside:
    """A thread that makes calls, one after the other; it ends with this object."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(
            target=_serve, args=(self._calls,), name="pgq-handler", daemon=True
        ).start()

    def __del__(self) -> None:
        self._calls.put(None)

    def call(self, function: Callable[[], Any], timeout: float) -> concurrent.futures.Future[Any]:
        """Call, and return what has come of it; it is not done where the time was up before."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def run() -> None:
            try:
                result = context.run(function)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._calls.put(run)
        concurrent.futures.wait([future], timeout)
        return future


def _serve(calls: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # and what it has


def caller(
    function: Callable[..., Any], timeout: float | None, abandoned: Abandoned
) -> Callable[..., Any]:
    """What runs a handler: the handler itself; TypeError: it cannot run here.

    One with a timeout runs in a thread beside, which serves the next call as well, unless it was
    given up: then there is a new one.
    """
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{getattr(function, '__qualname__', function)} is a coroutine function:"
            " it needs the asynchronous class"
        )
    if timeout is None:
        return function
    most = timeout
    free: list[_Aside] = []

    def limited(*arguments: Any) -> Any:
        try:
            aside = free.pop()
        except IndexError:
            aside = _Aside()
        future = aside.call(partial(function, *arguments), most)
        if not future.done():
            abandoned.add(function, most)
            future.add_done_callback(lambda _: abandoned.end())
            raise HandlerTimeout(most)
        free.append(aside)
        return future.result()

    return limited


def notices(connection: psycopg.Connection[Any], wakeup: Wakeup, timeout: float) -> list[Notice]:
    """What has come by NOTIFY, as soon as something has; the wakeup ends the wait as well."""
    wakeup.wait_with(connection.fileno(), timeout)
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
            if handler is not None:  # one that Python does not know
                signal.signal(number, handler)
