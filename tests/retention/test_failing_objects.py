"""cleanup where a part of it fails for one object: all others are cleaned, and it is noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from support.bulk import begin, numbers, stage
from support.clock import Clock
from support.failing import cleaned, failing, failures, ids, many_queues, raising
from support.queue import claim, enqueue_many, stats
from support.session import Session, row
from support.storage import clean, seal, seal_and_close

FOREVER = {"no_limit": ["retention"]}


@dataclass(frozen=True)
class Work:
    """Two objects for a part to work on, of which the first fails."""

    bad: str
    """What the failure of the first one is called."""
    event: str
    when: str
    done: Callable[[], list[bool]]
    """Of which of the two the work is done."""


def _marks(session: Session, query: str, *bad_and_good: Any) -> Callable[[], list[bool]]:
    """An object is done as soon as the query finds nothing for it."""
    return lambda: [not session.execute(query.encode(), [each]).fetchall() for each in bad_and_good]


def jobs(session: Session, clock: Clock) -> Work:
    for queue in ("bad", "good"):
        session.create_queue(queue=queue, job_ttl="3 hours")
        enqueue_many(session, queue, 2)
    clock.advance("1 day")
    query = "select queue_id from pgq.queue order by queue_id"
    bad, good = ids(session, query)
    return Work(
        "bad", "delete on pgq.job", f"old.queue_id = {bad}",
        _marks(session, "select from pgq.job where queue_id = %s", bad, good),
    )  # fmt: skip


def subscriptions(session: Session, clock: Clock) -> Work:
    session.create_topic(topic="t")
    for queue in ("bad", "good"):
        session.create_queue(queue=queue)
        session.subscribe(subscription=queue, topic="t", queue=queue)
        session.unsubscribe(subscription=queue)
    bad, good = ids(session, "select queue_id from pgq.queue order by queue_id")
    return Work(
        "bad", "update on pgq.queue", f"old.queue_id = {bad} and not new.subscribed",
        _marks(session, "select from pgq.queue where queue_id = %s and subscribed", bad, good),
    )  # fmt: skip


def writes(session: Session, clock: Clock) -> Work:
    session.create_topic(topic="t")
    names = [begin(session, topic="t", producer="p", seq=n, timeout="2 hours") for n in (1, 2)]
    clock.advance("1 day")
    bad, good = ids(session, "select bulk_write_id from pgq.bulk_write order by seq")
    return Work(
        str(names[0]), "delete on pgq.bulk_write", f"old.bulk_write_id = {bad}",
        _marks(session, "select from pgq.bulk_write where bulk_write_id = %s", bad, good),
    )  # fmt: skip


def dropped_messages(session: Session, clock: Clock) -> Work:
    for topic in ("bad", "good", "other"):
        session.create_topic(topic=topic, partitions=1, **FOREVER)
        session.publish_batch(topic=topic, payloads=[1, 2])
    bad, good, _ = ids(session, "select partition_id from pgq.partition order by partition_id")
    for topic in ("bad", "good"):
        session.drop_topic(topic=topic)
    return Work(
        f"partition_id {bad}", "delete on pgq.dropped_range", f"old.partition_id = {bad}",
        _marks(session, "select from pgq.dropped_range where partition_id = %s", bad, good),
    )  # fmt: skip


def _two_segments(session: Session) -> list[int]:
    """Two of different classes."""
    for topic, retention in (("bad", "3 hours"), ("good", "6 hours")):
        session.create_topic(topic=topic, partitions=1, retention=retention)
        session.publish(topic=topic, payload=1)
    return ids(
        session,
        "select segment from pgq.partition where topic in ('bad', 'good') order by topic",
    )


def truncation(session: Session, clock: Clock) -> Work:
    bad, good = _two_segments(session)
    seal_and_close(session, clock, "2 hours 10 minutes")
    clock.advance("1 day")
    return Work(
        f"segment {bad}", "delete on pgq.segment", f"old.segment = {bad}",
        _marks(session, "select from pgq.segment where segment = %s", bad, good),
    )  # fmt: skip


def positions(session: Session, clock: Clock) -> Work:
    session.create_topic(topic="t", partitions=1)
    for group in ("bad", "good"):
        session.create_group(topic="t", consumer_group=group)
    session.execute(
        "insert into pgq.group_position"
        " (group_id, partition, seq, first_offset, next_offset, recorded_at)"
        " select l.group_id, 0, n, 1, 1, pgq._clock()"
        " from pgq.group_partition as l, generate_series(2, 1500) as n"
    )
    bad, good = ids(session, "select group_id from pgq.consumer_group order by group_id")
    return Work(
        "t/bad", "delete on pgq.group_position", f"old.group_id = {bad}",
        _marks(
            session, "select from pgq.group_position where group_id = %s and seq = 2", bad, good
        ),
    )  # fmt: skip


def offsets(session: Session, clock: Clock) -> Work:
    for topic in ("bad", "good"):
        session.create_topic(topic=topic, partitions=1, deferred=True)
        session.publish(topic=topic, payload=1)
    [bad] = ids(session, "select partition_id from pgq.partition where topic = 'bad'")
    return Work(
        "bad", "insert on pgq.assignment", f"new.partition_id = {bad}",
        lambda: [
            session.list_offsets(topic=topic)[0].last_offset == 1 for topic in ("bad", "good")
        ],
    )  # fmt: skip


def closing(session: Session, clock: Clock) -> Work:
    bad, good = _two_segments(session)
    seal(session, clock, "2 hours 10 minutes")
    return Work(
        f"segment {bad}", "update on pgq.segment",
        f"old.segment = {bad} and new.state = 'closed'",
        _marks(
            session, "select from pgq.segment where segment = %s and state = 'sealed'", bad, good
        ),
    )  # fmt: skip


def sealing(session: Session, clock: Clock) -> Work:
    bad, good = _two_segments(session)
    [class_id] = ids(session, f"select storage_class_id from pgq.segment where segment = {bad}")
    clock.advance("2 hours 10 minutes")
    return Work(
        f"storage class {class_id}", "update on pgq.segment",
        f"old.segment = {bad} and new.state = 'sealed'",
        _marks(session, "select from pgq.segment where segment = %s and state = 'open'", bad, good),
    )  # fmt: skip


PARTS = {
    "jobs": jobs,
    "subscriptions": subscriptions,
    "writes": writes,
    "dropped messages": dropped_messages,
    "truncation": truncation,
    "positions": positions,
    "offsets": offsets,
    "closing": closing,
    "sealing": sealing,
}


@pytest.mark.parametrize("part", PARTS)
def test_one_object_that_fails(connection: Session, clock: Clock, part: str) -> None:
    """Its neighbour is cleaned in the same call, and it is when it works again."""
    work = PARTS[part](connection, clock)
    failed = ("failed", f"{part} of {work.bad}: 22P02")
    with failing(connection, work.event, work.when):
        assert failed in cleaned(connection)
        assert work.done() == [False, True]
        assert failures(connection) == [(part, work.bad, "22P02")]
        [first] = connection.list_cleanup_failures()
        assert "secret" in first.error
        assert first.failed_since == first.tried_at
        clock.advance("1 minute")
        done = cleaned(connection)
        assert failed in done
        assert ("more", part) not in done
        [later] = connection.list_cleanup_failures()
        assert later.failed_since == first.failed_since < later.tried_at
    done = cleaned(connection)
    assert "failed" not in [action for action, _ in done]
    assert failures(connection) == []
    assert work.done() == [True, True]


@contextmanager
def counting(session: Session) -> Iterator[Callable[[], int]]:
    """How many subtransactions took an id, those that were rolled back too, since the last time."""
    session.execute("create sequence public.pgq_test_xid")

    def count() -> int:
        """Each cleanup is a transaction: ids that others took are few beside."""
        (before,) = row(session, "select last_value from public.pgq_test_xid")
        (now,) = row(session, "select pg_current_xact_id()::text::bigint")
        session.execute("select setval('public.pgq_test_xid', %s)", [now])
        return int(now - before)

    try:
        yield count
    finally:
        session.execute("drop sequence public.pgq_test_xid")


def test_many_that_fail(connection: Session, clock: Clock) -> None:
    """A call has a bounded number of subtransactions, and says that there is more."""
    queues = many_queues(connection, clock, 200)
    bad = queues[2::5]
    spoiled = f"old.queue_id = any('{{{','.join(map(str, bad))}}}')"
    with failing(connection, "delete on pgq.job", spoiled), counting(connection) as written:
        known = 0
        numbers = []
        for call in range(40):
            written()
            done = cleaned(connection)
            numbers.append(written())
            found = len(failures(connection))
            assert found > known or (call > 0 and ("more", "jobs") not in done)
            known = found
            if ("more", "jobs") not in done:
                break
        assert call > 0
        # One is that of the count, one that of the call. Autovacuum, which analyzes tables at
        # times, takes numbers too.
        assert sorted(numbers)[len(numbers) // 2] <= 2 + 30
        assert len(failures(connection)) == len(bad) == 40
        assert row(connection, "select count(distinct queue_id) from pgq.job") == (40,)
        # all are tried in turn
        before = {each.target for each in connection.list_cleanup_failures()}
        for _ in range(3):
            clock.advance("1 minute")
            (moment,) = row(connection, "select pgq._clock()")
            done = cleaned(connection)
            assert ("more", "jobs") not in done
            tried = [each for each in connection.list_cleanup_failures() if each.tried_at >= moment]
            # all together first
            assert len(tried) == 17
            before -= {each.target for each in tried}
        assert before == set()
    cleaned(connection)
    assert failures(connection) == []
    assert row(connection, "select count(*) from pgq.job") == (0,)


def test_what_failed_is_tried_last(connection: Session, clock: Clock) -> None:
    """Behind all others, and behind the other parts."""
    bad, _ = many_queues(connection, clock, 2)
    with failing(connection, "delete on pgq.job", f"old.queue_id = {bad}"):
        connection.cleanup()
        enqueue_many(connection, "q2", 1)
        connection.heartbeat(worker="w")
        clock.advance("2 days")
        done = cleaned(connection)
    assert done.index(("jobs expired", "q2")) < done.index(("failed", "jobs of q1: 22P02"))
    assert done.index(("workers forgotten", "workers")) < done.index(
        ("failed", "jobs of q1: 22P02")
    )


def test_some_that_work_again(connection: Session, clock: Clock) -> None:
    """They are found among others that still fail."""
    queues = many_queues(connection, clock, 4)
    with failing(connection, "delete on pgq.job", f"old.queue_id < {queues[3]}"):
        connection.cleanup()
    assert [target for _, target, _ in failures(connection)] == ["q1", "q2", "q3"]
    with failing(connection, "delete on pgq.job", f"old.queue_id = {queues[1]}"):
        done = cleaned(connection)
    assert {("jobs expired", "q1"), ("jobs expired", "q3")} <= set(done)
    assert failures(connection) == [("jobs", "q2", "22P02")]


def test_what_is_dropped(connection: Session, clock: Clock) -> None:
    """Its failure goes."""
    bad, _ = many_queues(connection, clock, 2)
    with failing(connection, "delete on pgq.job", f"old.queue_id = {bad} and old.attempt >= 0"):
        connection.cleanup()
        assert failures(connection) == [("jobs", "q1", "22P02")]
        connection.execute("alter table pgq.job disable trigger pgq_test_raise")
        connection.drop_queue(queue="q1")
        connection.execute("alter table pgq.job enable trigger pgq_test_raise")
        clean(connection)
        assert failures(connection) == []


def test_a_full_disk_is_not_the_fault_of_an_object(connection: Session, clock: Clock) -> None:
    many_queues(connection, clock, 4)
    with failing(connection, "delete on pgq.job", "old.queue_id > 0"):
        raising(connection, "53100")
        assert ("failed", "jobs: 53100") in cleaned(connection)
        assert failures(connection) == [("jobs", None, "53100")]
    connection.cleanup()
    assert failures(connection) == []
    assert row(connection, "select count(*) from pgq.job") == (0,)


def test_what_belongs_to_no_object(connection: Session, clock: Clock) -> None:
    """Chunks of a write that is forgotten are not in the way of other writes."""
    connection.create_topic(topic="t")
    for producer in ("p", "q"):
        write_id = begin(connection, topic="t", producer=producer, seq=1, timeout="2 hours")
        if producer == "p":
            stage(connection, write_id, numbers(1, 2))
    clock.advance("1 day")
    with failing(connection, "delete on pgq.staged_write", "true"):
        # as long as the write is known they are no remains
        assert ("failed", "writes: 22P02") in cleaned(connection)
        assert ("failed", "writes of ended writes: 22P02") in cleaned(connection)
        assert row(connection, "select count(*) from pgq.bulk_write") == (0,)
        assert failures(connection) == [("writes", "ended writes", "22P02")]
    assert [action for action, _ in cleaned(connection)] == ["staged write removed"] * 2
    assert failures(connection) == []
    assert row(connection, "select count(*) from pgq.staged_write") == (0,)


def test_what_is_left_of_a_dropped_queue(connection: Session, clock: Clock) -> None:
    """It is an object too, though there is no queue."""
    many_queues(connection, clock, 2)
    connection.execute("insert into pgq.unique_job values (1000000, 'k', 1, true)")
    with failing(connection, "delete on pgq.unique_job", "old.queue_id = 1000000"):
        assert ("failed", "jobs of id 1000000: 22P02") in cleaned(connection)
        assert row(connection, "select count(*) from pgq.job") == (0,)
    connection.cleanup()
    assert failures(connection) == []
    assert row(connection, "select count(*) from pgq.unique_job") == (0,)


def test_an_object_that_is_locked(connection: Session, clock: Clock) -> None:
    """It is busy, not failed, and another one that fails is found all the same."""
    bad, locked, _ = many_queues(connection, clock, 3)
    with failing(connection, "delete on pgq.job", f"old.queue_id between {bad} and {locked}"):
        connection.execute(
            "create or replace function public.pgq_test_raise() returns trigger language plpgsql"
            f" as $$ begin raise exception using errcode ="
            f" case when old.queue_id = {bad} then '22P02' else '55P03' end; end $$".encode()
        )
        for _ in range(2):
            done = cleaned(connection)
            if ("busy", "jobs") in done and len(done) == 1:
                continue
            assert {("busy", "jobs"), ("failed", "jobs of q1: 22P02")} <= set(done)
        assert failures(connection) == [("jobs", "q1", "22P02")]
    assert stats(connection, "q2") == {"expired": 1}
    assert claim(connection, "q3") == []


def test_a_part_that_fails_for_all(connection: Session, clock: Clock) -> None:
    """There is one row, with no object, whose first time stays."""
    many_queues(connection, clock, 3)
    connection.execute("alter function pgq._clean_jobs rename to pgq_test_gone")
    try:
        connection.cleanup()
        [first] = connection.list_cleanup_failures()
        clock.advance("1 minute")
        connection.cleanup()
        [later] = connection.list_cleanup_failures()
    finally:
        connection.execute("alter function pgq.pgq_test_gone rename to _clean_jobs")
    assert (first.part, first.target, first.error_code) == ("jobs", None, "42883")
    assert later.failed_since == first.failed_since < later.tried_at
    connection.cleanup()
    assert failures(connection) == []
