"""What subscriptions promise: a job for each message that was committed, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from explorer.check_keys import new_numbers
from explorer.check_log import number_of
from explorer.database import Link
from explorer.follow_calls import FOLLOWERS
from explorer.history import Event, History
from explorer.writes import written_chunks

__all__ = ["check_followers"]


def check_followers(history: History, link: Link) -> None:
    """Claim all that was delivered, and hold it against what was published."""
    if not link.rows(f"select from pgq.list_queues() where queue = '{FOLLOWERS}'"):
        return
    if history.went_back():  # jobs may stand below a floor until then
        link.rows("select * from pgq.cleanup()")
    delivered: Counter[int] = Counter()
    for row in link.rows(f"select * from pgq.claim_job('{FOLLOWERS}', 100000)"):
        number = number_of(row)
        if number is None:
            history.violate("delivery without content", f"job {row['job_id']}")
        else:
            delivered[number] += 1
    published = dict(_published(history))
    for number, times in delivered.items():
        if number not in published:
            history.violate("delivery of nothing", f"message {number} was not committed")
        elif times > 1:
            told = f"message {number} of {published[number].statement}"
            history.violate("delivered twice", f"{told} was delivered {times} times")
    for number, event in published.items():
        certain = _followed(history, event)
        if certain is not None and certain is not (delivered[number] > 0):
            kind = "delivery lost" if certain else "delivery unasked"
            history.violate(kind, f"message {number} of {event.statement}")


def _published(history: History) -> Iterator[tuple[int, Event]]:
    """The committed messages of all topics, by their numbers."""
    for event in history.committed("publish"):
        if not event.rows[0]["duplicate"]:
            yield event.numbers[0], event
    for event in history.committed("publish_batch"):
        rows = [row for row in event.rows if not row["duplicate"]]
        size = sum(row["last_offset"] - row["first_offset"] + 1 for row in rows)
        for number in new_numbers(event, size):
            yield number, event
    topics = {event.arguments.get("topic") for event in history.committed("begin_write")}
    for topic in topics - {None}:
        for event, numbers in written_chunks(history, "topic", topic, None):
            for number in numbers:
                yield number, event


def _topic_of(history: History, event: Event) -> str:
    if "topic" in event.arguments:
        return str(event.arguments["topic"])
    [topic] = [
        begin.arguments["topic"]
        for begin in history.committed("begin_write")
        if begin.rows[0]["write_id"] == event.arguments["write_id"]
    ]
    return str(topic)


def _followed(history: History, event: Event) -> bool | None:
    """Whether the topic was followed when this was published; None: nobody can tell."""
    topic = _topic_of(history, event)
    begun = [e for e in history.committed("subscribe") if e.arguments["topic"] == topic]
    ended = [
        e
        for e in history.committed("unsubscribe", "drop_topic")
        if topic in (e.arguments.get("topic"), e.arguments.get("subscription", "")[3:])
    ]
    until = event.transaction.ended
    if all(b.started > until for b in begun):
        return False
    for b in begun:
        if b.transaction.ended < event.started and all(
            e.transaction.ended < b.transaction.started or e.started > until for e in ended
        ):
            return True
    return None
