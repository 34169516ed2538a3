"""What subscriptions promise: a job for each message that matches and was committed, no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from explorer.check_follow_order import check_turns
from explorer.check_keys import published_numbers
from explorer.check_log import Topic, number_of
from explorer.database import Link, Row
from explorer.follow_calls import FOLLOWERS, IN_ORDER
from explorer.history import Event, History
from explorer.known_jobs import FINISHED
from explorer.writes import written_chunks
from support.subscription import routing_key_matches

__all__ = ["Delivered", "Message", "check_followers"]


@dataclass
class Message:
    """What was published, by the call that made it visible."""

    event: Event
    key: str | None
    headers: dict[str, Any] | None


@dataclass
class Delivered:
    """A message as a queue has it: its jobs, who was given them, and who finished them."""

    number: int
    jobs: set[int] = field(default_factory=set)
    claims: list[Event] = field(default_factory=list)
    finished: list[Event] = field(default_factory=list)
    drained: int | None = None
    """In which round of the end it was handed out."""


def check_followers(history: History, link: Link, topics: list[Topic]) -> None:
    """Claim all that was delivered, and hold it against what was published."""
    if not link.rows(f"select from pgq.list_queues() where queue = '{FOLLOWERS}'"):
        return
    if history.went_back():  # jobs may stand below a floor until then
        link.rows("select * from pgq.cleanup()")
    published = dict(_published(history))
    for queue in (FOLLOWERS, IN_ORDER):
        delivered = _delivered(history, link, queue, published)
        for number, message in published.items():
            certain = _followed(history, message, queue)
            there = delivered.get(number)
            told = f"message {number} of {message.event.statement} to {queue}"
            if there is not None and len(there.jobs) > 1:
                history.violate("delivered twice", f"{told}: jobs {sorted(there.jobs)}")
            if certain is not None and certain is not (there is not None):
                history.violate("delivery lost" if certain else "delivery unasked", told)
        if queue == IN_ORDER:
            check_turns(history, delivered, {n: m.key for n, m in published.items()}, topics)


# ---------------------------------------------------------------------------- what there is


def _delivered(
    history: History, link: Link, queue: str, published: dict[int, Message]
) -> dict[int, Delivered]:
    """The jobs of a queue, by the numbers of their messages, with those that were enqueued."""
    found: dict[int, Delivered] = {}
    enqueued = {
        event.numbers[0]
        for event in history.committed("enqueue_followed")
        if event.arguments["queue"] == queue
    }

    def note(row: Row, told: str) -> Delivered | None:
        number = number_of(row)
        if number is None:
            history.violate("delivery without content", f"{told}: job {row['job_id']}")
            return None
        message = published.get(number)
        if message is None and number not in enqueued:
            history.violate("delivery of nothing", f"{told}: {number} was not committed")
        elif message is not None and _content(row) != (message.key, message.headers):
            history.violate("wrong content", f"{told}: {row} of {message.event.statement}")
        known = found.setdefault(number, Delivered(number))
        known.jobs.add(row["job_id"])
        return known

    calls = history.committed("claim_followed", "finish_and_claim_followed")
    for event in calls:
        for row in event.rows if event.arguments["queue"] == queue else ():
            known = note(row, event.statement)
            if known is not None:
                known.claims.append(event)
    cancelled = {
        job_id for event in history.committed("cancel_job_followed") for job_id in _finished(event)
    }
    for event in history.events("claim_followed", "finish_and_claim_followed"):
        # a claim that was rolled back tells which job that was
        for row in event.rows if not event.transaction.committed else ():
            if row["job_id"] in cancelled and event.arguments["queue"] == queue:
                note(row, event.statement)
    by_id = {job_id: known for known in found.values() for job_id in known.jobs}
    for event in history.committed():
        for job_id in _finished(event):
            if job_id in by_id:
                by_id[job_id].finished.append(event)
    for round_number in history.rounds(f"the drain of {queue}"):
        rows = link.rows(_drain(queue))
        if not rows:
            break
        for row in rows:
            known = note(row, f"the drain of {queue}")
            if known is not None and (known.drained is not None or known.finished):
                history.violate("job twice", f"{queue} gave job {row['job_id']} again")
            if known is not None:
                known.drained = round_number
    for number in enqueued - found.keys():
        history.violate("job lost", f"{queue} never gave {number}, which was enqueued")
    return found


def _drain(queue: str) -> str:
    return f"select c.*, pgq.ack(c.job_id, c.lease_token) from pgq.claim_job('{queue}', 10000) as c"


def _content(row: Row) -> tuple[str | None, dict[str, Any] | None]:
    return row["key"], None if row["headers"] is None else json.loads(row["headers"])


def _finished(event: Event) -> list[int]:
    if not event.call.endswith("_followed"):
        return []
    call = event.call.removesuffix("_followed")
    return FINISHED[call](event) if call in FINISHED else []


def _published(history: History) -> Iterator[tuple[int, Message]]:
    """The committed messages of all topics, by their numbers."""
    written: dict[int, Event] = {}
    for event in history.committed("publish"):
        if not event.rows[0]["duplicate"]:
            written[event.numbers[0]] = event
    for event in history.committed("publish_batch"):
        written |= dict.fromkeys(published_numbers(event), event)
    topics = {event.arguments.get("topic") for event in history.committed("begin_write")}
    for topic in topics - {None}:
        for event, chunk in written_chunks(history, "topic", topic, None):
            written |= dict.fromkeys(chunk.numbers, event)
    for event in history.committed("publish", "publish_batch", "write_chunk"):
        given = event.arguments
        size = len(event.numbers)
        keys = given.get("keys") or [given.get("key")] * size
        headers = given.get("headers")
        several = headers if isinstance(headers, list) else [headers] * size
        for number, key, text in zip(event.numbers, keys, several, strict=True):
            if number in written:
                parsed = None if text is None else json.loads(text)
                yield number, Message(written[number], key, parsed)


# ---------------------------------------------------------------------------- what there must be


def _topic_of(history: History, event: Event) -> str:
    if "topic" in event.arguments:
        return str(event.arguments["topic"])
    return next(
        str(begin.arguments["topic"])
        for begin in history.committed("begin_write")
        if begin.rows[0]["write_id"] == event.arguments["write_id"]
    )


def _matches(subscribed: Event, headers: dict[str, Any] | None) -> bool:
    """Whether a message is one for the subscription that a call has answered."""
    row = subscribed.rows[0]
    if row["filter"] is not None:
        for name, values in json.loads(row["filter"]).items():
            if headers is None or name not in headers or headers[name] not in values:
                return False
    if row["routing_key"] is None:
        return True
    return headers is not None and routing_key_matches(row["routing_key"], headers["routing_key"])


def _followed(history: History, message: Message, queue: str) -> bool | None:
    """Whether the queue had to get it; None: nobody can tell."""
    topic = _topic_of(history, message.event)
    begun = [
        e
        for e in history.committed("subscribe")
        if (e.arguments["topic"], e.arguments["queue"]) == (topic, queue)
    ]
    names = {e.arguments["subscription"] for e in begun}
    ended = [
        e
        for e in history.committed("unsubscribe", "drop_topic")
        if e.arguments.get("topic") == topic or e.arguments.get("subscription") in names
    ]
    deferred = any(
        e.rows[0]["deferred"]
        for e in history.committed("create_topic")
        if e.arguments["topic"] == topic
    )

    def began(event: Event) -> int:
        """When it saw what there was; in a deferred topic it does not meet those who publish."""
        above = event.transaction.level in ("repeatable read", "serializable")
        return event.transaction.started if deferred and above else event.started

    published, until = message.event.started, message.event.transaction.ended
    possible = False
    for b in begun:
        if not _matches(b, message.headers):
            continue
        if b.transaction.ended < published and all(
            e.transaction.ended < b.transaction.started or began(e) > until for e in ended
        ):
            return True
        over = any(
            b.transaction.ended < e.started and e.transaction.ended < published for e in ended
        )
        possible = possible or (began(b) <= until and not over)
    return None if possible else False
