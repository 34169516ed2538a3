"""Waiting for what other threads and sessions do; no test sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

import psycopg

from support.session import Session

__all__ = [
    "PATIENCE",
    "aside",
    "blocked",
    "results",
    "settled",
    "started",
    "wait_until",
    "wait_until_blocked",
]

Result = TypeVar("Result")

PATIENCE = 30.0
"""Seconds after which a thread that should have ended counts as stuck."""


def wait_until(condition: Callable[[], Result], timeout: float = 10.0, what: str = "") -> Result:
    """Poll until the condition holds and return what it returned; fail after the timeout."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain {what}".rstrip())
        time.sleep(0.005)


def wait_until_blocked(observer: psycopg.Connection[Any], pid: int, timeout: float = 10.0) -> None:
    """Return when the server process waits for a lock, as ``observer`` sees it.

    The observer must be in autocommit: pg_stat_activity is a snapshot within a transaction.
    """
    wait_until(lambda: _waits(observer, pid), timeout, f"for process {pid} to block")


def aside(work: Callable[[], Result]) -> Future[Result]:
    """Run something in a thread of its own; the future has its result or its error."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def blocked(observer: Session, waiter: Session, work: Callable[[], Result]) -> Future[Result]:
    """Run something in the waiter's session and return once it waits for a lock."""
    future = aside(work)
    wait_until_blocked(observer, waiter.pid)
    assert not future.done()
    return future


def started(observer: Session, waiter: Session, work: Callable[[], Result]) -> Future[Result]:
    """Run something in the waiter's session; return once it waits for a lock or has ended."""
    future = aside(work)
    settled(observer, waiter, future)
    return future


def settled(observer: Session, session: Session, future: Future[Any]) -> None:
    """Return when the work of the session has ended, or waits for a lock."""
    pid = session.pid
    wait_until(
        lambda: future.done() or _waits(observer, pid),
        PATIENCE,
        "for a session to end its work or to wait",
    )


def results(*futures: Future[Any]) -> list[Any]:
    """What all of them have come to, once the last one has ended; then the first error, if any.

    Not before: the end of a test closes the connections, and no thread may be using one then.
    """
    wait(futures, 2 * PATIENCE)
    return [future.result(0) for future in futures]


def _waits(observer: psycopg.Connection[Any], pid: int) -> bool:
    row = observer.execute(
        "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", [pid]
    ).fetchone()
    return bool(row and row[0])
