"""What tasks of asyncio wait with; `_threads` has the same for threads."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
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
    "answer",
    "caller",
    "new_future",
    "notices",
    "signals",
    "spawn",
]

Cancelled = asyncio.CancelledError
Future = asyncio.Future
InvalidStateError = asyncio.InvalidStateError
Semaphore = asyncio.Semaphore
Notice = psycopg.Notify


class Bell:
    """Wakes whoever waits for it, once for each ring."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake whoever waits, or whoever waits next."""
        self._event.set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it rings; False: the time was up before."""
        if not self._event.is_set():
            if timeout is not None and timeout <= 0:
                await asyncio.sleep(0)
                return False
            timer = None
            over = False
            if timeout is not None:

                def end() -> None:
                    nonlocal over
                    over = not self._event.is_set()
                    self._event.set()

                timer = asyncio.get_running_loop().call_later(timeout, end)
            try:
                await self._event.wait()
            finally:
                if timer is not None:
                    timer.cancel()
            if over:
                self._event.clear()
                return False
        self._event.clear()
        return True

    def close(self) -> None:
        """There is nothing to free."""


class Running:
    """Something that runs beside its caller."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task
        self._interrupts = 0

    def interrupt(self) -> None:
        """Raise Cancelled in it, where it waits."""
        self._interrupts += 1
        self._task.cancel()

    def resume(self) -> bool:
        """Go on behind an `interrupt` that was caught; False: somebody else has cancelled it."""
        left = 0 if self._interrupts else 1
        while self._interrupts:
            self._interrupts -= 1
            uncancel = getattr(self._task, "uncancel", None)  # since Python 3.11
            left = 0 if uncancel is None else uncancel()
        return left == 0

    async def join(self, timeout: float | None = None) -> bool:
        """Wait for its end; False: the time was up before. Its error is raised."""
        done, _ = await asyncio.wait([self._task], timeout=timeout)
        if done and not self._task.cancelled():
            self._task.result()
        return bool(done)


def spawn(
    function: Callable[..., Awaitable[None]],
    *arguments: Any,
    name: str,
    then: Callable[[], None] | None = None,
) -> Running:
    """Run a coroutine function beside the caller, and `then` once `join` knows of its end."""

    async def run() -> None:
        await function(*arguments)

    task = asyncio.create_task(run(), name=name)
    if then is not None:
        task.add_done_callback(lambda _: then())
    return Running(task)


def caller(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """What runs a handler: a coroutine function as it is, a plain one in a thread."""
    if inspect.iscoroutinefunction(function):
        return function

    async def call(*arguments: Any) -> Any:
        result = await in_thread(function, *arguments)
        return await result if inspect.isawaitable(result) else result

    return call


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a plain function in a thread of its own, which does not keep the program alive.

    The executor of asyncio has a few threads for all, and the end of the loop waits for them.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def tell(result: Any, error: BaseException | None) -> None:
        if future.done():  # who waited was cancelled
            return
        if isinstance(error, StopIteration):  # a future cannot have that one
            error = RuntimeError(f"StopIteration: {error}")
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result: Any = None
        failed: BaseException | None = None
        try:
            result = context.run(function, *arguments)
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, result, failed)

    threading.Thread(target=run, name="pgq-handler", daemon=True).start()
    return await future


async def notices(
    connection: psycopg.AsyncConnection[Any], bell: Bell, timeout: float
) -> list[Notice]:
    """What has come by NOTIFY, as soon as something has; the bell ends the wait as well."""
    found: list[Notice] = []

    async def listen() -> None:
        async for notice in connection.notifies(timeout=timeout, stop_after=1):
            found.append(notice)

    listening = asyncio.ensure_future(listen())
    ringing = asyncio.ensure_future(bell.wait())
    try:
        await asyncio.wait([listening, ringing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, ringing):
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
    if not listening.cancelled():
        listening.result()
    return found


def new_future() -> asyncio.Future[Any]:
    """What somebody will be told later."""
    return asyncio.get_running_loop().create_future()


async def answer(future: asyncio.Future[Any]) -> Any:
    """What a future was told."""
    return await future


_hearing: list[Callable[[], None]] = []
"""Several may run in one loop, where a signal has one handler."""
_before: dict[signal.Signals, Any] = {}
"""The handlers that were there before the first of them."""


def _hear() -> None:
    for heard in [*_hearing]:
        heard()


@contextmanager
def signals(heard: Callable[[], None]) -> Iterator[None]:
    """Within this block SIGTERM and SIGINT call `heard`, if this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    if not _hearing:
        for number in (signal.SIGTERM, signal.SIGINT):
            _before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, _hear)
    _hearing.append(heard)
    try:
        yield
    finally:
        _hearing.remove(heard)
        if not _hearing:
            for number, handler in _before.items():
                loop.remove_signal_handler(number)
                if handler is not None:
                    signal.signal(number, handler)
