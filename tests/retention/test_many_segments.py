"""cleanup where very many segments are due at once, as after a time without it."""

from __future__ import annotations

from collections import Counter

from support.clock import Clock
from support.session import Session

TOPICS = 105


def test_so_many_in_a_call_and_the_rest_in_the_next(connection: Session, clock: Clock) -> None:
    """Each one takes locks to the end of the call, and the server has room for so many only."""
    for number in range(TOPICS):
        topic = f"t{number}"
        connection.create_topic(topic=topic, partitions=1, retention="1 day", max_bytes=10**9)
        connection.publish(topic=topic, payload=1)

    done = []
    for _ in range(8):
        clock.advance("9 hours")
        found = Counter(r.action for r in connection.cleanup())
        assert max(found["segment sealed"], found["segment truncated"]) <= 100
        full = 100 in (found["segment sealed"], found["segment truncated"])
        assert found["more"] == full
        done.append(found)
    total = sum(done, Counter())
    # the last: the class that the topics were made in, which nobody uses
    assert total["segment sealed"] == total["segment truncated"] == TOPICS + 1
    assert connection.execute("select count(*) from pgq.segment").fetchone() == (TOPICS,)
