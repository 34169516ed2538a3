"""``pgq work app:handlers``: a worker, or a consumer, as a process."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import sys
from collections.abc import Sequence
from typing import Any

from pgq.worker import AsyncWorker, Handlers, Hook, Worker

__all__ = ["LoadError", "load", "work"]


class LoadError(Exception):
    """What was named is not there, or nothing that can work."""


def load(name: str) -> Any:
    """Import what ``module:attribute`` names; modules are looked for in this directory too."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise LoadError(f"{name} is not of the form module:attribute")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise LoadError(f"there is no module {error.name}") from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise LoadError(f"{module} has no {attribute}")
        found = getattr(found, part)
    return found


def work(
    name: str,
    *,
    database: str,
    concurrency: int | None,
    queues: Sequence[str] | None,
    grace: float | None,
    hooks: Sequence[Hook] = (),
) -> int:
    """Run the worker of these handlers until a signal; 1: jobs that ran were given back."""
    handlers = load(name)
    if not isinstance(handlers, Handlers):
        raise LoadError(f"{name} is no pgq.worker.Handlers")
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    tasks = any(inspect.iscoroutinefunction(h.function) for h in handlers.by_queue.values())
    kind = AsyncWorker if tasks else Worker
    worker = kind(
        database,
        handlers,
        concurrency=concurrency or 8,
        queues=queues,
        grace=grace,
        hooks=hooks,
    )
    if isinstance(worker, AsyncWorker):
        asyncio.run(worker.run())
    else:
        worker.run()
    return 1 if worker.hurried else 0
