"""The model's subscriptions: which messages become jobs of which queues."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from model.content import Content, ends_at
from model.limits import most_claims
from model.members import Members
from model.queues import Queue, Waiting
from model.topics import Topic
from model.unfinished import Unfinished
from pgq import AlreadyExists, BulkResult, Job, UnknownSubscription

__all__ = ["Subscription", "Subscriptions", "routes"]

Seen = Sequence[tuple[str, int, Content]]
"""The queue, the id and the content of jobs that the database has."""


def routes(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a pattern of AMQP takes a routing key, word by word."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return routes(pattern[1:], words) or (bool(words) and routes(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and routes(pattern[1:], words[1:])


@dataclass(frozen=True)
class Subscription:
    """What follows a topic."""

    topic: str
    queue: str
    filter: dict[str, list[Any]] | None
    routing_key: str | None

    def takes(self, content: Content) -> bool:
        headers = content.headers or {}
        for name, values in (self.filter or {}).items():
            if name not in headers or headers[name] not in values:
                return False
        if self.routing_key is None:
            return True
        words = headers.get("routing_key")
        return words is not None and routes(self.routing_key.split("."), words.split("."))


@dataclass
class Subscriptions(Members, Unfinished):
    """Jobs that a publish makes. They have no ids until the database tells: see `adopt`."""

    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    def subscribe(
        self,
        got: Any,
        subscription: str,
        topic: str,
        queue: str,
        *,
        filter: dict[str, list[Any]] | None,  # noqa: A002  as in SQL
        routing_key: str | None,
    ) -> None:
        existing = self.subscriptions.get(subscription)
        if existing is not None:
            given = Subscription(
                topic,
                queue,
                existing.filter if filter is None else filter,
                existing.routing_key if routing_key is None else routing_key,
            )
            if given != existing:
                raise AlreadyExists
        else:
            self._topic(topic)
            self._queue(queue)
            if (topic, queue) in [(s.topic, s.queue) for s in self.subscriptions.values()]:
                raise AlreadyExists
            existing = Subscription(topic, queue, filter, routing_key)
            self.subscriptions[subscription] = existing
        found = (got.topic, got.queue, got.filter, got.routing_key)
        assert Subscription(*found) == existing

    def unsubscribe(self, got: Any, subscription: str) -> None:
        if subscription not in self.subscriptions:
            raise UnknownSubscription
        del self.subscriptions[subscription]

    def drop_topic(self, got: Any, topic: str) -> None:
        # what a deferred one has staged gets its offsets first
        for log in self._topic(topic).logs:
            self.deliver(topic, log.staged, self.now)
        super().drop_topic(got, topic)
        self._end_subscriptions("topic", topic)

    def drop_queue(self, got: Any, queue: str) -> None:
        super().drop_queue(got, queue)
        self._end_subscriptions("queue", queue)

    def _end_subscriptions(self, what: str, name: str) -> None:
        for each, known in list(self.subscriptions.items()):
            if getattr(known, what) == name:
                del self.subscriptions[each]

    # -- jobs ----------------------------------------------------------------------------------

    def deliver(self, topic: str, contents: Sequence[Content], published_at: datetime) -> None:
        for known in self.subscriptions.values():
            if known.topic != topic:
                continue
            queue = self.queues[known.queue]
            made = [
                Waiting(
                    job_id=0,
                    content=content,
                    enqueued_at=published_at,
                    expires_at=ends_at(self.now, queue.job_ttl),
                    priority=0,
                    label=None,
                    visible_at=self.now + queue.delay,
                    ordered_key=content.key if queue.ordered else None,
                    source=self.topics[topic],
                )
                for content in contents
                if known.takes(content)
            ]
            if made:
                queue.pending.append(made)

    def adopt(self, seen: Seen) -> None:
        """Jobs of which nothing was known have come from a publish, in the order of its messages;
        those of an ordered queue, and of a few messages, are there at once."""
        for name, job_id, content in sorted(seen, key=lambda row: row[1]):
            queue = self.queues.get(name)
            if queue is None or job_id in (*queue.jobs, *queue.dead, *queue.archived):
                continue
            for made in queue.pending:
                if made[0].content == content:
                    job = made.pop(0)
                    job.job_id = job_id
                    self.place(queue, job, job.visible_at)
                    break
            queue.pending = [made for made in queue.pending if made]

    def settled(self) -> None:
        """What must have become jobs by now has."""
        for queue in self.queues.values():
            for made in queue.pending:
                assert len(made) >= 4
                assert not queue.ordered

    def claim_job(
        self, got: list[Job], queue: str, *, held: Collection[int] | None = None, **options: Any
    ) -> None:
        target = self._queue(queue)
        wanted = most_claims(
            target, 1 if options["max_jobs"] is None else options["max_jobs"], self.now
        )
        super().claim_job(got, queue, held=held or (), **options)
        if held is not None or target.paused or options["label"] is not None or not wanted:
            return
        left = [
            job.visible_at
            for made in target.pending
            for job in made
            if job.visible_at <= self.now and not job.is_over(self.now)
        ]
        if left:
            assert len(got) == wanted
            last = target.jobs[got[-1].job_id]
            assert last.priority == 0
            assert self.due_before[last.job_id] <= min(left)

    def purge_queue(self, got: BulkResult, queue: str, **options: Any) -> None:
        pending = self._queue(queue).pending
        runs = sum(map(len, pending)) if options.get("all_jobs") else 0
        if isinstance(got, BulkResult):
            got = replace(got, taken=got.taken - runs, seen=got.seen - runs)
        super().purge_queue(got, queue, **options)
        if options.get("all_jobs"):
            pending.clear()

    def clean_jobs(self) -> None:
        """Those without an id that expire are not noted anywhere: the archive would have told."""
        for queue in self.queues.values():
            for made in list(queue.pending):
                if made[0].is_over(self.now):
                    assert not queue.archive
                    queue.pending.remove(made)
        super().clean_jobs()

    def shortest_of(self, queue: Queue, job: Waiting) -> timedelta | None:
        """How long its archived job is kept at least: the content may be that of a message."""
        kept = [super().shortest_of(queue, job)]
        source = job.source
        if isinstance(source, Topic):
            dropped = all(source is not topic for topic in self.topics.values())
            kept.append(timedelta(0) if dropped else source.shortest)
        lengths = [length for length in kept if length is not None]
        return min(lengths) if lengths else None
