"""metrics: that its figures are those of the views, and what else they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.databases import Databases
from support.metrics import figures, key_of
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session
from support.waiting import wait_until


@pytest.fixture
def dsn(databases: Databases) -> Iterator[str]:
    """A fresh database: where a table has been larger once, its jobs are estimated."""
    with databases.copy() as dsn:
        yield dsn


@pytest.fixture
def clock(dsn: str) -> Clock:
    """Its clock."""
    clock = Clock(dsn)
    clock.install()
    return clock


UNITS = ("_total", "_seconds", "_bytes", "_messages", "_jobs", "_rows", "_letters", "_partitions")
PLAIN = {
    "pgq_info", "pgq_queue_jobs_estimated", "pgq_queue_finished_last_minute", "pgq_queue_paused",
    "pgq_schedule_failing", "pgq_worker_running", "pgq_held_transactions", "pgq_workers",
    "pgq_workers_omitted", "pgq_cleanup_failures",
}  # fmt: skip


def test_names_are_those_of_prometheus(connection: Session) -> None:
    described = connection.execute(
        "select name, type, help from pgq._describe_metrics()"
    ).fetchall()
    assert len({name for name, _, _ in described}) == len(described)
    for name, kind, text in described:
        assert re.fullmatch(r"pgq_[a-z_]+", name), name
        assert (kind == "counter") == name.endswith("_total"), name
        assert kind in ("counter", "gauge"), name
        assert name in PLAIN or name.endswith(UNITS), name
        assert text.endswith("."), name


def test_an_empty_database(connection: Session) -> None:
    found = figures(connection)
    version = connection.version()
    assert found[key_of("pgq_info", version=version)] == 1
    assert found[key_of("pgq_jobs_created_total")] == 0
    assert found[key_of("pgq_cleanup_overdue_seconds")] == 0
    assert 0 < found[key_of("pgq_metrics_seconds")] < 10
    assert not [name for name, _ in found if name.startswith(("pgq_topic", "pgq_group"))]


def busy_topics(connection: Session, clock: Clock) -> None:
    """Topics whose groups stand in several segments, in front of and behind retention."""
    for number, retention in enumerate(("3 hours", "9 hours", "9 hours")):
        connection.create_topic(topic=f"t{number}", partitions=3, retention=retention)
        for group in ("none", "some", "all", "back"):
            connection.create_group(topic=f"t{number}", consumer_group=group)
    connection.create_topic(topic="empty", partitions=2)
    for hour in range(7):
        for number in range(3):
            for partition in range(number + 1):
                connection.publish_batch(
                    topic=f"t{number}", payloads=[hour] * (partition + 2), partition=partition
                )
            connection.consume(topic=f"t{number}", consumer_group="some", max_messages=1)
            while connection.consume(topic=f"t{number}", consumer_group="all"):
                pass
        clock.advance("1 hour")
        for _ in range(4):
            connection.cleanup()
    connection.seek(topic="t1", consumer_group="back", partition=0, log_offset=4)


def test_lag_is_that_of_the_view(connection: Session, clock: Clock) -> None:
    busy_topics(connection, clock)
    found = figures(connection)
    rows = connection.execute(
        "select topic, consumer_group, partition, lag, committed_offset,"
        " coalesce(extract(epoch from pgq._clock() - oldest_published_at), 0) from pgq.group_lag"
    ).fetchall()
    assert len(rows) == 3 * 3 * 4
    assert {row[3] for row in rows} >= {0, 14}
    behind: dict[tuple[str, str], int] = {}
    for topic, group, partition, lag, committed, seconds in rows:
        labels = {"topic": topic, "consumer_group": group, "partition": str(partition)}
        assert found[key_of("pgq_group_lag_messages", **labels)] == lag, labels
        age = found[key_of("pgq_group_lag_seconds", **labels)]
        assert age == pytest.approx(float(seconds), abs=5), labels
        assert (age > 0) == (lag > 0)
        behind[topic, group] = behind.get((topic, group), 0) + committed
    for (topic, group), committed in behind.items():
        name = "pgq_group_processed_messages"
        assert found[key_of(name, topic=topic, consumer_group=group)] == committed
    for topic, last, messages in connection.execute(
        "select topic, sum(last_offset), sum(messages) from pgq.topic_stats group by topic"
    ):
        assert found[key_of("pgq_topic_published_total", topic=topic)] == last
        assert found[key_of("pgq_topic_messages", topic=topic)] == messages
    assert connection.execute(
        "select count(distinct segment) > 1 from pgq.segment_range"
    ).fetchone()
    assert found[key_of("pgq_topic_published_total", topic="empty")] == 0


def test_what_subscriptions_and_attempts_show(connection: Session, clock: Clock) -> None:
    """A group that counts attempts says how many of its partitions fail."""
    connection.create_topic(topic="t", partitions=2)
    connection.create_topic(topic="dead", partitions=1)
    connection.create_group(topic="t", consumer_group="g", max_attempts=3, dead_letter_topic="dead")
    for partition in range(2):
        connection.publish(topic="t", payload=1, partition=partition)
    failing = key_of("pgq_group_failing_partitions", topic="t", consumer_group="g")
    assert figures(connection)[failing] == 0
    [leased] = connection.poll(topic="t", consumer_group="g")
    connection.nack_offsets(
        topic="t", consumer_group="g", partition=leased.partition, lease_token=leased.lease_token
    )
    assert figures(connection)[failing] == 1


def test_staged_messages(connection: Session, clock: Clock) -> None:
    connection.create_topic(topic="d", partitions=2, deferred=True)
    connection.create_group(topic="d", consumer_group="g")
    connection.publish_batch(topic="d", payloads=[1, 2, 3])
    clock.advance("1 minute")
    connection.publish(topic="d", payload=1)
    found = figures(connection)
    assert found[key_of("pgq_topic_staged_messages", topic="d")] == 4
    assert found[key_of("pgq_topic_staged_seconds", topic="d")] == pytest.approx(60, abs=5)
    assert found[key_of("pgq_topic_published_total", topic="d")] == 0
    while connection.consume(topic="d", consumer_group="g"):
        pass
    found = figures(connection)
    assert found[key_of("pgq_topic_staged_messages", topic="d")] == 0
    assert found[key_of("pgq_topic_staged_seconds", topic="d")] == 0
    assert found[key_of("pgq_topic_published_total", topic="d")] == 4


def test_jobs_are_those_of_the_view(connection: Session, clock: Clock) -> None:
    """In every state, subscribed ones included."""
    queue = new_queue(connection, max_attempts=3, backoff="1 hour", job_ttl="2 hours")
    keyed = new_queue(connection, ordered=True)
    fed = new_queue(connection)
    connection.create_topic(topic="t", partitions=1)
    connection.subscribe(subscription="s", topic="t", queue=fed)
    for _ in range(2):
        connection.publish_batch(topic="t", payloads=list(range(150)))
    claim_one(connection, fed)
    enqueue_many(connection, queue, 3)
    clock.advance("119 minutes")
    for priority in range(10):
        enqueue(connection, queue, 1, priority=priority)
    enqueue_many(connection, queue, 4, delay="30 minutes")
    enqueue_many(connection, keyed, 5, keys=["k"] * 5)
    clock.advance("2 minutes")
    failed, *_ = claim(connection, queue, 4)
    connection.nack(job_id=failed.job_id, lease_token=failed.lease_token, error="e")
    rejected = claim_one(connection, queue)
    connection.reject_job(job_id=rejected.job_id, lease_token=rejected.lease_token)
    connection.pause_queue(queue=keyed)
    clock.advance("10 seconds")
    found = figures(connection)
    states = ("ready", "leased", "delayed", "waiting", "expired")
    rows = connection.execute(
        f"select queue, paused, dead, {', '.join(states)},"
        " extract(epoch from pgq._clock() - oldest_ready_at) from pgq.queue_stats"
    ).fetchall()
    for name, paused, dead, *counts, oldest in rows:
        for state, count in zip(states, counts, strict=True):
            assert found[key_of("pgq_queue_jobs", queue=name, state=state)] == count, (name, state)
        assert found[key_of("pgq_queue_paused", queue=name)] == paused
        assert found[key_of("pgq_queue_dead_letters", queue=name)] == dead
        assert found[key_of("pgq_queue_jobs_estimated", queue=name)] == 0
        age = found[key_of("pgq_queue_oldest_ready_seconds", queue=name)]
        assert age == pytest.approx(float(oldest or 0), abs=5)
    extents = (
        "select count(*) > 1 from pgq.job_extent join pgq.queue using (queue_id) where queue = %s"
    )
    assert connection.execute(extents, [fed]).fetchone() == (True,)
    # each state was there: this compares more than zeros
    assert all(sum(row[3 + n] for row in rows) for n in range(len(states)))
    assert found[key_of("pgq_queue_retrying_jobs", queue=queue)] == 1
    age = found[key_of("pgq_queue_oldest_dead_letter_seconds", queue=queue)]
    assert age == pytest.approx(10, abs=5)
    assert found[key_of("pgq_jobs_created_total")] >= 22


def test_finished_jobs(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    enqueue_many(connection, queue, 7)

    def finish(number: int) -> None:
        for job in claim(connection, queue, number):
            connection.ack(job_id=job.job_id, lease_token=job.lease_token)

    finish(2)
    clock.advance("2 minutes")
    finish(3)
    found = figures(connection)
    assert found[key_of("pgq_queue_finished_last_minute", queue=queue)] == 3
    archived = key_of("pgq_jobs_archived_total")
    wait_until(lambda: figures(connection)[archived] >= 5, what="for the statistics")
    clock.advance("2 minutes")
    assert figures(connection)[key_of("pgq_queue_finished_last_minute", queue=queue)] == 0


def test_many_finished_jobs(connection: Session) -> None:
    """More than it reads: the rate is taken for the rest of the minute as well."""
    queue = new_queue(connection)
    connection.execute(
        """
        insert into pgq.job_archive (job_id, queue_id, ended_at, segment, attempt, outcome)
        select n, q.queue_id, pgq._clock() - (20000 - n) * interval '1 millisecond', q.segment, 1,
            'acked'
        from pgq.queue as q
        cross join generate_series(1, 20000) as n
        where q.queue = %s
        order by n
        """,
        [queue],
    )
    found = figures(connection)[key_of("pgq_queue_finished_last_minute", queue=queue)]
    assert found == pytest.approx(60000, rel=0.1)


def test_jobs_that_finished_in_two_segments(connection: Session) -> None:
    """Their payloads stand in two: the figure is one."""
    queue = new_queue(connection)
    connection.create_topic(topic="t", retention="3 hours")  # another segment
    connection.execute(
        """
        insert into pgq.job_archive (job_id, queue_id, ended_at, segment, attempt, outcome)
        select 1, q.queue_id, pgq._clock(), s.segment, 1, 'acked'
        from pgq.queue as q
        cross join pgq.segment as s
        where q.queue = %s
        """,
        [queue],
    )
    assert figures(connection)[key_of("pgq_queue_finished_last_minute", queue=queue)] == 2


def test_long_queues_are_estimated(connection: Session) -> None:
    """Short ones beside them are counted, and so is what is leased."""
    long, short, later = (new_queue(connection) for _ in range(3))
    enqueue_many(connection, short, 30)
    enqueue_many(connection, later, 2000, delay="1 hour")
    claim(connection, short, 4)
    add_jobs(connection, long, 150_000)
    enqueue_many(connection, long, 30)
    claim(connection, long, 25)
    found = figures(connection)

    def jobs(queue: str, state: str) -> float:
        return found[key_of("pgq_queue_jobs", queue=queue, state=state)]

    assert found[key_of("pgq_queue_jobs_estimated", queue=long)] == 1
    assert jobs(long, "ready") == pytest.approx(135_000, rel=0.1)
    assert jobs(long, "delayed") == pytest.approx(15_000, rel=0.2)
    assert found[key_of("pgq_queue_retrying_jobs", queue=long)] == pytest.approx(1500, rel=0.5)
    assert found[key_of("pgq_queue_jobs_estimated", queue=short)] == 0
    assert (jobs(short, "ready"), jobs(short, "leased")) == (26, 4)
    assert found[key_of("pgq_queue_jobs_estimated", queue=later)] == 1
    assert jobs(later, "delayed") >= 1000
    connection.execute("delete from pgq.job where visible_at > now() + interval '5 minutes'")
    found = figures(connection)
    assert jobs(long, "leased") == 25


def add_jobs(connection: Session, queue: str, number: int) -> None:
    """Jobs that are due, and a tenth that is not; a hundredth has failed once."""
    connection.execute(
        """
        insert into pgq.job (
            job_id, queue_id, partition_id, log_offset, visible_at, segment, attempt, priority,
            last_error
        )
        select
            nextval('pgq.job_id'), q.queue_id, q.partition_id, 1,
            now() + case when n %% 10 = 0 then interval '1 hour' else interval '-1 minute' end,
            q.segment, 0, 5, case when n %% 100 = 1 then 'e' end
        from pgq.queue as q
        cross join generate_series(1, %s) as n
        where q.queue = %s
        """,
        [number, queue],
    )


def test_the_floor(connection: Session, clock: Clock) -> None:
    """While nobody claims it stays behind; it follows those who do."""
    queue = new_queue(connection)
    lag = key_of("pgq_queue_floor_lag_seconds", queue=queue)
    assert figures(connection)[lag] == 0

    def work() -> None:
        enqueue(connection, queue, 1)
        job = claim_one(connection, queue)
        connection.ack(job_id=job.job_id, lease_token=job.lease_token)
        clock.advance("10 seconds")

    for _ in range(3):
        work()
    before = figures(connection)[lag]
    assert before < 60
    clock.advance("1 hour")
    assert figures(connection)[lag] == pytest.approx(before + 3600, abs=5)
    for _ in range(4):
        work()
    assert figures(connection)[lag] < 60


def test_schedules_and_workers(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    connection.create_schedule(schedule="s", queue=queue, payload=1, every="1 hour")
    connection.create_schedule(schedule="lost", queue=queue, payload=1, every="1 hour")
    connection.pause_schedule(schedule="lost")
    connection.heartbeat(worker="w", host="h", running=3)
    clock.advance("90 minutes")
    found = figures(connection)
    overdue = found[key_of("pgq_schedule_overdue_seconds", schedule="s")]
    assert overdue == pytest.approx(1800, abs=5)
    assert found[key_of("pgq_schedule_overdue_seconds", schedule="lost")] == 0
    assert found[key_of("pgq_schedule_failing", schedule="s")] == 0
    [(role,)] = connection.execute("select session_user").fetchall()
    worker = {"worker": "w", "kind": "worker", "host": "h", "role": role}
    assert found[key_of("pgq_worker_last_seen_seconds", **worker)] == pytest.approx(5400, abs=5)
    assert found[key_of("pgq_worker_running", **worker)] == 3
    connection.drop_queue(queue=queue)
    connection.run_schedules()
    found = figures(connection)
    assert found[key_of("pgq_schedule_failing", schedule="s")] == 1


def test_space_and_cleanup(connection: Session, clock: Clock) -> None:
    connection.create_topic(topic="t", partitions=1, retention="3 hours")
    connection.publish(topic="t", payload=Jsonb("x" * 100_000))
    overdue = key_of("pgq_cleanup_overdue_seconds")
    found = figures(connection)
    [segment] = [
        dict(labels)["segment"]
        for (name, labels), value in found.items()
        if name == "pgq_segment_bytes" and ("content", "messages") in labels
    ]
    labels = {"segment": segment, "state": "open", "content": "messages"}
    [(bytes_,)] = connection.execute(
        "select pg_total_relation_size(%s)", [f"pgq.message_{segment}"]
    ).fetchall()
    assert found[key_of("pgq_segment_bytes", **labels)] == bytes_ > 0
    assert found[key_of("pgq_table_bytes", table="topic")] > 0
    assert found[overdue] == 0
    clock.advance("2 hours")
    assert figures(connection)[overdue] == pytest.approx(3600, abs=5)
    for _ in range(4):
        connection.cleanup()
    assert figures(connection)[overdue] == 0


def test_reading_is_enough_for_it(connect: Connect, connection: Session) -> None:
    connection.create_topic(topic="t")
    session = connect()
    session.execute("set transaction read only")
    assert session.metrics()
    assert "pgq_topic_messages" in session.metrics_text()


def test_it_locks_no_leaf_that_it_does_not_read(connect: Connect, connection: Session) -> None:
    """So what is to be emptied is not held up by whoever watches."""
    connection.create_topic(topic="t", partitions=2)
    connection.create_group(topic="t", consumer_group="g")
    connection.publish(topic="t", payload=1)
    session = connect()
    session.metrics()
    locked: list[Any] = connection.execute(
        "select relation::regclass::text from pg_locks where pid = %s and relation is not null"
        " and relation::regclass::text ~ '^pgq.message_[0-9]+$'",
        [session.pid],
    ).fetchall()
    assert len(locked) == 1
