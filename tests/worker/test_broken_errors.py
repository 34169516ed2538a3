"""Exceptions whose own methods raise: a failed attempt like others, and no end of a worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq._runtime._errors import failure, plain
from pgq.worker import AsyncWorker, Reject, Retry, Worker
from pgq.worker.hooks import OpenTelemetry
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> None:
    _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=2, backoff=timedelta(milliseconds=10))
    return client


class NoText(Exception):
    """What libraries have, too: a text of an answer that is not there."""

    def __str__(self) -> str:
        return self.missing.text  # type: ignore[attr-defined, no-any-return]

    __repr__ = __str__


class Abrupt(Exception):
    def __str__(self) -> str:
        raise GeneratorExit


class NotEvenTrue(Exception):
    def __bool__(self) -> bool:
        raise ValueError("neither")

    def __eq__(self, other: object) -> bool:
        raise ValueError("equal to nothing")

    def __hash__(self) -> int:
        raise ValueError("no hash")


class NoTrace(Exception):
    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise ValueError("no trace")

    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise ValueError("no cause")


class NoTextToStop(StopIteration):
    __str__ = NoText.__str__


class Late(Retry):
    """Without a call of the `__init__` of its base."""

    def __init__(self) -> None:
        pass


class Soon(Retry):
    delay = "soon"  # type: ignore[assignment]

    def __init__(self) -> None:
        pass


class Bare(Reject):
    def __init__(self) -> None:
        pass

    @property
    def error(self) -> str:  # type: ignore[override]
        raise ValueError("no reason")


ERRORS = [
    NoText(),
    Abrupt(),
    NotEvenTrue(),
    NoTrace(),
    NoTextToStop(),
    Late(),
    Bare(),
    GeneratorExit(),
    asyncio.CancelledError(),
    SystemExit(3),
    BaseException("of no kind"),
    Soon(),
    Reject(NoText()),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("batch", [None, 1])
def test_each_is_a_failed_attempt(
    dsn: str, client: Client, kind: Kind, as_handler: As, batch: int | None
) -> None:
    """All of them beside good jobs, and one worker for all."""
    done: list[int] = []

    def handle(number: Any) -> None:
        [number] = number if batch else [number]
        if number < len(ERRORS):
            raise ERRORS[number]
        done.append(number)

    worker = kind(dsn, concurrency=2)
    worker.handler("mail", batch=batch)(as_handler(handle))
    good = [*range(len(ERRORS), len(ERRORS) + 5)]
    client.enqueue_batch("mail", [*range(len(ERRORS)), *good])
    with working(worker):
        wait_until(lambda: len(client.jobs.dead_letters("mail")) == len(ERRORS))
        wait_until(lambda: sorted(done) == good)
    said = {letter.payload: letter.last_error for letter in client.jobs.dead_letters("mail")}
    assert said[0] == "NoText: its str() raises"
    assert said[2] == "NotEvenTrue"
    assert said[6] == "ValueError: no reason"
    assert said[12] == "its str() raises"


def test_a_plain_function_beside_tasks(dsn: str, client: Client) -> None:
    """What a thread raises arrives in the loop, whatever it is."""
    errors = [NoTextToStop(), NoText(), SystemExit(3), asyncio.CancelledError()]

    def handle(number: int) -> None:
        raise errors[number]

    worker = AsyncWorker(dsn)
    worker.handler("mail")(handle)
    client.enqueue_batch("mail", [*range(len(errors))])
    with working(worker):
        wait_until(lambda: len(client.jobs.dead_letters("mail")) == len(errors))


def test_outcomes_of_a_batch_that_raise(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    class Odd(dict[int, Any]):
        def __bool__(self) -> bool:
            raise ValueError("neither")

        def get(self, *_: Any) -> Any:
            raise ValueError("no outcome")

    def handle(payloads: list[Any], jobs: list[Any]) -> dict[int, Any]:
        return Odd({jobs[0].job_id: NoText()})

    worker = kind(dsn)
    worker.handler("mail", batch=2)(as_handler(handle))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    assert client.jobs.dead_letters("mail")[0].last_error == "NoText: its str() raises"


@contextmanager
def a_handler(emit: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            emit(record)

    handler = Handler()
    logging.getLogger("pgq").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("pgq").removeHandler(handler)


@pytest.mark.parametrize("error", [RuntimeError("full"), GeneratorExit(), NoText()])
def test_a_log_handler_that_raises(
    dsn: str, client: Client, kind: Kind, as_handler: As, error: BaseException
) -> None:
    def fail(record: logging.LogRecord) -> None:
        raise error

    def handle(number: int) -> None:
        if number == 0:
            raise NoText

    worker = kind(dsn, concurrency=1)
    worker.handler("mail")(as_handler(handle))
    client.enqueue_batch("mail", [0, 1, 2])
    with a_handler(fail), working(worker):
        wait_until(
            lambda: len(client.jobs.archived_jobs("mail")) == 2 and client.jobs.dead_letters("mail")
        )


@pytest.mark.parametrize("error", [GeneratorExit(), asyncio.CancelledError(), NoText()])
def test_a_hook_that_raises(
    dsn: str, client: Client, kind: Kind, as_handler: As, error: BaseException
) -> None:
    class Broken:
        def begin(self, *arguments: Any) -> None:
            raise error

        end: Any = begin

    worker = kind(dsn, hooks=[Broken()])
    worker.handler("mail")(as_handler(lambda payload: None))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.archived_jobs("mail"))


def test_a_span_of_an_error_without_a_text_ends() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    provider, spans = trace.TracerProvider(), memory.InMemorySpanExporter()
    provider.add_span_processor(export.SimpleSpanProcessor(spans))
    hook = OpenTelemetry(provider)
    begun = hook.begin("mail", [])
    with suppress(AttributeError):  # the runner logs it
        hook.end(begun, "mail", [], 0.1, NoText())
    [span] = spans.get_finished_spans()
    assert span.status.description == "its str() raises"


def test_texts() -> None:
    class Text(str):
        def replace(self, *_: Any) -> str:  # type: ignore[override]
            raise ValueError("never")

    class Named(type):
        @property
        def __name__(cls) -> str:
            raise ValueError("no name")

    class Nameless(Exception, metaclass=Named):
        pass

    class AText(Exception):
        def __str__(self) -> str:
            return Text("a\0b")

    assert failure(AText()) == "AText: a\\0b"
    assert failure(Nameless("x")) == "an error without a name: x"
    assert failure(KeyError("x")) == "KeyError: 'x'"
    assert plain("x" * 5000) == "x" * 4000 + " …"
    assert plain(None) is None
