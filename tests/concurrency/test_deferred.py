"""Deferred topics: nobody waits for those who publish, and nothing is lost or doubled."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
from psycopg import sql

from support.clock import Clock
from support.session import Connect, Session, new_name, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session
from support.waiting import aside, blocked, results, started


def deferred_topic(log: Session, partitions: int = 1, *groups: str) -> str:
    """A deferred topic with groups."""
    topic = new_name("deferred")
    log.create_topic(topic=topic, partitions=partitions, deferred=True)
    for group in groups or ("readers",):
        log.create_group(topic=topic, consumer_group=group)
    return topic


def consumed(log: Session, topic: str, group: str = "readers", **options: Any) -> list[Any]:
    """The payloads that a group gets, in order."""
    rows = log.consume(topic=topic, consumer_group=group, **options)
    return [message.payload for message in rows]


def test_open_transactions_do_not_wait(shared_connect: Connect, log: Session) -> None:
    """64 of them publish to one partition; each message is read once its own has committed."""
    topic = deferred_topic(log)
    writers = [shared_connect() for _ in range(64)]
    for n, writer in enumerate(writers):
        writer.execute("set local lock_timeout = '1s'")
        writer.publish(topic=topic, payload=n)
        writer.publish_batch(topic=topic, payloads=[n], keys=["k"])
    assert consumed(log, topic) == []
    for n in reversed(range(64)):
        writers[n].commit()
        assert consumed(log, topic) == [n, n]
    assert [r.last_offset for r in log.list_offsets(topic=topic)] == [128]


def test_one_that_stays_open_delays_nobody_else(shared_connect: Connect, log: Session) -> None:
    """Whatever it does meanwhile; its own messages come when it commits."""
    topic = deferred_topic(log)
    slow = shared_connect()
    slow.publish(topic=topic, payload=-1)
    for n in range(20):
        log.publish(topic=topic, payload=n)
        assert consumed(log, topic) == [n]
        slow.publish(topic=topic, payload=-2 - n)
    slow.commit()
    assert consumed(log, topic) == [-1 - n for n in range(21)]


def test_the_order_of_a_key(shared_connect: Connect, log: Session) -> None:
    """Transactions that follow each other keep their order, whatever their ids and snapshots."""
    topic = deferred_topic(log)
    early, middle = shared_connect(), shared_connect()
    early.execute("select pg_current_xact_id()")
    middle.publish(topic=topic, payload=1, key="k")
    middle.commit()
    early.publish(topic=topic, payload=2, key="k")
    early.commit()
    log.publish(topic=topic, payload=3, key="k")
    assert consumed(log, topic) == [1, 2, 3]


@pytest.mark.parametrize("segments", [1, 2])
def test_the_order_of_a_key_beside_one_who_gives_offsets(
    connection: Session, connect: Connect, clock: Clock, segments: int
) -> None:
    """Whenever two transactions of a key end while it looks, it never sees the second alone."""
    connection.execute("create sequence public.looks")
    connection.execute(
        """
        alter function pgq._clock() rename to _time;
        create function pgq._clock() returns timestamptz language plpgsql as $$
        begin
            if nextval('public.looks') = current_setting('test.stop', true)::bigint then
                perform pg_advisory_xact_lock(1);
            end if;
            return pgq._time();
        end
        $$
        """
    )
    assigner, early, late = connect(), connect(), connect()
    stops = 0
    for stop in range(1, 20):
        connection.execute("select pg_advisory_lock(1)")
        topic = deferred_topic(connection)
        early.publish(topic=topic, payload=1, key="k")
        connection.publish(topic=topic, payload=0, key="k")
        if segments == 2:
            clock.advance("2 days")
        # now the early one is known to be open
        assert consumed(connection, topic) == [0]
        connection.publish(topic=topic, payload=3, key="other")
        assigner.execute(sql.SQL("set test.stop = {}").format(stop))
        connection.execute("select setval('public.looks', 1, false)")
        working = started(
            connection, assigner, partial(assigner.assign_offsets, topic=topic, partition=0)
        )
        early.commit()
        late.publish(topic=topic, payload=2, key="k")
        late.commit()
        stops += not working.done()
        connection.execute("select pg_advisory_unlock(1)")
        results(working)
        assigner.commit()
        found = [n for _ in range(2) for n in consumed(connection, topic)]
        assert [n for n in found if n != 3] == [1, 2]
    assert stops >= 2


def test_who_consumes_for_long_holds_up_what_is_new(shared_connect: Connect, log: Session) -> None:
    """Until it ends, others find nothing there; they do not wait, and get it after a rollback."""
    topic = deferred_topic(log, 1, "readers", "others")
    log.publish(topic=topic, payload=1)
    slow = shared_connect()
    assert consumed(slow, topic) == [1]
    log.publish(topic=topic, payload=2)
    log.execute("set lock_timeout = '1s'")
    assert consumed(log, topic, "others") == []
    assert consumed(log, topic, "others", partition=0) == []
    assert log.assign_offsets(topic=topic) == []
    slow.rollback()
    assert consumed(log, topic, "others") == [1, 2]
    assert consumed(log, topic) == [1, 2]


def test_assigned_before_nobody_is_held_up(shared_connect: Connect, log: Session) -> None:
    """Who calls assign_offsets in a transaction of its own may then take its time."""
    topic = deferred_topic(log, 1, "readers", "others")
    slow = shared_connect()
    for n in range(3):
        log.publish(topic=topic, payload=n)
        log.assign_offsets(topic=topic)
        assert consumed(slow, topic) == [n]
        assert consumed(log, topic, "others") == [n]
    slow.commit()


def test_a_killed_assigner(shared_connect: Connect, log: Session) -> None:
    """What it had given is given again."""
    topic = deferred_topic(log)
    log.publish(topic=topic, payload=1)
    victim = shared_connect()
    assert consumed(victim, topic) == [1]
    log.execute("select pg_terminate_backend(%s, 5000)", [victim.pid])
    assert consumed(log, topic) == [1]
    assert consumed(log, topic) == []


@pytest.mark.parametrize("level", LEVELS)
def test_publishing_with_an_old_snapshot(shared_connect: Connect, log: Session, level: str) -> None:
    """It neither waits nor fails, and leaves no lock behind."""
    topic = deferred_topic(log)
    old = old_session(shared_connect, level)
    log.publish(topic=topic, payload=1)
    assert consumed(log, topic) == [1]
    assert old.publish(topic=topic, payload=2) == (0, None, False)
    assert old.publish_batch(topic=topic, payloads=[3, 4])[0].first_offset is None
    log.publish(topic=topic, payload=5)
    assert consumed(log, topic) == [5]
    old.commit()
    assert consumed(log, topic) == [2, 3, 4]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", ["consume", "assign_offsets"])
def test_assigning_with_an_old_snapshot(
    shared_connect: Connect, log: Session, level: str, way: str
) -> None:
    """What another one has assigned since makes it try again; nothing gets two offsets."""
    topic = deferred_topic(log, 1, "readers", "others")
    log.publish(topic=topic, payload=1)
    old = old_session(shared_connect, level)
    log.publish(topic=topic, payload=2)
    assert consumed(log, topic, "others") == [1, 2]

    def work() -> list[Any]:
        options = {"consumer_group": "readers"} if way == "consume" else {}
        return list(old.call(way, topic=topic, **options))

    assert answer_of(old, work) == TRY_AGAIN
    assert len(answer_of(old, work)) == (2 if way == "consume" else 0)
    assert [r.last_offset for r in log.list_offsets(topic=topic)] == [2]


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_that_sees_what_another_assigner_did_not(
    shared_connect: Connect, log: Session, level: str
) -> None:
    """It meets no row that was moved, and yet must not give the same offset again."""
    topic = deferred_topic(log)
    log.publish(topic=topic, payload=1)
    other = shared_connect()
    other.assign_offsets(topic=topic)
    log.publish(topic=topic, payload=2)
    old = old_session(shared_connect, level)
    other.commit()
    assert answer_of(old, lambda: old.assign_offsets(topic=topic)) == TRY_AGAIN
    assert answer_of(old, lambda: old.assign_offsets(topic=topic)) == [(0, 2, 2)]
    assert consumed(log, topic) == [1, 2]


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_assigns_what_it_sees(
    shared_connect: Connect, log: Session, level: str
) -> None:
    """What it does not see is assigned by others later."""
    topic = deferred_topic(log)
    log.publish(topic=topic, payload=1)
    old = old_session(shared_connect, level)
    log.publish(topic=topic, payload=2)
    assert answer_of(old, lambda: consumed(old, topic)) == [1]
    assert consumed(log, topic) == [2]


def test_many_at_once(shared_connect: Connect, log: Session) -> None:
    """Publishers, some of which roll back, and members of two groups: each message once."""
    topic = deferred_topic(log, 2, "readers", "others")
    done = threading.Event()

    def publishing(writer: Session, number: int) -> list[int]:
        kept = []
        for n in range(40):
            payload = number * 1000 + n
            writer.publish(topic=topic, payload=payload, key=f"key {number}")
            if n % 5 == 3:
                writer.rollback()
            else:
                writer.commit()
                kept.append(payload)
        return kept

    def reading(member: Session, group: str) -> list[int]:
        found: list[int] = []
        while True:
            last = done.is_set()
            taken = consumed(member, topic, group, max_messages=7)
            member.commit()
            found += taken
            if last and not taken:
                return found

    groups = ("readers", "others", "others")
    members = [aside(partial(reading, shared_connect(), group)) for group in groups]
    writers = [aside(partial(publishing, shared_connect(), number)) for number in range(4)]
    kept = results(*writers)
    done.set()
    alone, *shared = results(*members)
    everything = sorted(n for numbers in kept for n in numbers)
    # where another one was just assigning, a member has found nothing
    log.assign_offsets(topic=topic)
    rest = [n for _ in range(2) for n in consumed(log, topic, "others", max_messages=1000)]
    alone += [n for _ in range(2) for n in consumed(log, topic, max_messages=1000)]
    assert sorted(alone) == everything
    assert sorted(shared[0] + shared[1] + rest) == everything
    for number in range(4):
        mine = [n for n in alone if n // 1000 == number]
        assert mine == sorted(mine)
    stored = row(
        log,
        "select count(*), count(distinct (partition, log_offset)) from pgq.messages"
        " where topic = %s",
        [topic],
    )
    assert stored == (len(everything), len(everything))


def test_a_drop_beside_an_open_publisher(shared_connect: Connect, log: Session) -> None:
    """It does not wait; what the publisher had staged goes with the topic."""
    topic = deferred_topic(log)
    writer = shared_connect()
    writer.publish(topic=topic, payload=1)
    log.drop_topic(topic=topic)
    log.create_topic(topic=topic, partitions=1, deferred=True)
    writer.publish(topic=topic, payload=2)
    writer.commit()
    log.create_group(topic=topic, consumer_group="readers")
    assert consumed(log, topic) == [2]


def test_a_drop_waits_for_who_assigns(shared_connect: Connect, log: Session) -> None:
    """As it waits for those who publish to other topics."""
    topic = deferred_topic(log)
    log.publish(topic=topic, payload=1)
    holder, dropper = shared_connect(), shared_connect(autocommit=True)
    holder.assign_offsets(topic=topic)
    drop = blocked(log, dropper, lambda: dropper.drop_topic(topic=topic))
    holder.commit()
    drop.result(30)


def test_keys_move_together(shared_connect: Connect, log: Session) -> None:
    """Partitions are added while one is held: all publishers agree where a key belongs, at once."""
    topic = deferred_topic(log, 2)
    keys = [f"key {n}" for n in range(30)]
    old = shared_connect(autocommit=True)
    for key in keys:
        old.publish(topic=topic, payload=0, key=key)
    holder = shared_connect()
    assert holder.assign_offsets(topic=topic, partition=1) != []
    log.alter_topic(topic=topic, partitions=8)
    homes = log.execute(
        "select pgq._key_partition(k, 8)"
        " from unnest(%s::text[]) with ordinality as u (k, n) order by n",
        [keys],
    ).fetchall()
    expected = [home for (home,) in homes]
    assert {1, 7} <= set(expected)
    for writer in (old, shared_connect(autocommit=True)):
        for _ in range(2):
            found = [writer.publish(topic=topic, payload=1, key=key).partition for key in keys]
            assert found == expected
            writer.publish(topic=topic, payload=2)
    lagging = row(
        log,
        "select count(*) from pgq.partition where topic = %s and partitions = 2",
        [topic],
    )
    assert lagging[0] == 1
    holder.commit()
