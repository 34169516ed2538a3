"""Whether something that runs goes on."""

from __future__ import annotations

import time

from pgq._running._times import Backoff

__all__ = ["State"]


class State:
    """Whether something goes on, and how it waits for a server that is not there."""

    def __init__(self) -> None:
        self.stopping = False
        """Nothing new is begun."""
        self.at_once = False
        """What has begun is given back."""
        self.give_up_at: float | None = None
        self.backoff = Backoff(0.1, 5.0)

    def gives_up(self) -> bool:
        """Whether to stop waiting for the server; leases then run out by themselves."""
        if not self.stopping:
            return False
        if self.give_up_at is None:
            self.give_up_at = time.monotonic() + 10.0
        return self.at_once or time.monotonic() >= self.give_up_at
