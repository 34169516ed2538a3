"""What tasks of asyncio wait with; `_threads` has the same for threads."""

from __future__ import annotations

import asyncio
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
    "accepts",
    "answer",
    "call",
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


class Running:
    """Something that runs beside its caller."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task
        self._stopped = False

    def interrupt(self) -> None:
        """Raise Cancelled in it, where it waits."""
        self._stopped = True
        self._task.cancel()

    def resume(self) -> bool:
        """Go on behind an `interrupt` that was caught; False: somebody else has cancelled it."""
        if not self._stopped:
            return False
        self._stopped = False
        uncancel = getattr(self._task, "uncancel", None)  # since Python 3.11
        return uncancel is None or uncancel() == 0

    async def join(self, timeout: float | None = None) -> bool:
        """Wait for its end; False: the time was up before. Its error is raised."""
        done, _ = await asyncio.wait([self._task], timeout=timeout)
        if done and not self._task.cancelled():
            self._task.result()
        return bool(done)


def spawn(function: Callable[..., Awaitable[None]], *arguments: Any, name: str) -> Running:
    """Run a coroutine function beside the caller."""

    async def run() -> None:
        await function(*arguments)

    return Running(asyncio.create_task(run(), name=name))


def accepts(function: Callable[..., Any]) -> None:
    """Whether a handler can run here: all can, plain functions in threads of their own."""


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a handler; a plain function runs in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    result = await asyncio.to_thread(function, *arguments)
    return await result if inspect.isawaitable(result) else result


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


@contextmanager
def signals(heard: Callable[[], None]) -> Iterator[None]:
    """Within this block SIGTERM and SIGINT call `heard`, if this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        loop.add_signal_handler(number, heard)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)
