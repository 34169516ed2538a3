"""Spans and counters, with the libraries that they are for."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq import Client
from pgq.__main__ import main
from pgq._extras import install
from pgq.consumer import Consumer
from pgq.worker import AsyncWorker, Snooze, Tasks, Worker
from pgq.worker.hooks import OpenTelemetry, Prometheus
from support.house import ROOT
from support.waiting import PATIENCE, wait_until
from support.working import working

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=1)
    return client


def _spans() -> tuple[Any, Callable[[], list[Any]]]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, lambda: list(exporter.get_finished_spans())


@pytest.mark.parametrize("what", ["result", "delay"])
def test_what_the_database_refuses_is_told(
    dsn: str,
    client: Client,
    kind: type[Worker] | type[AsyncWorker],
    as_handler: Any,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    """Hooks and the log get the reason, as of any other failure."""

    class Hook:
        def begin(self, source: str, jobs: Any) -> None: ...

        def end(self, begun: Any, source: str, outcomes: Any, seconds: float, error: Any) -> None:
            ended.append((outcomes[0][1], type(error)))

    def handle(payload: Any) -> str:
        if what == "delay":
            raise Snooze(-1)
        return "a\0b"

    ended: list[Any] = []
    client.admin.alter_queue("mail", keep_results=True)
    worker = kind(dsn, hooks=[Hook()])
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: ended)
    refusal = {
        "result": psycopg.errors.UntranslatableCharacter,
        "delay": psycopg.errors.InvalidParameterValue,
    }
    assert ended == [("failed", refusal[what])]
    assert {"result": "Unicode escape", "delay": "from 0 to"}[what] in caplog.text


def test_a_job_is_a_span_of_the_trace_that_enqueued_it(
    dsn: str, client: Client, kind: type[Worker] | type[AsyncWorker], as_handler: Any
) -> None:
    from opentelemetry import trace

    provider, finished = _spans()
    within: list[int] = []

    def handle(payload: str) -> None:
        within.append(trace.get_current_span().get_span_context().trace_id)
        if payload == "bad":
            raise ValueError("bad")
        if payload == "early":
            raise Snooze(3600)

    worker = kind(dsn, hooks=[OpenTelemetry(provider)])
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", "good", headers={"traceparent": PARENT, "n": 1})
    client.enqueue_batch("mail", ["bad", "early"])
    with working(worker):
        wait_until(lambda: len(finished()) == 3, PATIENCE)
    by_outcome = {span.attributes["pgq.outcome"]: span for span in finished()}
    good, bad = by_outcome["done"], by_outcome["failed"]
    assert f"{good.context.trace_id:032x}" == TRACE
    assert good.context.trace_id in within
    assert good.name == "process mail"
    assert not bad.status.is_ok
    assert [event.name for event in bad.events] == ["exception"]
    early = by_outcome["snoozed"]
    assert early.status.is_unset
    assert early.events == ()


def test_headers_that_python_cannot_read(
    dsn: str, client: Client, kind: type[Worker] | type[AsyncWorker], as_handler: Any
) -> None:
    """They begin a trace of their own, and the handler runs."""
    provider, finished = _spans()
    done: list[Any] = []
    worker = kind(dsn, hooks=[OpenTelemetry(provider)])
    worker.handler("mail")(as_handler(done.append))
    headers: Any = Jsonb(f'{{"traceparent": "{PARENT}", "n": {"1" * 5001}}}', dumps=str)
    client.enqueue("mail", 1, headers=headers)
    with working(worker):
        wait_until(finished)
    assert done == [1]


def test_counters(dsn: str, client: Client) -> None:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    begun, go = threading.Event(), threading.Event()

    def handle(payload: int) -> None:
        begun.set()
        assert go.wait(PATIENCE)
        if payload == 2:
            raise ValueError(payload)
        if payload == 3:
            raise Snooze(3600)

    worker = Worker(dsn, concurrency=1, hooks=[Prometheus(registry)])
    worker.handler("mail")(handle)
    client.enqueue_batch("mail", [1, 2, 3, "text"])
    value = registry.get_sample_value
    with working(worker):
        assert begun.wait(PATIENCE)
        assert value("pgq_in_flight", {"source": "mail"}) == 1
        go.set()
        wait_until(lambda: value("pgq_handler_seconds_count", {"source": "mail"}) == 4, PATIENCE)
    assert value("pgq_in_flight", {"source": "mail"}) == 0
    for outcome in ("done", "failed", "rejected", "snoozed"):
        assert value("pgq_handled_total", {"source": "mail", "outcome": outcome}) == 1


def test_counters_of_one_registry_are_the_same() -> None:
    """Two workers in one program count together, by default too."""
    from prometheus_client import REGISTRY, CollectorRegistry

    for registry, chosen in ((REGISTRY, None), (one := CollectorRegistry(), one)):
        before = registry.get_sample_value("pgq_in_flight", {"source": "shared"}) or 0
        for hook in (Prometheus(chosen), Prometheus(chosen)):
            hook.begin("shared", [1])
        assert registry.get_sample_value("pgq_in_flight", {"source": "shared"}) == before + 2


def test_messages_are_counted_too(dsn: str, client: Client) -> None:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    provider, finished = _spans()
    client.admin.drop_topic("hooked") if "hooked" in {
        t.topic for t in client.admin.list_topics()
    } else None
    client.admin.create_topic("hooked", partitions=1)
    client.admin.create_group("hooked", "all")
    client.publish_batch("hooked", [1, 2], headers=[{"traceparent": PARENT}, None])
    consumer = Consumer("all", conninfo=dsn, hooks=[Prometheus(registry), OpenTelemetry(provider)])
    consumer.handler("hooked", batch=10)(lambda payloads: None)
    labels = {"source": "hooked", "outcome": "done"}
    with working(consumer):
        wait_until(lambda: registry.get_sample_value("pgq_handled_total", labels) == 2, PATIENCE)
        wait_until(finished, PATIENCE)
    [span] = finished()
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE]


def test_without_the_libraries(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers do without; who asks for a hook is told what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for hook in (OpenTelemetry, Prometheus):
        with pytest.raises(ModuleNotFoundError):
            hook()
    for option in (["--opentelemetry"], ["--prometheus", "9100"]):
        assert main(["work", "app:handlers", *option]) == 1
        assert f"is missing: {install('telemetry')}" in capsys.readouterr().err


def test_a_hook_that_fails_stops_nothing(dsn: str, client: Client, caplog: Any) -> None:
    class Broken:
        def begin(self, source: str, jobs: Any) -> None:
            raise RuntimeError("broken")

        end: Any = begin

    worker = Worker(dsn, hooks=[Broken()])
    worker.handler("mail")(lambda payload: None)
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.archived_jobs("mail"), PATIENCE)
    assert "a hook has failed" in caplog.text


def test_a_trace_is_sent_by_the_hook_alone(dsn: str, client: Client) -> None:
    """Within a span, an enqueue has a traceparent where the hook was asked for one."""
    from opentelemetry import trace

    provider, finished = _spans()
    hook = OpenTelemetry(provider)
    assert hook.headers() == {}
    plain, traced = Tasks(), Tasks(headers=hook.headers)

    def nothing() -> None: ...

    with trace.use_span(provider.get_tracer("test").start_span("outer"), end_on_exit=True) as outer:
        jobs = [
            client.enqueue("mail", 1).job_id,
            plain.task("mail", name="plain")(nothing).enqueue(client).job_id,
            traced.task("mail", name="traced")(nothing).enqueue(client).job_id,
            client.enqueue("mail", 1, headers=hook.headers()).job_id,
        ]
        trace_id = f"{outer.get_span_context().trace_id:032x}"
    headers = [(job := client.get_job(number)) and job.headers for number in jobs]
    assert headers[:2] == [None, {"task": "plain"}]
    assert [trace_id in (one or {})["traceparent"] for one in headers[2:]] == [True, True]
    client.cancel_job(jobs[0])
    client.cancel_job(jobs[3])
    with working(Worker(dsn, traced, hooks=[hook])):
        wait_until(lambda: len(finished()) == 3)
    [done] = [span for span in finished() if (span.attributes or {}).get("pgq.outcome") == "done"]
    assert f"{done.context.trace_id:032x}" == trace_id


def test_sentry(
    dsn: str, client: Client, kind: type[Worker] | type[AsyncWorker], as_handler: Any
) -> None:
    """The hook of the guide sends what has failed, with its tags, and nothing else."""
    import sentry_sdk
    from sentry_sdk.transport import Transport

    [code] = re.findall(
        r"^(from collections[^`]*?class Sentry:.*?)\n\n\nworker = ",
        (ROOT / "python/WORKER.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    names: dict[str, Any] = {}
    exec(code, names)
    events: list[Any] = []

    class Keeping(Transport):
        def capture_envelope(self, envelope: Any) -> None:
            event = envelope.get_event()
            if event is not None:
                events.append(event)

    def handle(payload: int) -> None:
        if payload == 2:
            raise ValueError("two")
        if payload == 3:
            raise Snooze(3600)
        sentry_sdk.capture_message(f"handled {payload}")

    worker = kind(dsn, hooks=[names["Sentry"]()], concurrency=1)
    worker.handler("mail")(as_handler(handle))
    jobs = client.enqueue_batch("mail", [1, 2, 3, "text"])
    settings: Any = {"transport": Keeping, "default_integrations": False}
    sentry_sdk.init(dsn="http://key@localhost/1", **settings)
    try:
        with working(worker):
            wait_until(lambda: len(events) == 3)
        assert [event["tags"] for event in events] == [
            {"queue": "mail", "job_id": jobs[number].job_id} for number in (0, 1, 3)
        ]
        assert events[0]["message"] == "handled 1"
        kinds = [event["exception"]["values"][-1]["type"] for event in events[1:]]
        assert kinds == ["ValueError", "Misfit"]
    finally:
        sentry_sdk.init()
