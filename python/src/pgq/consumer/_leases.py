"""What a consumer holds: messages of partitions, and those that wait to be tried again."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from pgq.consumer._handlers import TopicHandler
from pgq.messages import LeasedMessage

__all__ = ["Lease", "Leases"]


class Lease:
    """The messages of one poll: of one partition, in order."""

    __slots__ = (
        "attempt", "handler", "held_until", "lost", "messages", "next", "renew_at", "retry_at",
        "running", "slot",
    )  # fmt: skip

    def __init__(
        self, handler: TopicHandler, messages: Sequence[LeasedMessage], leased_at: float
    ) -> None:
        self.handler = handler
        self.messages = messages
        self.next = 0
        """The place of the first message that is not done."""
        self.attempt = messages[0].attempt or 1
        self.retry_at: float | None = None
        """When it is tried again, while it waits for that."""
        self.lost = False
        self.running = False
        """Whether the handler is at work."""
        self.slot: object = None
        self.renewed(leased_at)

    @property
    def partition(self) -> int:
        """Of which partition the messages are."""
        return self.messages[0].partition

    def renewed(self, at: float) -> None:
        """The lease was extended by a call that began then."""
        lease = self.handler.lease_seconds
        self.held_until = at + lease
        self.renew_at = at + lease / 3

    def failed(self) -> float:
        """The handler has failed: returns the seconds after which it is to be tried again."""
        handler = self.handler
        wait = min(handler.backoff * 2.0 ** min(self.attempt - 1, 30), handler.backoff_max)
        wait *= random.uniform(0.8, 1.0)
        self.attempt += 1
        return wait


class Leases:
    """All leases of a consumer."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}
        self._lock = threading.Lock()

    def add(self, lease: Lease) -> None:
        """Keep it from now on."""
        with self._lock:
            self._leases[id(lease)] = lease

    def remove(self, lease: Lease) -> None:
        """Let it go."""
        with self._lock:
            self._leases.pop(id(lease), None)

    def all(self) -> list[Lease]:
        """Those that are held."""
        with self._lock:
            return [*self._leases.values()]

    def retry(self, now: float) -> Lease | None:
        """One that is to be tried again now."""
        with self._lock:
            for lease in self._leases.values():
                if lease.retry_at is not None and lease.retry_at <= now:
                    lease.retry_at = None
                    return lease
        return None

    def next_retry(self) -> float | None:
        """When the next one is to be tried again."""
        with self._lock:
            return min(
                (lease.retry_at for lease in self._leases.values() if lease.retry_at is not None),
                default=None,
            )

    def due(self, now: float) -> list[Lease]:
        """Those that are to be extended."""
        return [lease for lease in self.all() if lease.renew_at <= now and not lease.lost]

    def expired(self, now: float) -> list[Lease]:
        """Those that have run out, as far as anybody knows here."""
        return [lease for lease in self.all() if lease.held_until <= now and not lease.lost]

    def lose(self, lease: Lease) -> bool:
        """Note one as lost; True: its handler is at work and is to be stopped."""
        lease.lost = True
        with self._lock:
            if lease.retry_at is not None:
                self._leases.pop(id(lease), None)
        return lease.running
