"""Whether something that runs goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pgq._runtime._errors import Logger, guarded
from pgq._runtime._times import Backoff

__all__ = ["Abandoned", "State"]


class State:
    """Whether something goes on, and how it waits for a server that is not there."""

    def __init__(self) -> None:
        self.stopping = False
        """Nothing new is begun."""
        self.at_once = False
        """What has begun is given back."""
        self.give_up_at: float | None = None
        self.backoff = Backoff(0.1, 5.0)
        self._said = ""

    def is_news(self, text: str) -> bool:
        """Whether this reason why the server is away was not the last one that was said."""
        said, self._said = self._said, text
        return text != said

    def reached(self) -> None:
        """The server has answered."""
        self.backoff.reset()
        self._said = ""

    def gives_up(self) -> bool:
        """Whether to stop waiting for the server; leases then run out by themselves."""
        if not self.stopping:
            return False
        if self.give_up_at is None:
            self.give_up_at = time.monotonic() + 10.0
        return self.at_once or time.monotonic() >= self.give_up_at


class Abandoned:
    """Handlers that were given up at their timeout, and still run beside their successors."""

    def __init__(self, logger: Logger) -> None:
        self.count = 0
        self._logger = logger
        self._lock = threading.Lock()

    def add(self, function: Callable[..., object], seconds: float) -> None:
        """One more."""
        with self._lock:
            self.count += 1
        name = guarded(self._logger, "a name", lambda: f"{function.__qualname__}")
        self._logger.warning(
            "the handler %s is given up after %g s and may still run; abandoned handlers: %d",
            name or "without a name",
            seconds,
            self.count,
        )

    def end(self) -> None:
        """One of them has returned."""
        with self._lock:
            self.count -= 1
