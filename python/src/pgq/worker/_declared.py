"""Functions that are enqueued by their names, with their arguments as payloads."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, overload

from psycopg.types.json import Jsonb

from pgq._async import AsyncClient
from pgq._durations import seconds
from pgq._sync import Client
from pgq.messages import EnqueueResult, Schedule
from pgq.worker._handlers import Handlers, check_client
from pgq.worker._middleware import Middleware, around
from pgq.worker._outcomes import Misfit, RetryPolicy
from pgq.worker._payloads import Arguments

__all__ = ["Task", "Tasks"]

P = ParamSpec("P")
R = TypeVar("R")

Headers = Callable[[], Mapping[str, Any]]


class Task(Generic[P, R]):
    """A function that workers run: called, it runs here; `enqueue` makes a job of the call.

    The payload of the job is the object of its arguments, as far as they are given, and the header
    `task` is its name.
    """

    def __init__(
        self,
        function: Callable[P, R],
        queue: str,
        name: str,
        arguments: Arguments,
        max_attempts: int | None,
        headers: Headers,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.queue = queue
        self.name = name
        self._arguments = arguments
        self._max_attempts = max_attempts
        self._more = headers
        self._headers: Mapping[str, Any] = {}
        self._options: dict[str, Any] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    def options(
        self,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        priority: int | None = None,
        label: str | None = None,
        delay: timedelta | float | None = None,
        run_at: datetime | None = None,
        idempotency_key: str | None = None,
        unique_key: str | None = None,
        max_attempts: int | None = None,
        time_zone: str | None = None,
        missed: str | None = None,
        starts_at: datetime | None = None,
    ) -> Task[P, R]:
        """The same task with options of `Client.enqueue`, or of `create_schedule`.

        ``send.options(delay=60).enqueue(client, to="ann")``. The first four are for both, the last
        three for `schedule` alone.
        """
        given = {name: value for name, value in locals().items() if value is not None}
        del given["self"]
        more = given.pop("headers", {})
        other = copy.copy(self)
        other._headers = {**self._headers, **more}
        other._options = {**self._options, **given}
        return other

    @overload
    def enqueue(self, client: Client, /, *args: P.args, **kwargs: P.kwargs) -> EnqueueResult: ...
    @overload
    def enqueue(
        self, client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, EnqueueResult]: ...
    def enqueue(self, client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Add a job that calls the function with these arguments, in the client's transaction.

        TypeError: the function does not take them, or JSON cannot carry them. With an `AsyncClient`
        the result is awaited.
        """
        payload = self._payload(client, args, kwargs)
        headers = {**self._more(), **self._headers, "task": self.name}
        options = {"max_attempts": self._max_attempts, **self._options}
        return client.enqueue(self.queue, payload, headers=headers, **options)

    @overload
    def schedule(
        self,
        client: Client,
        schedule: str,
        when: str | timedelta,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Schedule: ...
    @overload
    def schedule(
        self,
        client: AsyncClient,
        schedule: str,
        when: str | timedelta,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, Schedule]: ...
    def schedule(
        self,
        client: Any,
        schedule: str,
        when: str | timedelta,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Any:
        """Create a schedule of such jobs; `when`: a cron expression, or a timedelta between two.

        It may be called at each start of a program. AlreadyExists: the schedule of that name has
        other arguments, times or options. Its jobs have the `max_attempts` of the queue.
        """
        if not isinstance(when, (str, timedelta)):
            raise TypeError(f"when is {when!r}: give a cron expression or a timedelta")
        return client.schedules.create_schedule(
            schedule,
            queue=self.queue,
            payload=self._payload(client, args, kwargs),
            headers={**self._headers, "task": self.name},
            **{"cron" if isinstance(when, str) else "every": when},
            **self._options,
        )

    def _payload(self, client: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Jsonb:
        """The arguments as the worker will read them, which is tried here."""
        text = check_client(client)._encoding.text(self.name, self._arguments.bind(*args, **kwargs))
        try:
            self._arguments.read(json.loads(text))
        except Misfit as error:
            raise TypeError(str(error)) from None
        return Jsonb(text, str)


class Tasks(Handlers):
    """Functions of which any number share a queue: a header of the job names the one to call.

    A `Worker` and ``pgq work`` run them as they run `Handlers`; `handler` adds those of other
    queues. headers: called at each `enqueue`, for more headers of the job: of a tenant, or
    ``OpenTelemetry().headers``. middleware, retry: for all, as in `Handlers`.
    """

    def __init__(
        self,
        *,
        headers: Headers = dict,
        middleware: Sequence[Middleware] = (),
        retry: RetryPolicy | None = None,
    ) -> None:
        super().__init__(middleware=middleware, retry=retry)
        if not callable(headers):
            raise TypeError(f"headers is {headers!r}, must be a function that returns headers")
        self._headers = headers

    def task(
        self,
        queue: str,
        *,
        name: str | None = None,
        max_attempts: int | None = None,
        timeout: timedelta | float | None = None,
        retry: RetryPolicy | None = None,
        middleware: Sequence[Middleware] = (),
        lease: timedelta | float | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a `Task` of the decorated function, for the jobs of a queue that name it.

        Its arguments travel as JSON, and are read as their annotations say. A parameter `job`,
        whose default is None, gets the `RunningJob`. What it returns and raises counts as for
        `handler`. name: by default its qualified name. A job whose task has another name, or
        arguments that the function does not take, is given back for 30 s: a program of another
        version may know it.

        max_attempts: of each job, unless `options` says otherwise. timeout, retry, middleware: as
        for `handler`. lease, settings: those of the queue, given with the first of its tasks.
        """
        if not isinstance(queue, str):
            raise TypeError(f"queue is {queue!r:.80}, must be a text: @tasks.task('mail')")
        within, policy = self._around(middleware, retry)

        def add(function: Callable[P, R]) -> Task[P, R]:
            named = function.__qualname__ if name is None else name
            arguments = Arguments(named, function)
            call: Callable[..., Any] = function

            def invoke(content: dict[str, Any], job: Any) -> Any:
                return call(**content, **({"job": job} if arguments.takes_job else {}))

            home = self.by_queue.get(queue)
            if home is None or home.tasks is None:
                own = {} if lease is None else {"lease": lease}
                self.handler(queue, lease=lease, settings={**own, **(settings or {})})(_by_name)
                home = self.by_queue[queue]
                home.tasks = {}
            elif lease is not None or settings is not None:
                raise ValueError(f'give lease and settings with the first task of queue "{queue}"')
            if named in home.tasks:
                raise ValueError(f'queue "{queue}" has a task "{named}" already')
            home.tasks[named] = replace(
                home,
                function=around(function, invoke, within),
                with_job=True,
                read=arguments.read_job,
                timeout=None if timeout is None else seconds("timeout", timeout),
                retry=policy,
                tasks=None,
            )
            return Task(function, queue, named, arguments, max_attempts, self._headers)

        return add


def _by_name(arguments: Any) -> None:
    """Stands for the functions of a queue, which are found by the names of their tasks."""
