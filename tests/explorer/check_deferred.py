"""What deferred topics promise: each committed message gets one offset, in the order of commits."""

from __future__ import annotations

from itertools import pairwise

from explorer.check_log import Published, Topic
from explorer.database import Link

__all__ = ["check_deferred", "settle_deferred"]


def settle_deferred(link: Link) -> set[str]:
    """Give offsets to all that is committed in deferred topics; returns their names."""
    rows = link.rows("select topic from pgq.list_topics() where deferred")
    for row in rows:
        link.rows(f"select * from pgq.assign_offsets('{row['topic']}')")
    return {row["topic"] for row in rows}


def check_deferred(topic: Topic) -> None:
    """Find the offsets of all messages, and hold them against the order of the transactions."""
    places = {
        number: (partition, log_offset)
        for partition, held in topic.stored.items()
        for log_offset, number in held.items()
    }
    for published in topic.published:
        if published.log_offset is None and published.number in places:
            published.partition, published.log_offset = places[published.number]
            topic.at[places[published.number]] = published
    _check_answers(topic)
    for partition in topic.last:
        here = [p for p in topic.published if p.partition == partition and p.log_offset is not None]
        here.sort(key=lambda p: p.log_offset or 0)
        for place, later in enumerate(here):
            for before in here[:place]:
                _check_pair(topic, before, later)


def _check_pair(topic: Topic, before: Published, later: Published) -> None:
    """``later`` has the higher offset: it must not have been over when the other one began."""
    one, other = later.event, before.event
    if one.transaction is other.transaction:
        if one.call == "commit_write":
            wrong = False  # its chunks have an order of their own
        elif one is other:
            wrong = one.numbers.index(later.number) < one.numbers.index(before.number)
        else:
            wrong = one.index < other.index
    elif other.transaction.level in ("repeatable read", "serializable"):
        # it may have given offsets by its own snapshot
        wrong = one.transaction.ended < other.transaction.started
    else:
        wrong = one.transaction.ended < other.started
    if wrong:
        topic.history.violate(
            "commit order",
            f"{topic.name}/{later.partition}: message {before.number} at offset"
            f" {before.log_offset}, before {later.number} at {later.log_offset}, which was first",
        )


def _check_answers(topic: Topic) -> None:
    """Nothing is given out twice by what was committed."""
    ranges = sorted(
        (row["partition"], row["first_offset"], row["last_offset"])
        for event in topic.since_cut("assign_offsets")
        for row in event.rows
    )
    for (partition, _, last), (other, first, _) in pairwise(ranges):
        if partition == other and first <= last:
            told = f"{topic.name}/{partition}: {first} after {last}"
            topic.history.violate("offset given out twice", told)
