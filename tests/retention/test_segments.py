"""Segments: how storage is opened, sealed, closed, emptied and used again, and what survives it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from jobs import (
    AnyConnection,
    Connect,
    Job,
    call,
    claim,
    claim_one,
    cleanup,
    enqueue,
    enqueue_many,
    failure,
    new_queue,
    row,
    stats,
    value,
)
from log_support import PATIENCE, aside
from support import Clock, backend_pid, wait_until_blocked


def actions(connection: AnyConnection) -> list[str]:
    """What one cleanup did, in short."""
    return [action for action, _, _ in cleanup(connection)]


def states(connection: AnyConnection) -> list[str]:
    """The states of all segments in use."""
    return sorted(
        state for (state,) in connection.execute("select state from pgq.segment").fetchall()
    )


def held(connection: AnyConnection) -> tuple[Any, ...]:
    """How many messages and finished jobs are stored."""
    return row(
        connection,
        "select (select count(*) from pgq.message), (select count(*) from pgq.job_archive)",
    )


def close_segment(connection: AnyConnection, clock: Clock, age: str) -> None:
    """Let the open segments become that old, and close them."""
    clock.advance(age)
    assert "segment sealed" in actions(connection)
    assert "segment closed" in actions(connection)


def publish(connection: AnyConnection, topic: str, number: int = 1, **options: Any) -> Any:
    payloads = [Jsonb(n) for n in range(number)]
    return call(connection, "publish_batch", topic=topic, payloads=payloads, **options)


def ack(connection: AnyConnection, job: Job) -> bool:
    return bool(value(connection, "ack", job_id=job.job_id, lease_token=job.lease_token))


# ------------------------------------------------------------------------------- a segment's life


def test_from_opening_to_truncation(connection: AnyConnection, clock: Clock) -> None:
    """Sealed at a third of the retention, emptied one retention after it got its last."""
    queue = new_queue(connection, retention="9 hours")
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


def test_kept_for_the_retention_and_a_third(connection: AnyConnection, clock: Clock) -> None:
    """With a cleanup now and then, that holds for every message and job, old or young."""
    call(connection, "create_topic", topic="t", partitions=1, retention="30 days")
    queue = new_queue(connection, retention="30 days")
    for day in range(100):
        enqueue(connection, queue, day)
        ack(connection, claim_one(connection, queue))
        publish(connection, "t")
        cleanup(connection)
        cleanup(connection)
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


def test_an_empty_segment_does_not_age(connection: AnyConnection, clock: Clock) -> None:
    queue = new_queue(connection, retention="9 hours")
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


def looks(session: AnyConnection, way: str) -> int:
    """How often one that publishes and commits looks whether the storage class has gone on."""
    function, arguments = way.split()[0], PUBLISHING[way]
    (before,) = row(session, LOOKS)
    call(session, function, topic="t", **arguments)
    (after,) = row(session, LOOKS)
    session.commit()
    return int(after - before)


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
@pytest.mark.parametrize("way", PUBLISHING)
def test_publishers_look_once_at_a_segment_that_was_empty_for_long(
    connect: Connect, connection: AnyConnection, clock: Clock, way: str, level: str
) -> None:
    """Not until the time is over that it had when its partition was made, but each time anew."""
    call(connection, "create_topic", topic="t", partitions=1, retention="9 hours")
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
    connect: Connect, connection: AnyConnection, clock: Clock, level: str
) -> None:
    """One that waits for it goes on behind it, one with an older snapshot goes on elsewhere."""
    call(connection, "create_topic", topic="t", partitions=2, retention="9 hours")
    first, behind, elsewhere = connect(isolation_level=level), connect(), connect()
    elsewhere.execute("set transaction isolation level repeatable read")
    clock.advance("1 day")
    assert actions(connection) == []
    row(elsewhere, "select 1")
    publish(first, "t", partition=0)
    waiting = aside(lambda: publish(behind, "t", partition=0))
    wait_until_blocked(connection, backend_pid(behind))
    first.commit()
    assert waiting.result(PATIENCE) == [(0, 2, 2)]
    behind.commit()
    assert publish(elsewhere, "t", partition=1) == [(1, 1, 1)]
    elsewhere.commit()


def test_one_class_for_one_retention(connection: AnyConnection) -> None:
    """However it is written; a topic with a size limit has storage of its own."""
    new_queue(connection, retention="24 hours")
    call(connection, "create_topic", topic="t", retention="1440 minutes")
    assert states(connection) == ["open"]
    # not the same on a day that has 23 hours
    new_queue(connection, retention="1 day")
    assert states(connection) == ["open"] * 2
    call(connection, "create_topic", topic="limited", retention="1 day", max_bytes=1_000_000)
    assert states(connection) == ["open"] * 3


def test_more_than_the_leaves_of_an_installation(connection: AnyConnection, clock: Clock) -> None:
    """Each retention needs a leaf: more are made when all are in use, and used again later."""
    hours = range(10, 24)
    for n in hours:
        call(connection, "create_topic", topic=f"t{n}", partitions=2, retention=f"{n} hours")
        call(connection, "create_group", topic=f"t{n}", consumer_group="g")
        call(connection, "create_queue", queue=f"q{n}", retention=f"{n} hours")
    assert states(connection) == ["open"] * len(hours)
    for turn in range(4):
        for n in hours:
            publish(connection, f"t{n}", 3, partition=1)
            enqueue(connection, f"q{n}", n)
            found = call(connection, "consume", topic=f"t{n}", consumer_group="g")
            assert [message[1] for message in found] == [3 * turn + k for k in (1, 2, 3)]
            job = claim_one(connection, f"q{n}")
            assert job.payload == n
            assert ack(connection, job)
        clock.advance("8 hours")
        for _ in range(2):
            cleanup(connection)
    leaves = "select count(*) from pg_class where relname ~ '^message_[0-9]+$' and relkind = 'r'"
    made = row(connection, leaves)
    assert made > (len(hours),)

    for n in hours:
        connection.execute("select pgq.drop_topic(%s)", [f"t{n}"])
        connection.execute("select pgq.drop_queue(%s)", [f"q{n}"])
    for _ in range(4):
        cleanup(connection)
    assert states(connection) == []
    assert held(connection) == (0, 0)
    for n in hours:
        call(connection, "create_queue", queue=f"q{n}", retention=f"{n} days")
        enqueue(connection, f"q{n}", n)
        assert claim_one(connection, f"q{n}").payload == n
    assert row(connection, leaves) == made


# --------------------------------------------------------------------------- what is carried along


def test_unfinished_jobs_are_carried_along(connection: AnyConnection, clock: Clock) -> None:
    """Their payloads stay when their segment is emptied: of waiting, leased and dead jobs."""
    queue = new_queue(connection, retention="9 hours", lease="9 hours", max_attempts=1)
    enqueue(connection, queue, "leased", label="l", key="k", headers={"h": "1"})
    enqueue(connection, queue, "dead", key="d")
    value(connection, "enqueue", queue=queue, body=b"\x00 redriven", label="l")
    enqueue(connection, queue, "done")
    leased, dead, redriven, done = claim(connection, queue, 4)
    token = leased.lease_token
    assert ack(connection, done)
    close_segment(connection, clock, "3 hours")
    clock.advance("4 hours")
    assert value(connection, "extend_lease", job_id=leased.job_id, lease_token=token)
    for job in (dead, redriven):
        assert value(connection, "nack", job_id=job.job_id, lease_token=token, error="e")
    assert value(connection, "redrive", queue=queue, job_id=redriven.job_id) == 1
    clock.advance("301 minutes")
    found = cleanup(connection)
    assert [(action, amount) for action, _, amount in found] == [
        ("payloads moved", 3),
        ("segment truncated", 1),
    ]
    assert held(connection) == (3, 0)
    assert cleanup(connection) == []

    assert row(connection, "select job_id, last_error, key, payload from pgq.dead_letters") == (
        dead.job_id,
        "e",
        "d",
        "dead",
    )
    job = claim_one(connection, queue, label="l")
    assert (job.job_id, job.body, job.enqueued_at) == (
        redriven.job_id,
        b"\x00 redriven",
        redriven.enqueued_at,
    )
    assert ack(connection, job)
    assert ack(connection, leased)
    assert value(connection, "redrive", queue=queue) == 1
    revived = claim_one(connection, queue)
    assert (revived.payload, revived.key) == ("dead", "d")
    assert ack(connection, revived)
    assert connection.execute(
        "select job_id, payload, body, label, key, headers from pgq.archived_jobs order by job_id"
    ).fetchall() == [
        (leased.job_id, "leased", None, "l", "k", {"h": "1"}),
        (dead.job_id, "dead", None, None, "d", None),
        (redriven.job_id, None, b"\x00 redriven", "l", None, None),
    ]


def test_a_claim_over_several_segments(connection: AnyConnection, clock: Clock) -> None:
    """Jobs of old and new segments come in one claim, in their order."""
    queue = new_queue(connection, retention="9 hours")
    for n in range(4):
        enqueue(connection, queue, n)
        clock.advance("3 hours" if n == 1 else "1 minute")
        cleanup(connection)
        cleanup(connection)
    assert [job.payload for job in claim(connection, queue, 10)] == [0, 1, 2, 3]


def _die(session: AnyConnection, queue: str, job: Job) -> None:
    assert value(session, "nack", job_id=job.job_id, lease_token=job.lease_token)


def _revive(session: AnyConnection, queue: str, job: Job) -> None:
    assert value(session, "redrive", queue=queue, job_id=job.job_id) == 1


@pytest.mark.parametrize("change", [_die, _revive])
def test_jobs_that_move_while_their_segment_is_emptied(
    connect: Connect,
    connection: AnyConnection,
    clock: Clock,
    change: Callable[[AnyConnection, str, Job], None],
) -> None:
    """One that dies, or comes back, is left for the next time, and keeps its payload."""
    queue = new_queue(connection, retention="9 hours", lease="30 hours", max_attempts=1)
    enqueue_many(connection, queue, 3)
    _, moving, _ = claim(connection, queue, 3)
    close_segment(connection, clock, "3 hours")
    clock.advance("5 hours")
    if change is _revive:
        _die(connection, queue, moving)
    clock.advance("4 hours")

    mover = connect()
    change(mover, queue, moving)
    assert "segment busy" in actions(connection)
    mover.commit()
    assert "segment truncated" in actions(connection)
    if change is _die:
        assert row(connection, "select payload from pgq.dead_letters") == (1,)
    else:
        assert claim_one(connection, queue).payload == 1


@pytest.mark.parametrize("end", ["ack", "nack"])
def test_jobs_that_end_while_their_segment_is_emptied(
    connect: Connect, connection: AnyConnection, clock: Clock, end: str
) -> None:
    """cleanup does not wait for the worker's transaction: it says so and comes back."""
    queue = new_queue(connection, retention="9 hours", lease="30 hours")
    enqueue(connection, queue, "x")
    job = claim_one(connection, queue)
    close_segment(connection, clock, "3 hours")
    clock.advance("10 hours")
    session = connect()
    assert value(session, end, job_id=job.job_id, lease_token=job.lease_token)
    assert actions(connection) == ["segment busy"]
    session.rollback()
    assert value(session, end, job_id=job.job_id, lease_token=job.lease_token)
    session.commit()
    assert "segment truncated" in actions(connection)
    assert states(connection) == ["open"]
    assert row(connection, "select count(*) from pgq.job_archive") == (0,)


# ----------------------------------------------------------------------------- late transactions


def test_an_enqueue_that_began_before_the_sealing(
    connect: Connect, connection: AnyConnection, clock: Clock
) -> None:
    """The segment it writes to is not closed before it ends, and its job is not lost."""
    queue = new_queue(connection, retention="9 hours", max_attempts=None)
    enqueue(connection, queue, "first")
    slow = connect()
    enqueue(slow, queue, "slow")
    clock.advance("3 hours")
    assert actions(connection) == ["segment sealed"]
    for _ in range(3):
        assert actions(connection) == []
    assert states(connection) == ["open", "sealed"]
    slow.commit()
    # those that come later keep it from being closed for good, but not for ever
    later = connect()
    enqueue(later, queue, "later")
    assert actions(connection) == []
    assert [job.payload for job in claim(connection, queue, 10)] == ["first", "slow"]
    later.commit()
    assert actions(connection) == ["segment closed"]
    assert [job.payload for job in claim(connection, queue, 10)] == ["later"]
    clock.advance("31 seconds")
    assert [job.payload for job in claim(connection, queue, 10)] == ["first", "slow", "later"]


def test_an_enqueue_during_the_sealing(
    connect: Connect, connection: AnyConnection, clock: Clock
) -> None:
    """One that cannot know of it yet keeps the segment open, though its id is the higher one."""
    queue = new_queue(connection, retention="9 hours")
    enqueue(connection, queue, "first")
    clock.advance("3 hours")
    sealer, slow = connect(), connect()
    assert actions(sealer) == ["segment sealed"]
    enqueue(slow, queue, "slow")
    sealer.commit()
    for _ in range(3):
        assert actions(connection) == []
    slow.commit()
    assert row(connection, "select count(distinct segment) from pgq.message") == (1,)
    assert "segment closed" in actions(connection) + actions(connection)
    assert [job.payload for job in claim(connection, queue, 10)] == ["first", "slow"]


def test_cleanup_in_the_middle_of_a_transaction(
    connect: Connect, connection: AnyConnection, clock: Clock
) -> None:
    """It cannot tell who is at work then, and leaves the closing to the next one."""
    queue = new_queue(connection, retention="9 hours")
    enqueue(connection, queue)
    clock.advance("3 hours")
    early, slow = connect(), connect()
    early.execute("select pg_current_xact_id()")
    enqueue(slow, queue, "slow")
    assert actions(connection) == ["segment sealed"]
    assert actions(early) == []
    early.commit()
    assert actions(connection) == []
    slow.commit()
    assert "segment closed" in actions(connection) + actions(connection)


def test_a_transaction_that_began_before_the_sealing_and_enqueues_after_it(
    connect: Connect, connection: AnyConnection, clock: Clock
) -> None:
    """It writes to the new segment; with a snapshot that cannot know that, it must try again."""
    queue = new_queue(connection, retention="9 hours")
    enqueue(connection, queue, "first")
    committed, repeatable = connect(), connect(isolation_level="repeatable read")
    for session in (committed, repeatable):
        row(session, "select count(*) from pgq.queue")
    close_segment(connection, clock, "3 hours")
    enqueue(committed, queue, "committed")
    committed.commit()
    error = failure(repeatable, "enqueue", queue=queue, payload="1")
    assert error.sqlstate == "40001"
    repeatable.rollback()
    enqueue(repeatable, queue, "repeated")
    repeatable.commit()
    assert row(
        connection,
        "select count(distinct segment), count(*) from pgq.message",
    ) == (2, 3)
    assert [job.payload for job in claim(connection, queue, 10)] == [
        "first",
        "committed",
        "repeated",
    ]


def test_a_publisher_that_began_before_the_sealing(
    connect: Connect, connection: AnyConnection, clock: Clock
) -> None:
    """The segment stays until its partition can go on; other partitions move on meanwhile."""
    call(connection, "create_topic", topic="t", partitions=2, retention="9 hours")
    for partition in range(2):
        publish(connection, "t", partition=partition)
    slow = connect()
    publish(slow, "t", partition=0)
    clock.advance("3 hours")
    assert actions(connection) == ["segment sealed"]
    assert actions(connection) == []
    publish(connection, "t", partition=1)
    assert actions(connection) == []
    slow.commit()
    assert actions(connection) == ["segment closed"]
    publish(connection, "t", partition=0)
    for partition, tip in ((0, 3), (1, 2)):
        found = call(
            connection,
            "fetch_range",
            topic="t",
            partition=partition,
            first_offset=1,
            last_offset=tip,
        )
        assert [message[1] for message in found] == list(range(1, tip + 1))
        times = [message[2] for message in found]
        assert times == sorted(times)


def test_keyed_batches_over_a_switch(connection: AnyConnection, clock: Clock) -> None:
    """Offsets stay dense and time rises in every partition, whichever way a message came."""
    call(connection, "create_topic", topic="t", partitions=3, retention="9 hours")
    keys = [f"key {n}" for n in range(20)]
    tips = [0, 0, 0]
    for turn in range(4):
        for partition, first, last in publish(connection, "t", 20, keys=keys):
            assert first == tips[partition] + 1
            tips[partition] = last
        place = row(connection, "select * from pgq.publish('t', '1', key => 'key 3')")
        assert place[1] == tips[place[0]] + 1
        tips[place[0]] += 1
        if turn < 2:
            clock.advance("3 hours")
            cleanup(connection)
    for partition, tip in enumerate(tips):
        found = call(
            connection,
            "fetch_range",
            topic="t",
            partition=partition,
            first_offset=1,
            last_offset=tip,
        )
        assert [message[1] for message in found] == list(range(1, tip + 1))
        times = [message[2] for message in found]
        assert times == sorted(times)
    assert row(connection, "select count(distinct segment) from pgq.message") == (3,)


# ------------------------------------------------------------------------------------- busy leaves


def test_a_reader_of_the_leaf(connect: Connect, connection: AnyConnection, clock: Clock) -> None:
    """cleanup does not wait for it, and so nobody waits for cleanup; the next one succeeds."""
    queue = new_queue(connection, retention="9 hours")
    call(connection, "create_topic", topic="t", partitions=1, retention="9 hours")
    enqueue(connection, queue, "old")
    publish(connection, "t")
    close_segment(connection, clock, "3 hours")
    clock.advance("10 hours")
    all_of_it = {"topic": "t", "partition": 0, "first_offset": 1}

    reader, third = connect(), connect(autocommit=True)
    assert call(reader, "fetch_range", **all_of_it, last_offset=1)
    third.execute("set lock_timeout = '5s'")
    cleaned = aside(lambda: actions(connection))
    # whoever comes meanwhile gets through
    publish(third, "t")
    assert len(call(third, "fetch_range", **all_of_it, last_offset=2)) == 2
    enqueue(third, queue, "new")
    assert [job.payload for job in claim(third, queue, 10)] == ["new"]
    assert "segment busy" in cleaned.result(30)
    reader.rollback()
    assert "segment truncated" in actions(connection)
    assert failure(connection, "fetch_range", **all_of_it, last_offset=2).sqlstate == "MQ004"


# ------------------------------------------------------------------------------ limits and changes


def test_a_limit_of_size(connection: AnyConnection, clock: Clock) -> None:
    """At least that many bytes are kept; beyond it the oldest go, long before their time."""
    limit = 3_000_000
    call(
        connection,
        "create_topic",
        topic="t",
        partitions=1,
        retention="365 days",
        max_bytes=limit,
    )
    call(connection, "create_topic", topic="other", partitions=1, retention="365 days")
    publish(connection, "other")
    # random text, which is stored as long as it is
    batch = (
        "select pgq.publish_batch('t', array(select to_jsonb((select string_agg(md5(random()::text"
        " || n || k), '') from generate_series(1, 60) as k)) from generate_series(1, 100) as n))"
    )
    stored = []
    done: list[str] = []
    for _ in range(60):
        connection.execute(batch)
        done += actions(connection)
        stored.append(
            row(
                connection,
                "select coalesce(sum(octet_length(payload::text)), 0) from pgq.message",
            )[0]
        )
    assert done.count("segment truncated") >= 2
    assert stored[-1] < 2 * limit
    assert stored[-1] > limit / 2
    [first, tip] = row(
        connection, "select first_offset, tip from pgq.topic_stats where topic = 't'"
    )
    assert tip == 6000
    assert 1 < first < tip
    assert len(
        call(connection, "fetch_range", topic="t", partition=0, first_offset=first, last_offset=tip)
    ) == (tip - first + 1)
    assert row(
        connection, "select tip, first_offset from pgq.topic_stats where topic = 'other'"
    ) == (
        1,
        1,
    )
    # lifted, nothing goes that is published from then on
    call(connection, "alter_topic", topic="t", no_limit=["max_bytes"])
    for _ in range(40):
        connection.execute(batch)
        cleanup(connection)
    assert (
        len(
            call(
                connection,
                "fetch_range",
                topic="t",
                partition=0,
                first_offset=6001,
                last_offset=10_000,
            )
        )
        == 4000
    )


@pytest.mark.parametrize("retention", ["30 hours", "3 hours", None])
def test_a_queue_with_another_retention(
    connection: AnyConnection, clock: Clock, retention: str | None
) -> None:
    """What is stored stays claimable, and what is archived stays as long as was promised."""
    queue = new_queue(connection, retention="9 hours", max_attempts=1)
    enqueue_many(connection, queue, 4)
    acked, dead = claim(connection, queue, 2)
    assert ack(connection, acked)
    assert value(connection, "nack", job_id=dead.job_id, lease_token=dead.lease_token)
    enqueue(connection, queue, "delayed", delay="1 hour")
    change = {"no_limit": ["retention"]} if retention is None else {"retention": retention}
    call(connection, "alter_queue", queue=queue, **change)
    enqueue(connection, queue, "new")
    for _ in range(4):
        cleanup(connection)
    assert row(connection, "select payload from pgq.archived_jobs") == (0,)
    assert row(connection, "select payload from pgq.dead_letters") == (1,)
    assert [job.payload for job in claim(connection, queue, 10, lease="20 hours")] == [2, 3, "new"]
    clock.advance("1 hour")
    late = claim_one(connection, queue)
    assert late.payload == "delayed"
    assert ack(connection, late)
    clock.advance("7 hours")
    for _ in range(3):
        cleanup(connection)
    assert row(connection, "select count(*) from pgq.archived_jobs where outcome = 'acked'") == (2,)


def test_a_topic_with_another_retention(connection: AnyConnection, clock: Clock) -> None:
    """Old messages go by the old one, new ones by the new one; offsets go on."""
    call(connection, "create_topic", topic="t", partitions=1, retention="9 hours")
    publish(connection, "t", 3)
    call(connection, "alter_topic", topic="t", retention="90 hours")
    publish(connection, "t", 2)
    for _ in range(4):
        cleanup(connection)

    def offsets() -> list[int]:
        [first, tip] = row(connection, "select first_offset, tip from pgq.topic_stats")
        found = call(
            connection, "fetch_range", topic="t", partition=0, first_offset=first, last_offset=tip
        )
        return [message[1] for message in found]

    assert offsets() == [1, 2, 3, 4, 5]
    clock.advance("10 hours")
    for _ in range(4):
        cleanup(connection)
    assert offsets() == [4, 5]
    clock.advance("70 hours")
    for _ in range(4):
        cleanup(connection)
    assert offsets() == [4, 5]
    publish(connection, "t", 1)
    assert offsets() == [4, 5, 6]


@pytest.mark.parametrize("retention", ["9 hours", None])
def test_what_is_dropped_frees_its_storage(
    connection: AnyConnection, clock: Clock, retention: str | None
) -> None:
    """The last of a retention at once, whatever the retention; its class is forgotten."""
    queue = new_queue(connection, retention=retention, max_attempts=1)
    call(connection, "create_topic", topic="t", partitions=2, retention=retention)
    call(connection, "create_group", topic="t", consumer_group="g")
    for _ in range(2):
        enqueue_many(connection, queue, 4)
        acked, dead, _ = claim(connection, queue, 3)
        assert ack(connection, acked)
        assert value(connection, "nack", job_id=dead.job_id, lease_token=dead.lease_token)
        publish(connection, "t", 10, partition=1)
        call(connection, "consume", topic="t", consumer_group="g", max_messages=2)
        clock.advance("3 hours")
        cleanup(connection)
        cleanup(connection)
    connection.execute("select pgq.drop_queue(%s)", [queue])
    connection.execute("select pgq.drop_topic('t')")
    for _ in range(5):
        cleanup(connection)
    assert states(connection) == []
    assert held(connection) == (0, 0)
    for table in ("storage_class", "job", "dead_job", "group_position", "segment_range"):
        assert row(connection, f"select count(*) from pgq.{table}") == (0,), table


def test_what_others_keep_stays_when_one_is_dropped(
    connection: AnyConnection, clock: Clock
) -> None:
    goes = new_queue(connection, retention="9 hours")
    stays = new_queue(connection, retention="9 hours")
    for queue in (goes, stays):
        enqueue_many(connection, queue, 2)
        assert ack(connection, claim_one(connection, queue))
    connection.execute("select pgq.drop_queue(%s)", [goes])
    close_segment(connection, clock, "3 hours")
    assert claim_one(connection, stays).payload == 1
    clock.advance("8 hours")
    cleanup(connection)
    assert row(
        connection, "select queue, payload from pgq.archived_jobs where outcome = 'acked'"
    ) == (stays, 0)


def test_a_queue_that_keeps_for_ever(connection: AnyConnection, clock: Clock) -> None:
    queue = new_queue(connection, retention=None)
    enqueue_many(connection, queue, 2)
    assert ack(connection, claim_one(connection, queue))
    for _ in range(5):
        clock.advance("3000 days")
        assert actions(connection) == []
    assert claim_one(connection, queue).payload == 1
    assert row(connection, "select payload from pgq.archived_jobs") == (0,)


# -------------------------------------------------------------------------------- reading the log


def test_a_group_that_slept_over_a_switch(connection: AnyConnection, clock: Clock) -> None:
    """It reads on in the old segment, then in the new one, also where nothing came since."""
    call(connection, "create_topic", topic="t", partitions=2, retention="90 hours")
    call(connection, "create_group", topic="t", consumer_group="g")
    for partition in range(2):
        publish(connection, "t", 4, partition=partition)
    for partition in range(2):
        options = {"topic": "t", "consumer_group": "g", "partition": partition}
        assert len(call(connection, "consume", **options, max_messages=2)) == 2
    close_segment(connection, clock, "30 hours")
    publish(connection, "t", 2, partition=1)
    found: dict[int, list[int]] = {0: [], 1: []}
    while messages := call(connection, "consume", topic="t", consumer_group="g", max_messages=3):
        for message in messages:
            found[message[0]].append(message[1])
    assert found == {0: [3, 4], 1: [3, 4, 5, 6]}
    publish(connection, "t", 1, partition=0)
    assert [
        message[:2] for message in call(connection, "consume", topic="t", consumer_group="g")
    ] == [(0, 5)]


def test_seek_over_segments(connection: AnyConnection, clock: Clock) -> None:
    """By time and by offset, to every message of every segment."""
    call(connection, "create_topic", topic="t", partitions=1, retention="90 hours")
    call(connection, "create_group", topic="t", consumer_group="g")
    times = []
    for _ in range(6):
        publish(connection, "t", 2)
        [moment] = row(connection, "select pgq._clock()")
        times.append(moment)
        clock.advance("16 hours")
        cleanup(connection)
    for turn, moment in enumerate(times):
        place = call(connection, "seek", topic="t", consumer_group="g", published_at=moment)
        assert place == [(0, 2 * turn + 3)]
        place = call(
            connection,
            "seek",
            topic="t",
            consumer_group="g",
            published_at=moment - timedelta(hours=1),
        )
        assert place == [(0, 2 * turn + 1)]
    assert row(connection, "select count(distinct segment) from pgq.message")[0] >= 3
    for offset in range(1, 13):
        call(connection, "seek", topic="t", consumer_group="g", partition=0, log_offset=offset)
        found = call(connection, "fetch", topic="t", consumer_group="g")
        assert [message[1] for message in found] == list(range(offset, 13))


def test_every_leaf_has_what_the_others_have(connection: AnyConnection) -> None:
    """Also one that was made later."""
    for n in range(1, 12):
        new_queue(connection, retention=f"{n} hours")
    shapes = connection.execute(
        """
        select count(*), array_agg(distinct c.relname::text like 'message%')
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
    assert sorted(kind for _, kind in shapes) == [[False], [True]]
    assert len({number for number, _ in shapes}) == 1


def test_nothing_is_left_of_a_failed_creation(connect: Connect, connection: AnyConnection) -> None:
    """A leaf that was made in a transaction that is rolled back is gone, and made again."""
    session = connect()
    for n in range(1, 40):
        call(session, "create_queue", queue=f"q{n}", retention=f"{n} hours")
    session.rollback()
    assert states(connection) == []
    queue = new_queue(connection)
    enqueue(connection, queue)
    for n in range(1, 40):
        call(session, "create_queue", queue=f"q{n}", retention=f"{n} hours")
    assert failure(session, "create_queue", queue=queue).sqlstate == "MQ005"
    session.rollback()
    assert states(connection) == ["open"]
    assert stats(connection, queue) == {"ready": 1}
