"""Context managers around the calls of a handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
)
from functools import wraps
from typing import Any

__all__ = ["Middleware", "around"]

Middleware = Callable[[Any], "AbstractContextManager[Any] | AbstractAsyncContextManager[Any]"]
"""Makes, of the `RunningJob` (a list of them for a batch), what the handler runs within."""


def around(
    function: Callable[..., Any], invoke: Callable[..., Any], middleware: Sequence[Middleware]
) -> Callable[..., Any]:
    """Return a function of the content and the job, for `invoke` within the context managers.

    It is a coroutine function if `function` is one.
    """
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def task(content: Any, job: Any) -> Any:
            async with AsyncExitStack() as stack:
                for one in middleware:
                    made = one(job)
                    if isinstance(made, AbstractAsyncContextManager):
                        await stack.enter_async_context(made)
                    else:
                        stack.enter_context(made)
                return await invoke(content, job)

        return task

    @wraps(function)
    def thread(content: Any, job: Any) -> Any:
        with ExitStack() as stack:
            for one in middleware:
                made = one(job)
                if not isinstance(made, AbstractContextManager):
                    raise TypeError(f"middleware: {made!r} needs a handler that is a coroutine")
                stack.enter_context(made)
            result = invoke(content, job)
            if middleware and inspect.iscoroutine(result):
                result.close()
                raise TypeError("middleware: the handler must be a coroutine function itself")
            return result

    return thread
