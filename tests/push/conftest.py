"""A receiver, a topic of one partition, and push workers in threads of the test."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.log import new_topic
from support.push_config import settings
from support.receiver import Receiver
from support.session import Session
from support.waiting import PATIENCE, wait_until

pytest.importorskip("httpx", reason="no httpx: pip install 'pgq-sql[push]'")

from pgq.push import PushWorker, parse


@dataclass
class Counted:
    """Figures that a test can look at."""

    counters: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        self.counters[(name.removeprefix("pgq_push_"), *labels.values())] += amount

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        assert value >= 0


class Running:
    """A push worker in a thread."""

    def __init__(self, text: str, dsn: str | None) -> None:
        self.figures = Counted()
        self.error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(text, dsn), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def _run(self, text: str, dsn: str | None) -> None:
        async def work() -> None:
            self.worker = PushWorker(parse(text), database=dsn, figures=self.figures)
            self._loop = asyncio.get_running_loop()
            self._ready.set()
            await self.worker.run()

        try:
            asyncio.run(work())
        except BaseException as error:
            self.error = error

    def told_to_stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.worker.stop)

    def ended(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.told_to_stop()
        self.ended()

    def counted(self, *what: str) -> int:
        return self.figures.counters[what]


StartPush = Callable[..., Running]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver().start()
    yield receiver
    receiver.close()


@pytest.fixture
def topic(log: Session) -> str:
    """A topic of one partition with a group "readers" and no message."""
    return new_topic(log)


@pytest.fixture
def run_push(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> Iterator[StartPush]:
    """Start push workers of a configuration, on a database other than that of the configuration."""
    caplog.set_level(logging.DEBUG, logger="pgq.push")
    started: list[Running] = []

    def start(text: str, dsn: str | None) -> Running:
        running = Running(text, dsn)
        started.append(running)
        return running

    yield start
    receiver.released.set()
    for running in started:
        running.told_to_stop()
    for running in started:
        running.ended()


@pytest.fixture
def push(shared_dsn: str, topic: str, receiver: Receiver, run_push: StartPush) -> StartPush:
    """Start push workers; what is given goes into the configuration."""

    def start(**others: Any) -> Running:
        to = {"topic": topic, "url": receiver.url, **others}
        return run_push(settings(**to), shared_dsn)

    return start


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[dict[str, Any]]]:
    """The facts of the log lines of an event, as soon as there is one."""

    def of(event: str) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            return [
                record.pgq_fields
                for record in [*caplog.records]
                if getattr(record, "pgq_event", None) == event
            ]

        return wait_until(found, PATIENCE, f"for the event {event}")

    return of
