"""``pgq work app:handlers``: a worker, or a consumer, as a process; and ``pgq housekeeping``."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from psycopg.conninfo import make_conninfo

from pgq import _logs
from pgq._conninfo import parsed
from pgq._health import Health
from pgq._runtime._errors import Logger
from pgq._runtime._state import State
from pgq._runtime._sync._housekeeping import Housekeeping
from pgq._runtime._threads import Wakeup, signals
from pgq.consumer import AsyncConsumer, Consumer
from pgq.worker import AsyncWorker, Handlers, Hook, Worker

__all__ = ["LoadError", "ProgramError", "hooks", "keep_house", "load", "work"]


class LoadError(Exception):
    """What was named is not there, or nothing that can work."""


class ProgramError(Exception):
    """The program failed as it was imported: a traceback, from its file on."""

    def __init__(self, error: Exception) -> None:
        said = traceback.TracebackException.from_exception(error)
        said.stack[:] = [
            frame
            for frame in said.stack
            if frame.filename not in (__file__, importlib.__file__)
            and not frame.filename.startswith("<frozen importlib")
        ]
        super().__init__("".join(said.format()))


def load(name: str) -> Any:
    """Import what ``module:attribute`` names; modules are looked for in this directory too."""
    module, _, attribute = name.partition(":")
    if not module or not attribute or module.endswith(".py") or "/" in name or "\\" in name:
        raise LoadError(
            f"{name} is not of the form module:attribute, as in pgq work app:handlers, in the "
            "folder of app.py"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ProgramError(error) from None
        raise LoadError(f"there is no module {error.name}") from None
    except Exception as error:
        raise ProgramError(error) from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise LoadError(f"{module} has no {attribute}")
        found = getattr(found, part)
    return found


def hooks(opentelemetry: bool, prometheus: int | None) -> list[Hook]:
    """The hooks that were asked for; ModuleNotFoundError: a library is missing."""
    from pgq.worker.hooks import OpenTelemetry, Prometheus

    found: list[Hook] = []
    if opentelemetry:
        found.append(OpenTelemetry())
    if prometheus is not None:
        found.append(Prometheus())
        from prometheus_client import start_http_server

        start_http_server(prometheus)
    return found


def work(
    name: str,
    *,
    database: str | None,
    concurrency: int | None,
    queues: Sequence[str] | None,
    grace: float | None,
    poll: float | None = None,
    housekeeping: bool = False,
    timeout: float | None = None,
    health: int | None = None,
    hooks: Sequence[Hook] = (),
    log_level: str | None = None,
    log_format: str | None = None,
    strict: bool = True,
    create: bool = False,
    once: bool = False,
    look: Callable[[str], None] = lambda database: None,
) -> int:
    """Run the worker of these handlers until a signal; 1: what ran was given back.

    `strict`, `create` and `once` are as in a worker; `look` is called with the database before it
    begins. What is named may be a worker or a consumer as well, which has settings of its own.
    OSError: the port `health` cannot be had.
    """
    found = load(name)
    if not isinstance(found, (Handlers, Worker, AsyncWorker, Consumer, AsyncConsumer)):
        raise LoadError(f"{name} is no pgq.worker.Handlers, nor a worker or a consumer")
    _logs.set_up(log_level, log_format)
    runner: Worker | AsyncWorker | Consumer | AsyncConsumer
    if isinstance(found, Handlers):
        tasks = any(
            inspect.iscoroutinefunction(one.function)
            for handler in found.by_queue.values()
            for one in handler.each()
        )
        runner = (AsyncWorker if tasks else Worker)(
            os.environ.get("DATABASE_URL", "") if database is None else database,
            found,
            concurrency=concurrency or 8,
            queues=queues,
            grace=grace,
            poll=poll,
            housekeeping=housekeeping,
            timeout=timeout,
            hooks=hooks,
        )
    elif (
        hooks
        or housekeeping
        or any(one is not None for one in (database, concurrency, queues, grace, poll, timeout))
    ):
        raise LoadError(f"{name} has settings of its own: only handlers take them from here")
    else:
        runner = found
    if isinstance(runner, (Consumer, AsyncConsumer)) and (once or create):
        raise LoadError(f"{name} is a consumer: --once and --create are for the handlers of queues")
    runner.waits, runner.strict = not strict, strict
    runner.create, runner.once = create, once
    look(make_conninfo(**{**parsed(runner._conninfo), **runner._options}))
    with Health(health, lambda: runner.ready) as probes:
        if isinstance(runner, (AsyncWorker, AsyncConsumer)):
            asyncio.run(_run(runner, probes))
        else:
            runner.run()
    return 1 if runner.hurried else 0


async def _run(runner: AsyncWorker | AsyncConsumer, probes: Health) -> None:
    probes.loop = asyncio.get_running_loop()
    await runner.run()


def keep_house(
    database: str, health: int | None, log_level: str | None, log_format: str | None
) -> None:
    """Call cleanup and run_schedules until a signal; OSError as above."""
    _logs.set_up(log_level, log_format)
    state, wakeup, logger = State(), Wakeup(), Logger("pgq.housekeeping")
    housekeeping = Housekeeping(database, {}, "pgq housekeeping", state, wakeup, logger)

    def stop() -> None:
        state.stopping = True
        wakeup.wake()

    with Health(health, lambda: housekeeping.connected), signals(stop):
        housekeeping.run()
