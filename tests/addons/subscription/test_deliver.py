"""What is published becomes jobs of the queues that are subscribed."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import ack, claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, new_name, row
from support.subscription import (
    delivered,
    in_runs,
    new_followed_topic,
    publish_many,
    subscribe,
)


def test_a_publish(connection: Session) -> None:
    """A job has what the message has, and nothing is copied."""
    topic, [one, other] = new_followed_topic(connection, 2)
    place = connection.publish(topic=topic, payload={"n": 1}, key="k", headers={"h": "v"})
    assert (place.partition, place.log_offset, place.duplicate) == (0, 1, False)
    assert connection.publish(topic=topic, body=b"\x00").log_offset == 2
    [message] = connection.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=1)
    for queue in (one, other):
        assert in_runs(connection, queue) == 0
        first, second = claim(connection, queue, 5)
        assert (first.payload, first.key, first.headers) == ({"n": 1}, "k", {"h": "v"})
        assert (first.enqueued_at, first.attempt, first.priority) == (message.published_at, 1, 0)
        assert (second.payload, second.body) == (None, b"\x00")
    assert row(
        connection,
        "select count(*) from pgq.message where partition_id in (select partition_id"
        " from pgq.queue where queue = any(%s))",
        [[one, other]],
    ) == (0,)


@pytest.mark.parametrize("number", [1, 3, 4, 100, 101, 250])
def test_a_batch(connection: Session, number: int) -> None:
    """Its jobs come in the order of their messages, each once."""
    topic, queues = new_followed_topic(connection, 3)
    [run] = publish_many(connection, topic, number)
    assert (run.first_offset, run.last_offset) == (1, number)
    for queue in queues:
        assert in_runs(connection, queue) == (number if number > 3 else 0)
        assert stats(connection, queue)["ready"] == number
        assert delivered(connection, queue) == list(range(number))
        assert in_runs(connection, queue) == 0
        assert stats(connection, queue)["leased"] == number


def test_a_batch_over_partitions(connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection, partitions=4)
    publish_many(connection, topic, 40, keys=[str(n % 7) for n in range(40)])
    jobs = claim(connection, queue, 100)
    assert sorted(job.payload for job in jobs) == list(range(40))
    for key in map(str, range(7)):
        of_key = [job.payload for job in jobs if job.key == key]
        assert of_key == sorted(of_key)


def test_one_after_the_other(connection: Session) -> None:
    """Jobs of batches and of single messages come in the order of their publishing."""
    topic, [queue] = new_followed_topic(connection)
    expected: list[Any] = []
    for turn in range(4):
        publish_many(connection, topic, 5)
        expected += range(5)
        connection.publish(topic=topic, payload=100 + turn)
        enqueue(connection, queue, f"j{turn}")
        expected += [100 + turn, f"j{turn}"]
    found = [claim_one(connection, queue).payload for _ in expected]
    assert found == expected
    assert claim(connection, queue) == []


def test_only_as_many_runs_as_are_needed(connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection)
    for _ in range(3):
        publish_many(connection, topic, 10)
    assert [job.payload for job in claim(connection, queue, 4)] == [0, 1, 2, 3]
    assert in_runs(connection, queue) == 20
    assert len(claim(connection, queue, 6)) == 6
    assert in_runs(connection, queue) == 20
    assert len(claim(connection, queue, 11)) == 11
    assert in_runs(connection, queue) == 0


def test_finish_and_claim(connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 6)
    job = claim_one(connection, queue)
    for n in range(1, 6):
        [job] = connection.finish_and_claim(
            queue=queue, job_ids=[job.job_id], lease_token=job.lease_token
        )
        assert job.payload == n
    assert ack(connection, job)
    assert [
        n
        for (n,) in connection.execute(
            "select payload from pgq.archived_jobs where queue = %s order by job_id", [queue]
        )
    ] == list(range(6))


@pytest.mark.parametrize("end", ["ack", "archive_job"])
@pytest.mark.parametrize("batch", [False, True])
def test_archived_jobs_have_their_content(connection: Session, end: str, batch: bool) -> None:
    """Whatever their ids are; and those of their own beside them."""
    topic, [queue] = new_followed_topic(connection)
    enqueue(connection, queue, "own")
    publish_many(connection, topic, 3)
    jobs = claim(connection, queue, 4)
    token = jobs[0].lease_token
    if batch:
        assert connection.call(
            f"{end}_batch", job_ids=[job.job_id for job in jobs], lease_token=token
        )
    else:
        assert all(connection.call(end, job_id=job.job_id, lease_token=token) for job in jobs)
    found = connection.execute(
        "select payload from pgq.archived_jobs where queue = %s order by job_id", [queue]
    ).fetchall()
    assert [payload for (payload,) in found] == ["own", 0, 1, 2]


def test_a_delay(connection: Session, clock: Clock) -> None:
    """That of the queue, from the publish on."""
    topic, queue = new_name("topic"), new_queue(connection, delay="1 hour")
    connection.create_topic(topic=topic, partitions=1)
    subscribe(connection, topic, queue)
    publish_many(connection, topic, 5)
    connection.publish(topic=topic, payload=99)
    assert stats(connection, queue)["delayed"] == 6
    assert delivered(connection, queue) == []
    clock.advance("61 minutes")
    assert stats(connection, queue)["ready"] == 6
    assert delivered(connection, queue) == [0, 1, 2, 3, 4, 99]


def test_a_job_ttl(connection: Session, clock: Clock) -> None:
    topic, queue = new_name("topic"), new_queue(connection, job_ttl="1 hour")
    connection.create_topic(topic=topic, partitions=1)
    subscribe(connection, topic, queue)
    publish_many(connection, topic, 5)
    clock.advance("2 hours")
    assert stats(connection, queue)["expired"] == 5
    assert delivered(connection, queue) == []


def test_notify(connect: Connect, connection: Session) -> None:
    """The queue's channel is notified, once for a transaction, and only where something matches."""
    topic, queue, other = new_name("topic"), new_queue(connection, notify=True), new_name("queue")
    connection.create_queue(queue=other, notify=True)
    connection.create_topic(topic=topic, partitions=1)
    subscribe(connection, topic, queue)
    subscribe(connection, topic, other, filter={"h": ["v"]})
    listener = connect(autocommit=True)
    listener.execute("listen pgq_queue")
    listener.execute("listen pgq_topic")
    publish_many(connection, topic, 5)
    connection.publish(topic=topic, payload=1)
    connection.alter_topic(topic=topic, notify=True)
    connection.publish(topic=topic, payload=1)
    heard = [(n.channel, n.payload) for n in listener.notifies(timeout=0.2)]
    assert heard == [
        ("pgq_queue", queue),
        ("pgq_queue", queue),
        ("pgq_topic", topic),
        ("pgq_queue", queue),
    ]


def test_idempotency_keys(connection: Session) -> None:
    """What is published again is not delivered again."""
    topic, [queue] = new_followed_topic(connection, partitions=3)
    keys = [f"{topic}{n}" for n in range(8)]
    publish_many(connection, topic, 5, idempotency_keys=keys[:5])
    publish_many(connection, topic, 8, idempotency_keys=keys)
    connection.publish(topic=topic, payload=8, idempotency_key=keys[0])
    connection.publish(topic=topic, payload=9, idempotency_key=topic)
    connection.publish(topic=topic, payload=10, idempotency_key=topic)
    assert sorted(delivered(connection, queue)) == [*range(8), 9]


def test_rollback(connect: Connect, connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection)
    session = connect()
    publish_many(session, topic, 5)
    session.execute("savepoint s")
    publish_many(session, topic, 7)
    session.publish(topic=topic, payload=1)
    session.execute("rollback to s")
    assert delivered(connection, queue) == []
    session.commit()
    publish_many(session, topic, 5)
    session.rollback()
    assert delivered(connection, queue) == list(range(5))


def test_several_topics_and_queues(connection: Session) -> None:
    first, [queue] = new_followed_topic(connection)
    second, [other] = new_followed_topic(connection)
    subscribe(connection, second, queue)
    publish_many(connection, first, 2)
    publish_many(connection, second, 4)
    assert sorted(delivered(connection, queue)) == [0, 0, 1, 1, 2, 3]
    assert delivered(connection, other) == [0, 1, 2, 3]


def test_added_partitions(connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection)
    connection.alter_topic(topic=topic, partitions=4, notify=True)
    connection.alter_topic(topic=topic, notify=False)
    for partition in range(4):
        connection.publish(topic=topic, payload=partition, partition=partition)
    assert delivered(connection, queue) == [0, 1, 2, 3]


def test_views_and_schedules(connection: Session, clock: Clock) -> None:
    """Whatever publishes, delivers: inserts into the view, schedules, and bulk writes."""
    topic, [queue] = new_followed_topic(connection)
    connection.execute("insert into pgq.publish_rows (topic, payload) values (%s, '1')", [topic])
    name = new_name("schedule")
    connection.create_schedule(schedule=name, topic=topic, payload=2, every="1 hour")
    clock.advance("61 minutes")
    connection.run_schedules()
    connection.drop_schedule(schedule=name)
    assert delivered(connection, queue) == [1, 2]


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("packed", ["packed_payloads", "packed_bodies"])
@pytest.mark.parametrize("keyed", [True, False])
def test_bulk_writes(connection: Session, atomic: bool, packed: str, keyed: bool) -> None:
    topic, [queue] = new_followed_topic(connection, partitions=2)
    write = connection.begin_write(topic=topic, atomic=atomic)
    for task in range(2):
        connection.write_chunk(
            write_id=write.write_id,
            task=task,
            task_attempt="a",
            chunk=0,
            lengths=[1] * 6,
            keys=["a", "b", "c", "d", "e", "f"] if keyed else None,
            last_chunk=True,
            **{packed: b"012345"},
        )
    assert bool(delivered(connection, queue)) is not atomic
    connection.commit_write(write_id=write.write_id)
    delivered(connection, queue)
    assert stats(connection, queue)["leased"] == 12


def test_dead_letters(connection: Session) -> None:
    """A job dies, is redriven and archived with its content, and may be cancelled."""
    topic, queue = new_name("topic"), new_queue(connection, max_attempts=1)
    connection.create_topic(topic=topic, partitions=1)
    subscribe(connection, topic, queue)
    publish_many(connection, topic, 5)
    jobs = claim(connection, queue, 3)
    for job in jobs:
        assert connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    assert [
        n
        for (n,) in connection.execute(
            "select payload from pgq.dead_letters where queue = %s order by job_id", [queue]
        )
    ] == [0, 1, 2]
    assert connection.redrive(queue=queue, job_id=jobs[1].job_id).taken == 1
    assert connection.get_job(job_id=jobs[1].job_id).payload == 1
    assert connection.cancel_job(job_id=jobs[1].job_id)
    assert connection.purge_queue(queue=queue, dead_only=True).taken == 2
    assert delivered(connection, queue) == [3, 4]


def test_purge(connection: Session) -> None:
    """Jobs of runs count, and go."""
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 250)
    claim(connection, queue, 10)
    connection.publish(topic=topic, payload=1)
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 251
    assert delivered(connection, queue) == []
    publish_many(connection, topic, 5)
    assert delivered(connection, queue) == list(range(5))


def test_drop_queue(connection: Session) -> None:
    """Its subscription goes with it, and so do its runs; a new one gets nothing."""
    topic, [queue, other] = new_followed_topic(connection, 2)
    publish_many(connection, topic, 20)
    connection.drop_queue(queue=queue)
    assert not [s for s in connection.list_subscriptions() if s.queue == queue]
    connection.create_queue(queue=queue)
    publish_many(connection, topic, 20)
    assert delivered(connection, queue) == []
    assert len(delivered(connection, other)) == 40


def test_drop_topic(connection: Session) -> None:
    """Its subscriptions go with it; jobs that were made stay, with their contents."""
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 20)
    connection.drop_topic(topic=topic)
    assert not [s for s in connection.list_subscriptions() if s.topic == topic]
    connection.create_topic(topic=topic)
    publish_many(connection, topic, 3)
    assert delivered(connection, queue) == list(range(20))


def test_a_paused_queue(connection: Session) -> None:
    topic, [queue] = new_followed_topic(connection)
    connection.pause_queue(queue=queue)
    publish_many(connection, topic, 20)
    assert delivered(connection, queue) == []
    assert in_runs(connection, queue) == 20
    connection.resume_queue(queue=queue)
    assert delivered(connection, queue) == list(range(20))


def test_jobs_of_other_priorities_and_labels(connection: Session) -> None:
    """A claim by label takes no run; jobs of a lower priority come behind runs."""
    topic, [queue] = new_followed_topic(connection)
    enqueue(connection, queue, "later", priority=1)
    enqueue(connection, queue, "labelled", label="l")
    publish_many(connection, topic, 4)
    assert [job.payload for job in claim(connection, queue, 9, label="l")] == ["labelled"]
    assert in_runs(connection, queue) == 4
    assert delivered(connection, queue) == [0, 1, 2, 3, "later"]


def test_a_queue_with_a_limit_for_each_key(connection: Session) -> None:
    """Its claims make jobs of runs, too, and go on until they have enough."""
    topic, [queue] = new_followed_topic(connection)
    connection.alter_queue(queue=queue, max_leased_per_key=1)
    for key in ("a", "b", "c"):
        publish_many(connection, topic, 10, keys=[key] * 10)
    jobs = claim(connection, queue, 3)
    assert [(job.key, job.payload) for job in jobs] == [("a", 0), ("b", 0), ("c", 0)]
    assert claim(connection, queue, 3) == []
