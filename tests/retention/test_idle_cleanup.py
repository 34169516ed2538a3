"""cleanup where nothing is due writes next to nothing, however many topics and queues there are."""

from __future__ import annotations

import json
from datetime import timedelta

from support.clock import Clock
from support.queue import claim_one, enqueue
from support.session import Session, row


def written(connection: Session) -> int:
    """The bytes of write-ahead log of a cleanup that has nothing to say."""
    found = connection.execute(
        "explain (analyze, wal, format json) select * from pgq.cleanup()"
    ).fetchone()
    assert found
    [plan] = found[0] if isinstance(found[0], list) else json.loads(found[0])
    assert plan["Plan"]["Actual Rows"] == 0
    return int(plan["Plan"]["WAL Bytes"])


def test_idle_queues(connection: Session, clock: Clock) -> None:
    """Also where each has jobs: one that is due and one that is not."""
    connection.execute(
        "select count(*) from generate_series(1, 200) as n,"
        " pgq.create_queue('q' || n, job_ttl => '1 day') as q,"
        " pgq.enqueue(q.queue, '1', delay => '1 hour') as later,"
        " pgq.enqueue(q.queue, '1', priority => n % 10) as due"
    )
    clock.advance(timedelta(minutes=1))
    connection.cleanup()
    for _ in range(3):
        clock.advance(timedelta(minutes=1))
        assert written(connection) < 10_000


def test_queues_take_turns(connection: Session, clock: Clock) -> None:
    """The floors of all rise in the end, without a claim."""
    connection.execute(
        "select count(*) from generate_series(1, 40) as n, pgq.create_queue('q' || n) as q,"
        " pgq.enqueue(q.queue, '1', delay => '1 hour') as later"
    )
    [start] = row(connection, "select pgq._clock()")
    clock.advance(timedelta(minutes=1))
    # 10 queues in a call; a floor has risen when its queue was looked at twice
    for _ in range(2 * 4):
        connection.cleanup()
    assert row(
        connection,
        "select count(*) from pgq.queue as q where not exists (select from pgq.queue_floor as f"
        " where f.queue_id = q.queue_id and f.floor_times[1] >= %s)",
        [start],
    ) == (0,)


def test_a_clock_that_was_set_back(connection: Session, clock: Clock) -> None:
    """No queue waits for its turn: all begin again."""
    connection.execute(
        "select count(*) from generate_series(1, 40) as n, pgq.create_queue('q' || n)"
    )
    clock.advance(timedelta(hours=1))
    for name in ("q1", "q40"):
        enqueue(connection, name)
        claim_one(connection, name)
    clock.advance(timedelta(hours=-1))
    for name in ("q1", "q40"):
        enqueue(connection, name)
    connection.cleanup()
    assert row(
        connection,
        "select count(*) from pgq.queue_floor as f where f.recorded_at > pgq._clock()"
        " and exists (select from pgq.job as j where j.queue_id = f.queue_id)"
        " and not exists (select from pgq.queue_floor as n"
        " where n.queue_id = f.queue_id and n.seq > f.seq)",
    ) == (0,)


def test_idle_topics(connection: Session, clock: Clock) -> None:
    """With groups that have read everything."""
    connection.execute(
        "select count(*) from generate_series(1, 50) as n,"
        " pgq.create_topic('t' || n, 2, deferred => n % 2 = 0) as t,"
        " pgq.create_group(t.topic, 'g'), pgq.publish(t.topic, '1')"
    )
    connection.execute("select count(*) from pgq.topic as t, pgq.consume(t.topic, 'g')")
    clock.advance(timedelta(minutes=1))
    connection.cleanup()
    for _ in range(3):
        clock.advance(timedelta(minutes=1))
        assert written(connection) < 2_000
