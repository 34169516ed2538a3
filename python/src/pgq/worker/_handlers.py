"""Which function does the jobs of which queue, and how."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, overload

from pgq._async import AsyncClient
from pgq._durations import seconds
from pgq._signatures import SIGNATURES
from pgq._sync import Client
from pgq.messages import Job, Queue
from pgq.worker._middleware import Middleware, around
from pgq.worker._outcomes import RetryPolicy
from pgq.worker._payloads import reader

__all__ = ["Handler", "Handlers", "check_client", "signature", "task_name", "unknown_task"]

F = TypeVar("F", bound=Callable[..., Any])

LIMITS = ("ordered", "max_leased", "max_leased_per_key", "rate_limit")
"""Settings of a queue that count claims: one that is lost in a crash would break them."""


@dataclass(slots=True, eq=False)
class Handler:
    """A function, and how its jobs are claimed and finished."""

    queue: str
    function: Callable[..., Any]
    size: int
    """So many jobs are claimed at once."""
    batch: bool
    """Whether the function gets them all at once, as lists."""
    with_job: bool
    read: Callable[[Job], Any]
    lease: timedelta
    """Claims name it even where it is that of the queue, which may change meanwhile."""
    queue_lease: bool
    """Whether it is that of the queue."""
    label: str | None
    idempotent: bool
    ack_after: float
    flush_claims: bool
    timeout: float | None = None
    """Seconds of one call; None: that of the worker."""
    keep_results: bool = False
    """Whether the queue keeps what the function returns."""
    retry: RetryPolicy | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those of the queue, for `create_queues`."""
    tasks: dict[str, Handler] | None = None
    """The functions of the queue by the names of their tasks; None: there is only one function."""

    def find(self, job: Job) -> Handler | None:
        """Which function is for a job; None: its task is not known here."""
        return self if self.tasks is None else self.tasks.get(task_name(job) or "")

    def each(self) -> Sequence[Handler]:
        """All functions of the queue."""
        return [self] if self.tasks is None else [*self.tasks.values()]

    @property
    def prefetch(self) -> bool:
        """Whether the jobs of a claim are begun one after the other."""
        return self.size > 1 and not self.batch

    @property
    def lease_seconds(self) -> float:
        """How long a claim of this handler lasts."""
        return self.lease.total_seconds()

    def learn(self, queue: Queue) -> None:
        """Take over what the queue says; ValueError when the handler cannot work with it."""
        if self.queue_lease:
            self.lease = queue.lease
        self.keep_results = queue.keep_results
        if self.flush_claims:
            return
        limited = [name for name in LIMITS if getattr(queue, name, None)]
        if queue.max_attempts == 1:
            limited.append("max_attempts 1")
        if limited:
            raise ValueError(
                f'queue "{self.queue}" needs flush_claims: it has {", ".join(limited)}, and a'
                " claim that is not flushed is forgotten in a crash of the server"
            )


class Handlers:
    """Functions by the queues whose jobs they do; a `Worker` runs them.

    middleware: for all of them, outside their own. retry: for those without one.
    """

    def __init__(
        self, *, middleware: Sequence[Middleware] = (), retry: RetryPolicy | None = None
    ) -> None:
        self.by_queue: dict[str, Handler] = {}
        self._middleware: list[Middleware] = []
        self._retry: RetryPolicy | None = None
        self._middleware, self._retry = self._around(middleware, retry)

    def _around(
        self, middleware: Sequence[Middleware], retry: RetryPolicy | None
    ) -> tuple[list[Middleware], RetryPolicy | None]:
        """Those of all, and these of one function."""
        if not isinstance(middleware, (list, tuple)) or not all(map(callable, middleware)):
            raise TypeError(f"middleware is {middleware!r}, must be a list of functions of a job")
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise TypeError(f"retry is {retry!r}, must be a RetryPolicy")
        return [*self._middleware, *middleware], retry or self._retry

    def handler(
        self,
        queue: str,
        *,
        batch: int | None = None,
        prefetch: int | None = None,
        lease: timedelta | float | None = None,
        label: str | None = None,
        idempotent: bool = False,
        ack_after: timedelta | float = 1.0,
        flush_claims: bool = True,
        timeout: timedelta | float | None = None,
        retry: RetryPolicy | None = None,
        middleware: Sequence[Middleware] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> Callable[[F], F]:
        """Let the decorated function do the jobs of a queue.

        It gets the payload (or the body), and the `RunningJob` if it takes two arguments. The
        annotation of the first one says what payloads must be. When it returns, the job is
        finished; where the queue has `keep_results`, what it returned is its result, for
        `get_result`: any JSON value, and what is none is a failed attempt. When it raises `Retry`,
        `Snooze`, `Reject` or `Release`, that is done; any other exception is a failed attempt,
        tried again after the backoff of the queue.

        batch: the function gets so many jobs at most, as a list of payloads (and one of jobs). It
        may return a dict from job_id to one of these, for those that are not done; or to the
        result of the job, where the queue keeps results.

        prefetch: so many jobs are claimed at once, and done one after the other; for short jobs.
        With ``idempotent=True`` they are finished together, in one transaction with the next claim,
        or between two calls when the first has waited for `ack_after` (1 s): a crash repeats those
        that were not.

        lease: how long a job belongs to this worker without a heartbeat; by default what the queue
        says. label: only jobs with this label. ``flush_claims=False``: a claim that finishes
        nothing does not wait for the disk; a crash of the server may forget it, and with it the
        attempt that it counted. Refused where that would break a limit of the queue.

        timeout: a call that takes longer is a failed attempt. A coroutine is cancelled, a thread is
        given up and may run on beside its successor. By default that of the worker.

        retry: when a failed job is tried again, and what is not. middleware: functions of the
        `RunningJob` that return context managers, the first one the outermost; the function runs
        within them. A coroutine function may have asynchronous ones too. settings: those of the
        queue, for `create_queues`, by the names that `create_queue` has for them.
        """
        for name, value in (("batch", batch), ("prefetch", prefetch)):
            if value is not None and not 1 <= value <= 100000:
                raise ValueError(f"{name} is {value}, must be 1 to 100000")
        if batch is not None and prefetch is not None:
            raise ValueError("batch and prefetch exclude each other")
        if queue in self.by_queue:
            raise ValueError(f'queue "{queue}" has a handler already')
        within, policy = self._around(middleware, retry)
        for name in settings or {}:
            if name == "queue" or name not in SIGNATURES["create_queue"].arguments:
                raise TypeError(f"settings: a queue has no {name}")

        def add(function: F) -> F:
            kind, with_job = signature(function, batch is not None)
            call: Callable[..., Any] = function
            if within:
                invoke = function if with_job else lambda content, _: function(content)
                call = around(function, invoke, within)
            self.by_queue[queue] = Handler(
                queue=queue,
                function=call,
                size=batch or prefetch or 1,
                batch=batch is not None,
                with_job=with_job or bool(within),
                read=reader(kind),
                lease=timedelta(seconds=30 if lease is None else seconds("lease", lease)),
                queue_lease=lease is None,
                label=label,
                idempotent=idempotent,
                ack_after=seconds("ack_after", ack_after, zero=True),
                flush_claims=flush_claims,
                timeout=None if timeout is None else seconds("timeout", timeout),
                retry=policy,
                settings=dict(settings or {}),
            )
            return function

        return add

    @overload
    def create_queues(self, client: Client) -> list[Queue]: ...
    @overload
    def create_queues(self, client: AsyncClient) -> Coroutine[Any, Any, list[Queue]]: ...
    def create_queues(self, client: Any) -> Any:
        """Create the queues of these handlers, with the `settings` that were given for them.

        A queue that is there stays as it is; AlreadyExists: it has other settings than those given.
        With an `AsyncClient` the result is awaited.
        """
        if isinstance(check_client(client), AsyncClient):
            return self._create_queues(client)
        create = client.admin.create_queue
        return [create(name, **one.settings) for name, one in self.by_queue.items()]

    async def _create_queues(self, client: AsyncClient) -> list[Queue]:
        create = client.admin.create_queue
        return [await create(name, **one.settings) for name, one in self.by_queue.items()]


def check_client(client: Any) -> Any:
    """Return it; TypeError: it is none."""
    if not isinstance(client, (Client, AsyncClient)):
        raise TypeError(f"client is a {type(client).__name__}, must be a pgq.Client or AsyncClient")
    return client


def task_name(job: Any) -> str | None:
    """The task that a job is for; None: it does not say."""
    name = job.headers.get("task") if isinstance(job.headers, dict) else None
    return name if isinstance(name, str) else None


def unknown_task(job: Any) -> str:
    """Why none of the tasks is for a job."""
    name = job.headers.get("task") if isinstance(job.headers, dict) else None
    if name is None:
        return "the job has no header task: set it to the name of one of the tasks"
    return f"there is no task {name!r} here"


def signature(function: Callable[..., Any], batch: bool) -> tuple[Any, bool]:
    """The type that its first argument has, and whether it takes a second one."""
    positional = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    required = [one for one in positional if one.default is one.empty]
    if not positional or len(required) > 2:
        raise TypeError(f"{_named(function)} must take a payload, or a payload and a job")
    hints = typing.get_type_hints(function, include_extras=True) if _annotated(function) else {}
    kind = hints.get(positional[0].name, Any)
    if batch and kind is not Any:
        inner = typing.get_args(kind)
        kind = inner[0] if inner else Any
    return kind, len(required) == 2 or (
        len(positional) > 1 and positional[1].name in ("job", "message")
    )


def _annotated(function: Callable[..., Any]) -> bool:
    return bool(getattr(function, "__annotations__", None))


def _named(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
