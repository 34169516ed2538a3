"""Spark's part of the demo in a thread of its own, so that a signal finds nothing half said.

A signal ends what the main thread is doing. Were that a question to Java, its answer would be
taken for that of the next question, and what the demo leaves could not be taken down in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Event, Thread
from typing import TypeVar

from pyspark.sql import SparkSession

__all__ = ["apart"]

Result = TypeVar("Result")

PATIENCE = 30.0
"""Seconds that the thread has to end when the demo was stopped."""


def apart(session: SparkSession, work: Callable[[Event], Result]) -> Result:
    """Do the work in a thread, and end it in order where something ends the waiting for it.

    It is given an event: when that is set it has to stop.
    """
    stopped = Event()
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(work(stopped))
        except BaseException as error:
            outcome.set_exception(error)

    thread = Thread(target=run, name="pgq demo-spark", daemon=True)
    thread.start()
    try:
        return outcome.result()
    finally:
        stopped.set()
        deadline = time.monotonic() + PATIENCE
        while thread.is_alive() and time.monotonic() < deadline:
            # again and again, since it may be about to start the next one
            with suppress(Exception):
                for query in session.streams.active:
                    query.stop()
                session.sparkContext.cancelAllJobs()
            thread.join(0.2)
