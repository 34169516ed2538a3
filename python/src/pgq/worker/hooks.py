"""Hooks for workers and consumers: the protocol, spans of OpenTelemetry, counters of Prometheus.

The two that are here need the extra ``telemetry``::

    Worker(handlers=handlers, hooks=[OpenTelemetry(), Prometheus()])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

from pgq._runtime._errors import plain

__all__ = ["Hook", "OpenTelemetry", "Prometheus"]


class Hook(Protocol):
    """Is told of each call of a handler. Any object with these two methods is a hook.

    Both are called where the handler runs: in its thread or its task, so that a context variable
    that `begin` sets is seen by the handler. A plain handler of an `AsyncWorker`, or with a
    timeout, runs in another thread with a copy of the context. Of several hooks the first begins
    first and ends last. What a hook raises is logged, and changes nothing for the job.
    """

    def begin(self, source: str, jobs: Sequence[Any], /) -> Any:
        """Called before the handler; what it returns is given to `end`.

        source: the queue or topic. jobs: the `Job` of the call, those of a batch, or the
        `LeasedMessage` of a consumer. Payloads are as they were read, whatever the handler takes.
        """

    def end(
        self,
        begun: Any,
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None,
        /,
    ) -> None:
        """Called after the handler, when the database was told.

        begun: what `begin` returned; None: it has raised. outcomes: each job with what has become
        of it: done, failed, retried, snoozed, rejected, released or lost. A job that was done may
        still be acked with the next claim. seconds: the handler took so long. error: what it
        raised, also where it is `Retry`, `Snooze` or `Reject`.
        """


class OpenTelemetry:
    """A span for each call of a handler, within which the handler runs.

    A job or message with a ``traceparent`` among its headers goes on with that trace; a batch links
    to those of all. tracer_provider: by default the global one. A trace is sent along only where
    `headers` is called.
    """

    def __init__(self, tracer_provider: Any = None) -> None:
        from opentelemetry import context, propagate, trace

        self._context = context
        self._propagate = propagate
        self._trace = trace
        self._tracer = trace.get_tracer("pgq", tracer_provider=tracer_provider)

    def begin(self, source: str, jobs: Sequence[Any]) -> Any:
        """Begin the span."""
        trace = self._trace
        known = [job.headers for job in jobs if isinstance(job.headers, dict)]
        came_from = [self._propagate.extract(_texts(headers)) for headers in known]
        parent = came_from[0] if len(jobs) == 1 and came_from else None
        links = [
            trace.Link(span.get_span_context())
            for span in map(trace.get_current_span, came_from if parent is None else [])
            if span.get_span_context().is_valid
        ]
        attributes: dict[str, Any] = {
            "messaging.system": "pgq",
            "messaging.operation.type": "process",
            "messaging.destination.name": source,
        }
        if len(jobs) == 1:
            attributes.update(_place(jobs[0]))
        else:
            attributes["messaging.batch.message_count"] = len(jobs)
        span = self._tracer.start_span(
            f"process {source}",
            context=parent,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        )
        return span, self._context.attach(trace.set_span_in_context(span))

    def headers(self) -> dict[str, str]:
        """The current trace, for the headers of a job or message: ``Tasks(headers=hook.headers)``.

        It is empty where there is none.
        """
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        return carrier

    def end(
        self,
        begun: Any,
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """End the span."""
        if begun is None:
            return
        span, token = begun
        self._context.detach(token)
        words = {word for _, word in outcomes}
        span.set_attribute("pgq.outcome", min(words) if len(words) == 1 else "mixed")
        try:
            if error is not None and words != {"snoozed"}:  # too early is no error
                span.set_status(self._trace.StatusCode.ERROR, plain(error))
                span.record_exception(error)
        finally:  # an error may have no text
            span.end()


class Prometheus:
    """How many jobs or messages were handled with which outcome, how long it took, and how many are
    in hand: pgq_handled_total, pgq_handler_seconds, pgq_in_flight, by the queue or topic.

    All of one registry count together.
    """

    _made: ClassVar[WeakKeyDictionary[Any, tuple[Any, Any, Any]]] = WeakKeyDictionary()

    def __init__(self, registry: Any = None) -> None:
        import prometheus_client

        place = prometheus_client.REGISTRY if registry is None else registry
        if place not in self._made:
            self._made[place] = (
                prometheus_client.Counter(
                    "pgq_handled",
                    "Jobs and messages handled",
                    ["source", "outcome"],
                    registry=place,
                ),
                prometheus_client.Histogram(
                    "pgq_handler_seconds",
                    "How long a call of a handler took",
                    ["source"],
                    registry=place,
                ),
                prometheus_client.Gauge(
                    "pgq_in_flight",
                    "Jobs and messages that handlers have",
                    ["source"],
                    registry=place,
                ),
            )
        self._handled, self._seconds, self._in_flight = self._made[place]

    def begin(self, source: str, jobs: Sequence[Any]) -> Any:
        """Count what is in hand."""
        self._in_flight.labels(source).inc(len(jobs))
        return len(jobs)

    def end(
        self,
        begun: Any,
        source: str,
        outcomes: Sequence[tuple[Any, str]],
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """Count its outcomes."""
        self._in_flight.labels(source).dec(begun or 0)
        self._seconds.labels(source).observe(seconds)
        for _, word in outcomes:
            self._handled.labels(source, word).inc()


def _texts(headers: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if isinstance(value, str)}


def _place(job: Any) -> dict[str, Any]:
    if hasattr(job, "job_id"):
        return {"messaging.message.id": str(job.job_id), "pgq.attempt": job.attempt}
    return {
        "messaging.message.id": str(job.log_offset),
        "messaging.destination.partition.id": str(job.partition),
    }
