"""cleanup where very many segments are due at once, as after a time without it."""

from __future__ import annotations

from collections import Counter

import pytest

from support.clock import Clock
from support.session import Connect, Session, row

TOPICS = 12
MOST = 10


@pytest.mark.slow
def test_so_many_in_a_call_and_the_rest_in_the_next(connection: Session, clock: Clock) -> None:
    """Each one takes locks to the end of the call, and the server has room for so many only."""
    connection.set_storage_bounds(max_sized_topics=1000)
    for number in range(TOPICS):
        topic = f"t{number}"
        connection.create_topic(topic=topic, partitions=1, retention="1 day", max_bytes=10**9)
        connection.publish(topic=topic, payload=1)

    done = []
    for _ in range(8):
        clock.advance("9 hours")
        found = Counter(r.action for r in connection.cleanup())
        assert max(found["segment sealed"], found["segment truncated"]) <= MOST
        full = MOST in (found["segment sealed"], found["segment truncated"])
        assert found["more"] == full
        done.append(found)
    total = sum(done, Counter())
    assert total["segment sealed"] == total["segment truncated"] == TOPICS
    assert connection.execute("select count(*) from pgq.segment").fetchone() == (TOPICS,)


def test_open_segments_are_not_locked(connect: Connect, connection: Session) -> None:
    """To the end of the call, which looks at each of them: there may be thousands."""
    for number in range(20):
        connection.create_topic(topic=f"t{number}", partitions=1, retention=f"{number + 1} hours")
    # one of them was lost, as after a restore without messages
    connection.execute("truncate pgq.message_3")
    cleaner = connect()
    assert cleaner.cleanup() == []
    leaves = (
        "select coalesce(array_agg(l.relation::regclass::text), '{}') from pg_locks as l"
        " inner join pg_inherits as i on i.inhrelid = l.relation where l.pid = pg_backend_pid()"
    )
    assert row(cleaner, leaves) == (["pgq.message_3"],)
    cleaner.commit()
    assert row(connection, "select count(*) from pgq.message_3") == (1,)
