"""Which function gets the messages of which topic, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from pgq._durations import seconds
from pgq.worker._handlers import signature
from pgq.worker._payloads import reader

__all__ = ["TopicHandler", "TopicHandlers"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True, eq=False)
class TopicHandler:
    """A function, and how its messages are polled."""

    topic: str
    function: Callable[..., Any]
    size: int
    batch: bool
    with_message: bool
    read: Callable[[Any], Any]
    lease: timedelta
    backoff: float
    backoff_max: float
    timeout: float | None = None
    """Seconds of one call; None: that of the consumer."""

    @property
    def lease_seconds(self) -> float:
        """How long a lease of this handler lasts."""
        return self.lease.total_seconds()


class TopicHandlers:
    """Functions by the topics whose messages they get."""

    def __init__(self) -> None:
        self.by_topic: dict[str, TopicHandler] = {}

    def handler(
        self,
        topic: str,
        *,
        batch: int | None = None,
        max_messages: int = 100,
        lease: timedelta | float = 30.0,
        backoff: timedelta | float = 1.0,
        backoff_max: timedelta | float = 60.0,
        timeout: timedelta | float | None = None,
    ) -> Callable[[F], F]:
        """Let the decorated function have the messages of a topic.

        It gets one payload (or body) after the other, in the order of their partition, and the
        `LeasedMessage` if it takes two arguments. The annotation of the first one says what
        payloads must be. Up to `max_messages` of a partition are leased at once, and committed when
        the function has returned for all of them; a crash repeats them. batch: the function gets so
        many at most, as a list of payloads (and one of messages).

        When it raises, what was done before is committed, and the rest is tried again after
        `backoff` (1 s), which doubles up to `backoff_max` (1 min). The partition stays leased until
        then, so that nobody overtakes.

        timeout: a call that takes longer has failed. A coroutine is cancelled, a thread is given up
        and may run on beside its successor. By default that of the consumer.
        """
        for name, value in (("batch", batch), ("max_messages", max_messages)):
            if value is not None and not 1 <= value <= 1000000:
                raise ValueError(f"{name} is {value}, must be 1 to 1000000")
        if topic in self.by_topic:
            raise ValueError(f'topic "{topic}" has a handler already')

        def add(function: F) -> F:
            kind, with_message = signature(function, batch is not None)
            self.by_topic[topic] = TopicHandler(
                topic=topic,
                function=function,
                size=batch or max_messages,
                batch=batch is not None,
                with_message=with_message,
                read=reader(kind),
                lease=timedelta(seconds=seconds("lease", lease)),
                backoff=seconds("backoff", backoff, zero=True),
                backoff_max=seconds("backoff_max", backoff_max, zero=True),
                timeout=None if timeout is None else seconds("timeout", timeout),
            )
            return function

        return add
