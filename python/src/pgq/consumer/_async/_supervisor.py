"""What the slots of a consumer share."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from pgq._async import AsyncClient
from pgq._runtime._async._due import seconds_until
from pgq._runtime._async._pool import Pool
from pgq._runtime._async._slots import Slots
from pgq._runtime._rights import unseen
from pgq._runtime._tasks import caller
from pgq.consumer._handlers import TopicHandler
from pgq.consumer._leases import Lease, Leases
from pgq.consumer._reports import MessageReports, logger
from pgq.errors import UnknownTopic
from pgq.messages import Topic

__all__ = ["Members"]


class Members(Slots):
    """The handlers, the schedule, the leases, and the connections; what `Keeper` keeps."""

    def __init__(
        self,
        group: str,
        handlers: Mapping[str, TopicHandler],
        pool: Pool,
        reports: MessageReports,
        poll: float | None,
        timeout: float | None,
    ) -> None:
        super().__init__(handlers, pool, poll, logger)
        self.group = group
        self.handlers = handlers
        self.calls = {
            name: caller(handler.function, handler.timeout or timeout, self.abandoned)
            for name, handler in handlers.items()
        }
        self.reports = reports
        self.claims = Leases()
        self._notify: set[str] = set()
        self._restricted: set[str] = set()

    def _longest_wait(self) -> float:
        now = time.monotonic()
        retry_at = self.claims.next_retry()
        pause = self.schedule.pause(now)
        return pause if retry_at is None else min(pause, max(retry_at - now, 0.0))

    def running(self) -> int:
        """How many messages the handlers have at this moment."""
        return sum(
            len(lease.messages) - lease.next if lease.handler.batch else 1
            for lease in self.claims.all()
            if lease.running
        )

    def tick(self) -> float:
        """Seconds between two looks at the leases."""
        return min(handler.lease_seconds for handler in self.handlers.values()) / 6

    async def refresh(self, client: AsyncClient) -> list[str]:
        """Read the settings of the topics again."""
        return ["pgq_topic"] if self.learn(await client.admin.list_topics()) else []

    def learn(self, topics: Sequence[Topic], *, required_for: str | None = None) -> bool:
        """Whether one of the topics sends notices; required_for: who has to see all of them."""
        known = {topic.topic: topic for topic in topics}
        for name in self.handlers:
            if required_for is not None and name not in known:
                raise UnknownTopic(unseen("topic", name, required_for))
        self._notify = {name for name in self.handlers if name in known and known[name].notify}
        self._restricted = {name for name in self._notify if known[name].restricted}
        return bool(self._notify)

    async def _ask_due(self, client: AsyncClient, name: str) -> float | None:
        return await seconds_until(
            client,
            "pgq.next_poll(topic => %s::text, consumer_group => %s::text)",
            [name, self.group],
        )

    def idle(self) -> bool:
        """Whether there are no messages in hand."""
        return not self.claims.all()

    def hears(self, channels: Collection[str]) -> None:
        """These channels are listened to."""
        self.hear(self._notify if "pgq_topic" in channels else ())

    async def renew(self, client: AsyncClient, now: float) -> None:
        """Extend the leases that are due, and stop the handlers whose leases are gone."""
        for lease in self.claims.due(now):
            before = time.monotonic()
            if await client.extend_poll(
                lease.handler.topic,
                self.group,
                lease.partition,
                lease.messages[0].lease_token,
                lease=lease.handler.lease,
            ):
                lease.renewed(before)
            elif lease in self.claims.all():
                self._lose(lease)

    def expire(self, now: float) -> None:
        """Stop the handlers whose leases have run out because nobody could extend them."""
        for lease in self.claims.expired(now):
            self._lose(lease)

    def _lose(self, lease: Lease) -> None:
        if self.claims.lose(lease):
            lease.slot.interrupt(lease)  # type: ignore[attr-defined]

    def heard(self, channel: str, name: str) -> None:
        """A message was published; a restricted topic does not tell its name."""
        if channel == "pgq_topic":
            woken = [self.schedule.wake(one) for one in ([name] if name else self._restricted)]
            if any(woken):
                self.wake()

    def connected(self) -> None:
        """Look at all topics: what was published meanwhile was not heard."""
        self.schedule.wake()
        self.wake()
