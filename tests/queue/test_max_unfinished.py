"""max_unfinished: with so many unfinished jobs enqueue fails, and nothing is lost."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb

from support.bulk import begin, numbers, stage
from support.queue import ack, claim, claim_one, enqueue, enqueue_many, new_queue, settings, stats
from support.session import Connect, Session, refused, row


def is_full(session: Session, queue: str) -> bool:
    [full] = row(session, "select is_full from pgq.queue_stats where queue = %s", [queue])
    return bool(full)


def test_one_more_is_refused(connection: Session) -> None:
    queue = new_queue(connection, max_unfinished=3)
    for number in range(3):
        assert not is_full(connection, queue)
        enqueue(connection, queue, priority=number * 4)
    assert is_full(connection, queue)
    error = refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))
    assert error.diag.message_primary == f'queue "{queue}" is full'
    assert error.diag.message_detail == "New jobs: 1; unfinished: 3; max_unfinished: 3."
    job = claim_one(connection, queue)
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))
    assert ack(connection, job)
    assert not is_full(connection, queue)
    enqueue(connection, queue)
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))
    assert sum(stats(connection, queue).values()) == 3


def test_a_batch_is_added_all_or_none(connection: Session) -> None:
    queue = new_queue(connection, max_unfinished=10)
    enqueue_many(connection, queue, 6)
    refused("MQ010", connection.enqueue_batch, queue=queue, payloads=list(range(5)))
    assert stats(connection, queue)["ready"] == 6
    enqueue_many(connection, queue, 4)
    assert connection.enqueue_batch(queue=queue, payloads=[]) == []
    refused("MQ010", connection.enqueue_batch, queue=queue, payloads=[1])
    assert len(claim(connection, queue, 20)) == 10


def test_delayed_and_leased_ones_count_and_dead_ones_do_not(connection: Session) -> None:
    queue = new_queue(connection, max_unfinished=3, max_attempts=1)
    enqueue(connection, queue, delay="1 hour")
    enqueue(connection, queue)
    enqueue(connection, queue)
    dying, _ = claim(connection, queue, 2)
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1), delay="1 hour")
    assert connection.nack(job_id=dying.job_id, lease_token=dying.lease_token)
    enqueue(connection, queue)
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))
    # A dead letter has been accepted before: it may always come back.
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    assert sum(stats(connection, queue).values()) == 4


def test_a_duplicate_is_no_new_job(connection: Session) -> None:
    queue = new_queue(connection, max_unfinished=2)
    first = enqueue(connection, queue, unique_key="a")
    second = enqueue(connection, queue, idempotency_key="b")
    for call, expected in (({"unique_key": "a"}, first), ({"idempotency_key": "b"}, second)):
        again = connection.enqueue(queue=queue, payload=Jsonb(1), **call)
        assert (again.job_id, again.duplicate) == (expected, True)
    again = connection.enqueue_batch(queue=queue, payloads=[1, 2], unique_keys=["a", "a"])
    assert [row.job_id for row in again] == [first, first]
    for call in ({"unique_key": "c"}, {"idempotency_key": "c"}):
        refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1), **call)
    claimed = claim_one(connection, queue)
    assert ack(connection, claimed)
    assert not connection.enqueue(queue=queue, payload=Jsonb(1), unique_key="c").duplicate


def test_a_bulk_write_is_refused_as_a_whole(connection: Session) -> None:
    queue = new_queue(connection, max_unfinished=5)
    write_id = begin(connection, queue=queue)
    stage(connection, write_id, numbers(1, 4), task=1)
    stage(connection, write_id, numbers(5, 6), task=2)
    refused("MQ010", connection.commit_write, write_id=write_id)
    assert stats(connection, queue) == {}
    connection.alter_queue(queue=queue, max_unfinished=6)
    connection.commit_write(write_id=write_id)
    assert stats(connection, queue)["ready"] == 6


def test_a_bulk_write_that_is_not_atomic_is_refused_by_the_chunk(connection: Session) -> None:
    queue = new_queue(connection, max_unfinished=5)
    write_id = begin(connection, queue=queue, atomic=False)
    stage(connection, write_id, numbers(1, 4), task=1)
    with pytest.raises(psycopg.Error) as caught:
        stage(connection, write_id, numbers(5, 6), task=2)
    assert caught.value.sqlstate == "MQ010"
    assert stats(connection, queue)["ready"] == 4
    for job in claim(connection, queue):
        assert ack(connection, job)
    stage(connection, write_id, numbers(5, 6), task=2)
    connection.commit_write(write_id=write_id)
    assert stats(connection, queue)["ready"] == 5


def test_what_others_added_is_seen(connection: Session, connect: Connect) -> None:
    queue = new_queue(connection, max_unfinished=100)
    other = connect(autocommit=True)
    for _ in range(40):
        enqueue(connection, queue)
        enqueue(other, queue)
    enqueue_many(other, queue, 20)
    for session in (connection, other):
        refused("MQ010", session.enqueue, queue=queue, payload=Jsonb(1))
    assert len(claim(connection, queue, 1000)) == 100


def test_it_changes_at_any_time(connection: Session) -> None:
    queue = new_queue(connection)
    enqueue_many(connection, queue, 20)
    connection.alter_queue(queue=queue, max_unfinished=10)
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))
    connection.alter_queue(queue=queue, max_unfinished=30)
    enqueue_many(connection, queue, 9)
    connection.alter_queue(queue=queue, max_unfinished=29)
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))
    lifted = connection.alter_queue(queue=queue, no_limit=["max_unfinished"])
    assert lifted.max_unfinished is None
    enqueue_many(connection, queue, 100)
    assert settings(connection, queue)["max_unfinished"] is None
    refused("22023", connection.alter_queue, queue=queue, max_unfinished=0)


def test_a_transaction_that_is_undone_leaves_the_room(connection: Session) -> None:
    queue = new_queue(connection, max_unfinished=5)
    with connection.transaction(force_rollback=True):
        enqueue_many(connection, queue, 5)
        with connection.transaction(force_rollback=True):
            refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))
    enqueue_many(connection, queue, 5)
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))


def test_a_count_of_many_is_soon_done_anew(connection: Session) -> None:
    """It stands for a moment where there are many, but not for many more."""
    queue = new_queue(connection, max_unfinished=20_000)
    enqueue_many(connection, queue, 19_999)
    connection.enqueue(queue=queue, payload=Jsonb(1))
    refused(
        "MQ010", connection.enqueue_batch, queue=queue, payloads=[Jsonb(n) for n in range(5000)]
    )


def test_what_an_old_snapshot_did_not_show_is_seen_once_its_transaction_is_over(
    connection: Session, connect: Connect
) -> None:
    queue = new_queue(connection, max_unfinished=5)
    other = connect(autocommit=True)
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        row(connection, "select pg_sleep(1.1)")
        enqueue_many(other, queue, 5)
        enqueue(connection, queue)
        enqueue(connection, queue)
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))


def test_no_setting_of_a_session_makes_room(connection: Session) -> None:
    """Whatever a role writes into the settings that it may write."""
    queue = new_queue(connection, max_unfinished=5)
    enqueue_many(connection, queue, 5)
    [(queue_id,)] = connection.execute(
        "select queue_id from pgq.queue where queue = %s", [queue]
    ).fetchall()
    for name in (f"room_{queue_id}", "room", f"room_count_{queue_id}"):
        connection.execute(
            "select set_config(%s, '5 9223372036854775807 '"
            " || round(extract(epoch from clock_timestamp()) * 1000000) || ' 0', false)",
            [f"pgq.{name}"],
        )
    refused("MQ010", connection.enqueue, queue=queue, payload=Jsonb(1))


def test_one_count_serves_all_sessions(connection: Session, connect: Connect) -> None:
    """Those that come after its commit; one that counts waits for none."""
    queue = new_queue(connection, max_unfinished=1_000_000)
    enqueue_many(connection, queue, 30_000)
    counts = (
        "select count(*) from pgq.room_count as r inner join pgq.queue as q using (queue_id)"
        " where q.queue = %s and r.took > '0'"
    )
    others = [connect(autocommit=True) for _ in range(3)]
    connection.execute("delete from pgq.room_count")
    with connection.transaction():
        connection.enqueue(queue=queue, payload=Jsonb(1))
        others[0].enqueue(queue=queue, payload=Jsonb(1))  # counts too
    for other in others:
        other.enqueue(queue=queue, payload=Jsonb(1))
    assert row(connection, counts, [queue]) == (2,)


def test_counts_go_with_time_and_with_their_queue(connection: Session) -> None:
    queues = [new_queue(connection, max_unfinished=1000) for _ in range(3)]
    for queue in queues:
        enqueue_many(connection, queue, 1)
    connection.drop_queue(queue=queues[0])
    connection.execute(
        "update pgq.room_count set counted_at = counted_at - interval '61 minutes'"
        " where queue_id = (select queue_id from pgq.queue where queue = %s)",
        [queues[1]],
    )
    connection.cleanup()
    left = connection.execute(
        "select q.queue from pgq.room_count as r left join pgq.queue as q using (queue_id)"
    ).fetchall()
    assert (queues[2],) in left
    assert not {(queues[1],), (None,)} & {*left}


@pytest.mark.parametrize("limit", [100, 20000])
def test_what_was_not_committed_when_jobs_were_counted(
    connection: Session, connect: Connect, limit: int
) -> None:
    """A count is used for a twentieth of the limit at most, however much it left."""
    queue = new_queue(connection, max_unfinished=limit)
    other = connect()
    enqueue_many(other, queue, limit * 9 // 10)
    enqueue(connection, queue)
    other.commit()
    refused("MQ010", connection.enqueue_batch, queue=queue, payloads=list(range(limit // 5)))
    added = 0
    with pytest.raises(psycopg.Error) as caught:
        while added < limit:
            enqueue_many(connection, queue, limit // 100)
            added += limit // 100
    assert caught.value.sqlstate == "MQ010"
    assert sum(stats(connection, queue).values()) <= limit * 1.05


def test_few_counts_are_kept(connection: Session) -> None:
    """Also where other queues use up the ids."""
    queue, busy = new_queue(connection, max_unfinished=200), new_queue(connection)
    for _ in range(50):
        enqueue_many(connection, busy, 200)
        enqueue(connection, queue)
    assert row(connection, "select count(*) from pgq.room_count") < (50,)
