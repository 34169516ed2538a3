"""What tasks of asyncio wait with; `_threads` has the same for threads."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
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

Cancelled = asyncio.CancelledError
Future = asyncio.Future
InvalidStateError = asyncio.InvalidStateError
Semaphore = asyncio.Semaphore
Notice = psycopg.Notify


class Wakeup:
    """Wakes the thread or task that waits for it, once for each call of wake."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Wake the one that waits, or the next one to wait."""
        self._event.set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is woken; False: the time was up before."""
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


TIDY = 1.0
"""Seconds that a coroutine has to end behind its cancellation, before it is given up."""


def caller(
    function: Callable[..., Any], timeout: float | None, abandoned: Abandoned
) -> Callable[..., Awaitable[Any]]:
    """What runs a handler: a coroutine function as it is, a plain one in a thread.

    One with a timeout runs in a task of its own, which is cancelled; a thread cannot be.
    """
    if inspect.iscoroutinefunction(function):
        call: Callable[..., Awaitable[Any]] = function
    else:

        async def call(*arguments: Any) -> Any:
            result, error = await in_thread(function, *arguments)
            if error is not None:
                raise error
            return await result if inspect.isawaitable(result) else result

    if timeout is None:
        return call
    most = timeout

    async def leave(part: asyncio.Future[Any]) -> None:
        if isinstance(part, asyncio.Task):
            part.cancel()
            await asyncio.wait([part], timeout=TIDY)
        if not part.done():
            abandoned.add(function, most)
            part.add_done_callback(lambda _: abandoned.end())

    async def limited(*arguments: Any) -> Any:
        end = time.monotonic() + most
        if inspect.iscoroutinefunction(function):
            part: asyncio.Future[Any] = asyncio.ensure_future(_outcome(function(*arguments)))
        else:
            part = in_thread(function, *arguments)
        while True:
            try:
                await asyncio.wait([part], timeout=max(end - time.monotonic(), 0.0))
            except asyncio.CancelledError:
                await leave(part)
                raise
            if not part.done():
                await leave(part)
                raise HandlerTimeout(most)
            result, error = part.result()
            if error is not None:
                raise error
            if inspect.iscoroutinefunction(function) or not inspect.isawaitable(result):
                return result
            part = asyncio.ensure_future(_outcome(result))

    return limited


async def _outcome(result: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """What came of it. A task that ends by SystemExit would end the loop."""
    try:
        return await result, None
    except BaseException as error:
        return None, error


def in_thread(
    function: Callable[..., Any], *arguments: Any
) -> asyncio.Future[tuple[Any, BaseException | None]]:
    """Run a plain function in a thread of its own, which does not keep the program alive.

    The future has the result and the error, one of which is None. The executor of asyncio has a few
    threads for all, and the end of the loop waits for them.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def tell(result: Any, error: BaseException | None) -> None:
        if not future.done():  # who waited was cancelled
            future.set_result((result, error))

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
    return future


async def notices(
    connection: psycopg.AsyncConnection[Any], wakeup: Wakeup, timeout: float
) -> list[Notice]:
    """What has come by NOTIFY, as soon as something has; the wakeup ends the wait as well."""
    found: list[Notice] = []

    async def listen() -> None:
        async for notice in connection.notifies(timeout=timeout, stop_after=1):
            found.append(notice)

    listening = asyncio.ensure_future(listen())
    ringing = asyncio.ensure_future(wakeup.wait())
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
