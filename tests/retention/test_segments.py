"""Segments: how storage is opened, sealed, closed, emptied and used again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.queue import ack, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row
from support.storage import actions, clean, held, publish, states
from support.waiting import PATIENCE, aside, wait_until_blocked


def test_from_opening_to_truncation(connection: Session, clock: Clock) -> None:
    """Sealed at a third of the retention, emptied one retention after it got its last."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    enqueue_many(connection, queue, 3)
    first, second, third = claim(connection, queue, 3)
    ack(connection, first)
    ack(connection, second)
    assert states(connection) == ["open"]
    clock.advance(timedelta(hours=3, seconds=-1))
    assert actions(connection) == []
    clock.advance("2 seconds")
    assert actions(connection) == ["segment sealed"]
    assert states(connection) == ["open", "sealed"]
    assert actions(connection) == ["segment closed"]
    assert states(connection) == ["closed", "open"]
    assert actions(connection) == []
    ack(connection, third)
    clock.advance(timedelta(hours=9, seconds=-1))
    assert actions(connection) == []
    assert held(connection) == (3, 3)
    clock.advance("2 seconds")
    assert actions(connection) == ["segment truncated"]
    assert states(connection) == ["open"]
    assert held(connection) == (0, 0)


def test_what_was_closed_first_goes_first(connection: Session, clock: Clock) -> None:
    """One call empties so many and no more: the rest is younger."""
    for number in range(4):
        topic = f"t{number}"
        connection.create_topic(topic=topic, partitions=1, retention=f"{9 + number} hours")
        connection.publish(topic=topic, payload=number)
    clock.advance("5 hours")
    for _ in range(2):
        connection.cleanup()
    assert states(connection).count("closed") == 4
    # each row that is written stands behind the others
    for segment, age in ((3, 1), (2, 3), (1, 2), (4, 4)):
        connection.execute(
            "update pgq.segment as s set closed_at = s.closed_at - %s * interval '1 minute'"
            " where s.segment = (select n.segment from pgq.segment as n"
            " where n.state = 'closed' order by n.segment limit 1 offset %s)",
            [age, segment - 1],
        )
    order = connection.execute(
        "select s.segment::text from pgq.segment as s where s.state = 'closed' order by s.closed_at"
    ).fetchall()
    clock.advance("1 day")
    gone = [r.target for r in connection.cleanup() if r.action == "segment truncated"]
    assert gone == [segment for (segment,) in order]


def test_kept_for_the_retention_and_a_third(connection: Session, clock: Clock) -> None:
    """With a cleanup now and then, that holds for every message and job, old or young."""
    connection.create_topic(topic="t", partitions=1, retention="30 days")
    queue = new_queue(connection, job_ttl="30 days", retention="30 days")
    for day in range(100):
        enqueue(connection, queue, day)
        ack(connection, claim_one(connection, queue))
        publish(connection, "t")
        connection.cleanup()
        connection.cleanup()
        kept = row(connection, "select min(payload::int) from pgq.archived_jobs")[0]
        assert day - 42 <= kept <= max(day - 29, 0)
        first = (
            row(
                connection,
                "select min(log_offset) from pgq.message as m"
                " inner join pgq.partition as p using (partition_id)",
            )[0]
            - 1
        )
        assert day - 42 <= first <= max(day - 29, 0)
        clock.advance("1 day")


def test_an_empty_segment_does_not_age(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    for _ in range(3):
        clock.advance("1 day")
        assert actions(connection) == []
    enqueue(connection, queue)
    clock.advance("2 hours")
    assert actions(connection) == []
    assert states(connection) == ["open"]


LOOKS = """
    select coalesce(pg_stat_get_xact_function_calls(oid), 0)
    from pg_proc
    where pronamespace = 'pgq'::regnamespace
        and proname = '_enter_segment'
"""

PUBLISHING: dict[str, dict[str, Any]] = {
    "publish": {"payload": Jsonb(0)},
    "publish by key": {"payload": Jsonb(0), "key": "k"},
    "publish_batch": {"payloads": [Jsonb(0)]},
    "publish_batch by key": {"payloads": [Jsonb(0)], "keys": ["k"]},
}


def looks(session: Session, way: str) -> int:
    """How often one that publishes and commits looks whether the storage class has gone on."""
    function, arguments = way.split()[0], PUBLISHING[way]
    (before,) = row(session, LOOKS)
    session.call(function, topic="t", **arguments)
    (after,) = row(session, LOOKS)
    session.commit()
    return int(after - before)


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
@pytest.mark.parametrize("way", PUBLISHING)
def test_publishers_look_once_at_a_segment_that_was_empty_for_long(
    connect: Connect, connection: Session, clock: Clock, way: str, level: str
) -> None:
    """Not until the time is over that it had when its partition was made, but each time anew."""
    connection.create_topic(topic="t", partitions=1, retention="9 hours")
    session = connect(isolation_level=level)
    session.execute("set track_functions = 'pl'")
    session.commit()
    clock.advance("1 day")
    assert actions(connection) == []
    assert [looks(session, way) for _ in range(3)] == [1, 0, 0]
    clock.advance("2 hours")
    assert looks(session, way) == 0
    clock.advance("1 hour")
    assert looks(session, way) > 0
    assert actions(connection) == ["segment sealed"]
    assert [looks(session, way) for _ in range(3)] == [1, 0, 0]
    assert states(connection) == ["open", "sealed"]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_publishers_beside_one_that_looks_at_a_segment_that_was_empty_for_long(
    connect: Connect, connection: Session, clock: Clock, level: str
) -> None:
    """One that waits for it goes on behind it, one with an older snapshot goes on elsewhere."""
    connection.create_topic(topic="t", partitions=2, retention="9 hours")
    first, behind, elsewhere = connect(isolation_level=level), connect(), connect()
    elsewhere.execute("set transaction isolation level repeatable read")
    clock.advance("1 day")
    assert actions(connection) == []
    row(elsewhere, "select 1")
    publish(first, "t", partition=0)
    waiting = aside(lambda: publish(behind, "t", partition=0))
    wait_until_blocked(connection, behind.pid)
    first.commit()
    assert waiting.result(PATIENCE) == [(0, 2, 2, False)]
    behind.commit()
    assert publish(elsewhere, "t", partition=1) == [(1, 1, 1, False)]
    elsewhere.commit()


def test_one_class_for_one_retention(connection: Session) -> None:
    """However it is written; a topic with a size limit has storage of its own."""
    new_queue(connection, retention="24 hours")
    connection.create_topic(topic="t", retention="1440 minutes")
    assert states(connection) == ["open"]
    # not the same on a day that has 23 hours
    new_queue(connection, retention="1 day")
    assert states(connection) == ["open"] * 2
    connection.create_topic(topic="limited", retention="1 day", max_bytes=1_000_000)
    assert states(connection) == ["open"] * 3


def test_more_than_the_leaves_of_an_installation(connection: Session, clock: Clock) -> None:
    """Each retention needs a leaf: more are made when all are in use, and used again later."""
    hours = range(10, 24)
    for n in hours:
        connection.create_topic(topic=f"t{n}", partitions=2, retention=f"{n} hours")
        connection.create_group(topic=f"t{n}", consumer_group="g")
        connection.create_queue(queue=f"q{n}", retention=f"{n} hours")
    assert states(connection) == ["open"] * len(hours)
    for turn in range(4):
        for n in hours:
            publish(connection, f"t{n}", 3, partition=1)
            enqueue(connection, f"q{n}", n)
            found = connection.consume(topic=f"t{n}", consumer_group="g")
            assert [message[1] for message in found] == [3 * turn + k for k in (1, 2, 3)]
            job = claim_one(connection, f"q{n}")
            assert job.payload == n
            assert ack(connection, job)
        clock.advance("8 hours")
        for _ in range(4):
            connection.cleanup()
    leaves = "select count(*) from pg_class where relname ~ '^message_[0-9]+$' and relkind = 'r'"
    made = row(connection, leaves)
    assert made > (len(hours),)

    for n in hours:
        connection.execute("select pgq.drop_topic(%s)", [f"t{n}"])
        connection.execute("select pgq.drop_queue(%s)", [f"q{n}"])
    clean(connection)
    assert states(connection) == []
    assert held(connection) == (0, 0)
    for n in hours:
        connection.create_queue(queue=f"q{n}", retention=f"{n} days")
        enqueue(connection, f"q{n}", n)
        assert claim_one(connection, f"q{n}").payload == n
    assert row(connection, leaves) == made


def test_every_leaf_has_what_the_others_have(connection: Session) -> None:
    """Also one that was made later."""
    for n in range(1, 12):
        new_queue(connection, retention=f"{n} hours")
    shapes = connection.execute(
        """
        select count(*), array_agg(distinct rtrim(c.relname, '0123456789'))
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace and c.relispartition and c.relkind = 'r'
        group by
            (select array_agg((a.attname, a.atttypid, a.attnotnull) order by a.attnum)::text
             from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0),
            (select string_agg(pg_get_constraintdef(k.oid), ' ' order by k.contype, k.conkey)
             from pg_constraint as k where k.conrelid = c.oid),
            coalesce(c.relacl, acldefault('r', c.relowner))::text,
            obj_description(c.oid) is null
        """
    ).fetchall()
    kinds = ["idempotency_", "job_archive_", "job_event_", "message_"]
    assert sorted(kind for _, [kind] in shapes) == kinds
    assert len({number for number, _ in shapes}) == 1


def test_nothing_is_left_of_a_failed_creation(connect: Connect, connection: Session) -> None:
    """A leaf that was made in a transaction that is rolled back is gone, and made again."""
    connection.set_storage_bounds(max_retentions=100)
    session = connect()
    for n in range(1, 40):
        session.create_queue(queue=f"q{n}", retention=f"{n} hours")
    session.rollback()
    assert states(connection) == []
    queue = new_queue(connection)
    enqueue(connection, queue)
    for n in range(1, 40):
        session.create_queue(queue=f"q{n}", retention=f"{n} hours")
    refused("MQ005", session.create_queue, queue=queue, retention="40 hours")
    session.rollback()
    assert states(connection) == ["open"]
    assert stats(connection, queue) == {"ready": 1}
