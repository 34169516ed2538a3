"""Every method once, on a real server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq import (
    BulkWriteState,
    Client,
    Group,
    LeasedMessage,
    LeaseLost,
    Message,
    MessagePosition,
    OffsetOutOfRange,
    OffsetRange,
    PartitionOffsets,
    Queue,
    Topic,
    WriteLost,
)
from support import Clock

Connect = Callable[..., "psycopg.Connection[Any]"]


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    return Client(connection)


@pytest.fixture
def readings(client: Client) -> Client:
    """A client with a topic of one partition and a group."""
    client.create_topic("readings", partitions=1)
    client.create_group("readings", "sums")
    return client


@pytest.fixture
def mail(client: Client) -> Client:
    """A client with a queue."""
    client.create_queue("mail")
    return client


# -- topics and publishing -------------------------------------------------------------------------


def test_topic_settings_arrive_and_return(client: Client) -> None:
    topic = client.create_topic(
        "readings",
        partitions=3,
        retention=timedelta(days=2),
        max_bytes=10_000_000,
        notify=True,
    )
    assert isinstance(topic, Topic)
    assert (topic.topic, topic.partitions, topic.notify) == ("readings", 3, True)
    assert (topic.retention, topic.max_bytes) == (timedelta(days=2), 10_000_000)
    assert topic.created_at.tzinfo is not None
    assert client.list_topics() == [topic]


def test_an_argument_left_out_takes_the_default_and_none_is_null(client: Client) -> None:
    assert client.create_topic("week").retention == timedelta(days=7)
    assert client.create_topic("for-ever", retention=None).retention is None


def test_topic_is_altered_and_dropped(client: Client) -> None:
    client.create_topic("readings", max_bytes=1_000_000)
    altered = client.alter_topic("readings", retention=timedelta(hours=1), no_limit=["max_bytes"])
    assert (altered.retention, altered.max_bytes) == (timedelta(hours=1), None)
    client.drop_topic("readings")
    assert client.list_topics() == []


def test_payloads_of_any_kind_return_as_they_were(readings: Client) -> None:
    payloads = [{"t": 21.5, "ok": True, "tags": ["a", None]}, [1, 2], "text", 7, 2.5]
    payloads += [False, "", 0, {}, []]
    for number, payload in enumerate(payloads, start=1):
        where = readings.publish("readings", payload, key="k", headers={"h": "ä"})
        assert where == MessagePosition(0, number)
        (message,) = readings.fetch_range("readings", 0, number, number)
        assert isinstance(message, Message)
        assert (message.key, message.headers, message.payload) == ("k", {"h": "ä"}, payload)
        assert message.body is None
        assert abs(message.published_at - datetime.now(timezone.utc)) < timedelta(minutes=5)
    readings.publish_batch("readings", payloads)
    assert [m.payload for m in readings.fetch("readings", "sums")] == payloads * 2


def test_null_of_json_and_raw_bytes(readings: Client) -> None:
    readings.publish("readings", Jsonb(None))
    readings.publish("readings", body=b"\x00\xff%s", partition=0)
    first, second = readings.fetch("readings", "sums")
    assert (first.payload, first.body) == (None, None)
    assert (second.payload, second.body) == (None, b"\x00\xff%s")


def test_none_is_no_payload(readings: Client) -> None:
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        readings.publish("readings", None)


def test_batch_is_stored_in_order(readings: Client) -> None:
    ranges = readings.publish_batch(
        "readings", [{"n": n} for n in range(5)], keys=["a", None, "b", "a", "c"], headers=[{}] * 5
    )
    assert ranges == [OffsetRange(0, 1, 5)]
    assert len(ranges[0]) == 5
    assert [m.payload["n"] for m in readings.fetch("readings", "sums")] == list(range(5))
    assert readings.publish_batch("readings", []) == []


def test_batch_of_bodies(readings: Client) -> None:
    readings.publish_batch("readings", bodies=(b"one", b"", b"\x00"), partition=0)
    assert [m.body for m in readings.fetch("readings", "sums")] == [b"one", b"", b"\x00"]


def test_null_in_a_batch_refuses_all_of_it(readings: Client) -> None:
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        readings.publish_batch("readings", [{"n": 1}, None])
    assert readings.fetch("readings", "sums") == []


# -- consuming -------------------------------------------------------------------------------------


def test_groups_are_created_listed_dropped(client: Client) -> None:
    client.create_topic("readings")
    client.create_topic("others")
    group = client.create_group("readings", "sums", start="latest", out_of_range="skip")
    assert isinstance(group, Group)
    assert (group.consumer_group, group.out_of_range) == ("sums", "skip")
    client.create_group("others", "all")
    assert [g.consumer_group for g in client.list_groups("others")] == ["all"]
    assert len(client.list_groups()) == 2
    client.drop_group("readings", "sums")
    assert client.list_groups("readings") == []


def test_the_callers_transaction_decides(readings: Client, connect: Connect) -> None:
    readings.publish_batch("readings", list(range(10)))
    connection = connect()
    client = Client(connection)
    assert client.connection is connection
    assert client.claim_offsets("readings", "sums", max_messages=4) == OffsetRange(0, 1, 4)
    connection.rollback()
    assert [m.payload for m in client.consume("readings", "sums", max_messages=6)] == list(range(6))
    connection.commit()
    assert client.claim_offsets("readings", "sums", partition=0) == OffsetRange(0, 7, 10)
    assert client.claim_offsets("readings", "sums") is None
    connection.rollback()


def test_leases_of_the_log(readings: Client) -> None:
    readings.publish_batch("readings", list(range(6)))
    leased = readings.poll("readings", "sums", max_messages=3, lease=timedelta(minutes=1))
    assert [m.payload for m in leased] == [0, 1, 2]
    assert isinstance(leased[0], LeasedMessage)
    token = leased[0].lease_token
    assert isinstance(token, uuid.UUID)
    assert readings.poll("readings", "sums") == []
    assert readings.extend_poll("readings", "sums", 0, token, lease=timedelta(minutes=2))
    assert readings.release("readings", "sums", 0, token)
    assert not readings.release("readings", "sums", 0, token)
    again = readings.poll("readings", "sums", partition=0)
    assert len(again) == 6
    with pytest.raises(LeaseLost):
        readings.commit_offset("readings", "sums", 0, 3, lease_token=token)
    assert readings.commit_offset("readings", "sums", 0, 6, lease_token=again[0].lease_token) == 6


def test_fetch_and_commit_by_hand_and_seek(readings: Client) -> None:
    readings.publish_batch("readings", list(range(5)))
    assert [m.payload for m in readings.fetch("readings", "sums", max_messages=2)] == [0, 1]
    assert readings.commit_offset("readings", "sums", 0, 2) == 2
    assert readings.commit_offset("readings", "sums", 0, 1) == 2
    assert readings.seek("readings", "sums", partition=0, log_offset=2) == [MessagePosition(0, 2)]
    assert readings.seek("readings", "sums", start="latest") == [MessagePosition(0, 6)]
    long_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    assert readings.seek("readings", "sums", published_at=long_ago) == [MessagePosition(0, 1)]


# -- queues ----------------------------------------------------------------------------------------


def test_queue_settings_arrive_and_return(client: Client) -> None:
    queue = client.create_queue(
        "mail",
        lease=timedelta(seconds=5),
        max_attempts=None,
        delay=timedelta(seconds=1),
        retention=None,
        backoff=timedelta(seconds=2),
        backoff_max=timedelta(minutes=1),
        backoff_jitter=0.0,
        archive=False,
        notify=True,
    )
    assert isinstance(queue, Queue)
    assert (queue.lease, queue.max_attempts, queue.delay) == (
        timedelta(seconds=5),
        None,
        timedelta(seconds=1),
    )
    assert (queue.retention, queue.backoff) == (None, timedelta(seconds=2))
    assert (queue.backoff_max, queue.backoff_jitter) == (timedelta(minutes=1), 0.0)
    assert (queue.archive, queue.notify, queue.paused) == (False, True, False)
    assert client.list_queues() == [queue]
    altered = client.alter_queue(
        "mail",
        lease=timedelta(seconds=9),
        max_attempts=3,
        delay=timedelta(0),
        retention=timedelta(days=1),
        backoff=timedelta(seconds=1),
        backoff_max=timedelta(seconds=30),
        backoff_jitter=0.5,
        archive=True,
        notify=False,
    )
    assert (altered.lease, altered.max_attempts, altered.archive) == (timedelta(seconds=9), 3, True)
    assert client.alter_queue("mail", no_limit=["max_attempts"]).max_attempts is None
    client.drop_queue("mail")
    assert client.list_queues() == []


def test_job_is_claimed_and_acked(mail: Client) -> None:
    number = mail.enqueue("mail", {"to": "you"}, label="a", headers={"h": 1}, key="k", priority=3)
    (job,) = mail.claim_job("mail", lease=timedelta(minutes=1))
    assert (job.job_id, job.attempt, job.priority) == (number, 1, 3)
    assert (job.payload, job.label, job.headers, job.key) == ({"to": "you"}, "a", {"h": 1}, "k")
    assert job.body is None
    assert job.enqueued_at < job.leased_until
    assert mail.extend_lease(number, job.lease_token, lease=timedelta(minutes=2))
    assert not mail.ack(number, uuid.uuid4())
    assert mail.ack(number, job.lease_token)
    assert not mail.ack(number, job.lease_token)
    (archived,) = mail.archived_jobs("mail")
    assert (archived.job_id, archived.payload, archived.attempt) == (number, {"to": "you"}, 1)


def test_batches_of_jobs(mail: Client) -> None:
    numbers = mail.enqueue_batch(
        "mail", [1, 2, 3, 4], labels=["a", "b", "a", "b"], headers=[{}] * 4, keys=["k"] * 4
    )
    assert numbers == sorted(numbers)
    assert [job.payload for job in mail.claim_job("mail", max_jobs=9, label="a")] == [1, 3]
    jobs = mail.claim_job("mail", max_jobs=9)
    token = jobs[0].lease_token
    ids = [job.job_id for job in jobs]
    assert ids == [numbers[1], numbers[3]]
    assert mail.extend_lease_batch(ids, token) == ids
    assert mail.nack_batch(ids, token, delay=timedelta(0), error="not now") == ids
    jobs = mail.claim_job("mail", max_jobs=9)
    assert [job.attempt for job in jobs] == [2, 2]
    token = jobs[0].lease_token
    assert mail.ack_batch([ids[0]], token) == [ids[0]]
    assert mail.archive_job_batch(ids, token, outcome="done", result={"n": 1}) == [ids[1]]
    assert {job.job_id: job.outcome for job in mail.archived_jobs("mail")}[ids[1]] == "done"


def test_bodies_delays_and_times(mail: Client) -> None:
    mail.enqueue("mail", body=b"\x01", delay=timedelta(hours=1))
    mail.enqueue("mail", body=b"\x02", run_at=datetime.now(timezone.utc) + timedelta(hours=1))
    mail.enqueue_batch("mail", bodies=[b"\x03"])
    (job,) = mail.claim_job("mail", max_jobs=5)
    assert job.body == b"\x03"
    (stats,) = mail.queue_stats("mail")
    assert (stats.ready, stats.leased, stats.delayed, stats.dead) == (0, 1, 2, 0)
    assert stats.oldest_ready_seconds == 0.0
    assert isinstance(stats.oldest_ready_seconds, float)


def test_failures_end_in_the_dead_letters_and_return(client: Client) -> None:
    client.create_queue("mail", max_attempts=1)
    number = client.enqueue("mail", {"to": "nobody"})
    (job,) = client.claim_job("mail")
    assert client.nack(number, job.lease_token, error="no such address")
    (dead,) = client.dead_letters("mail")
    assert (dead.job_id, dead.last_error, dead.attempt) == (number, "no such address", 1)
    assert dead.payload == {"to": "nobody"}
    assert client.redrive("mail", job_id=number) == 1
    assert client.redrive("mail") == 0
    (job,) = client.claim_job("mail")
    assert client.nack(number, job.lease_token)
    assert client.purge_queue("mail", dead_only=True) == 1
    assert client.purge_queue("mail") == 0


def test_job_is_archived_with_its_result(client: Client) -> None:
    client.create_queue("mail", archive=False)
    client.enqueue("mail", {})
    (job,) = client.claim_job("mail")
    assert client.archive_job(job.job_id, job.lease_token, outcome="sent", result=[1, {"a": 2}])
    (archived,) = client.archived_jobs("mail")
    assert (archived.outcome, archived.result) == ("sent", [1, {"a": 2}])


def test_pause_and_resume(mail: Client) -> None:
    mail.enqueue("mail", {})
    mail.pause_queue("mail")
    assert mail.claim_job("mail") == []
    assert mail.list_queues()[0].paused
    mail.resume_queue("mail")
    assert len(mail.claim_job("mail")) == 1


# -- bulk writes -----------------------------------------------------------------------------------


def test_a_bulk_write_to_a_topic(client: Client) -> None:
    client.create_topic("readings", partitions=2)
    target: dict[str, Any] = {"topic": "readings", "producer": "job", "seq": 1}
    begun = client.begin_write(**target, timeout=timedelta(hours=1))
    assert isinstance(begun, BulkWriteState)
    write_id = begun.write_id
    keyed = {"keys": ("k", None), "headers": [{"h": 1}, None]}
    assert client.write_chunk(
        write_id, 0, "a", 0, (1, 1), partition=0, packed_bodies=b"12", **keyed
    )
    assert client.write_chunk(write_id, 0, "a", 1, [2], b"[]", last_chunk=True)
    assert not client.write_chunk(write_id, 0, "b", 0, [], b"", last_chunk=True)
    done = client.commit_write(write_id, expected_messages=3)
    assert (done.write_id, done.messages, done.repeated) == (write_id, 3, False)
    assert done.committed_at is not None
    assert client.begin_write(**target).repeated
    messages = client.fetch_range("readings", 0, 1, 3)
    assert [(m.key, m.headers, m.payload, m.body) for m in messages] == [
        ("k", {"h": 1}, None, b"1"),
        (None, None, None, b"2"),
        (None, None, [], None),
    ]


def test_a_bulk_write_to_a_queue(mail: Client) -> None:
    write_id = mail.begin_write(queue="mail", atomic=False).write_id
    more = {"labels": ["l"], "priority": 3, "delay": timedelta(0)}
    assert mail.write_chunk(write_id, 0, "a", 0, [1], packed_bodies=b"1", **more)
    (job,) = mail.claim_job("mail")
    assert (job.body, job.label, job.priority) == (b"1", "l", 3)
    assert mail.abort_write(write_id)
    assert not mail.abort_write(write_id)
    with pytest.raises(WriteLost):
        mail.commit_write(write_id)


def test_offsets_and_ranges(readings: Client) -> None:
    readings.publish_batch("readings", [1, 2, 3])
    assert readings.list_offsets("readings") == [PartitionOffsets(0, 1, 3, None)]
    (place,) = readings.list_offsets("readings", published_at=datetime.now(timezone.utc))
    assert place.log_offset == 4
    key = readings.check_range("readings", 0, 1, 3)
    found = readings.connection.execute(
        "select payload from pgq.messages where partition_id = %s order by log_offset", [key]
    ).fetchall()
    assert found == [(1,), (2,), (3,)]
    with pytest.raises(OffsetOutOfRange):
        readings.check_range("readings", 0, 1, 4)


# -- operations ------------------------------------------------------------------------------------


def test_version_and_cleanup(client: Client, clock: Clock) -> None:
    assert client.version().count(".") == 2
    client.create_queue("mail", retention=timedelta(minutes=1))
    client.enqueue("mail", {})
    clock.advance("1 day")
    assert client.cleanup()
    assert client.claim_job("mail") == []


def test_lag_and_topic_stats(readings: Client) -> None:
    readings.create_topic("others")
    readings.create_group("others", "sums")
    readings.publish_batch("readings", list(range(5)))
    readings.consume("readings", "sums", max_messages=2)
    (lag,) = readings.group_lag("readings", "sums")
    assert (lag.position, lag.tip, lag.lag) == (2, 5, 3)
    assert lag.oldest_published_at is not None
    assert lag.leased_until is None
    readings.poll("readings", "sums")
    (lag,) = readings.group_lag("readings")
    assert lag.leased_until is not None
    (stats,) = readings.topic_stats("readings")
    assert (stats.first_offset, stats.tip, stats.messages) == (1, 5, 5)
    assert stats.published_last_minute == 5
    assert len(readings.group_lag(consumer_group="sums")) == 9
    assert len(readings.topic_stats()) == 9


# -- other connections -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"prepare_threshold": None},
        {"prepare_threshold": 0},
        {"row_factory": psycopg.rows.dict_row},
        {"cursor_factory": psycopg.ClientCursor},
        {"options": "-c datestyle=German,DMY -c intervalstyle=sql_standard -c timezone=Asia/Tokyo"},
        {"options": "-c search_path="},
    ],
    ids=["no prepare", "always prepare", "dict rows", "client cursor", "styles", "no search path"],
)
def test_settings_of_the_connection_do_not_matter(
    connect: Connect, options: dict[str, Any]
) -> None:
    client = Client(connect(autocommit=True, **options))
    client.create_topic("readings", partitions=1, retention=timedelta(days=1, seconds=5))
    client.create_group("readings", "sums")
    client.create_queue("mail")
    for n in range(7):
        client.publish("readings", {"n": n}, headers={"a": "b"})
        client.enqueue("mail", body=b"\x00\\x")
    assert client.list_topics()[0].retention == timedelta(days=1, seconds=5)
    assert [m.payload["n"] for m in client.consume("readings", "sums")] == list(range(7))
    jobs = client.claim_job("mail", max_jobs=7)
    assert {job.body for job in jobs} == {b"\x00\\x"}
    assert abs(jobs[0].leased_until - datetime.now(timezone.utc)) < timedelta(minutes=5)
    assert len(client.ack_batch([job.job_id for job in jobs], jobs[0].lease_token)) == 7


def test_calls_in_a_pipeline(connection: psycopg.Connection[Any]) -> None:
    client = Client(connection)
    with connection.pipeline():
        client.create_topic("readings", partitions=1)
        for n in range(3):
            client.publish("readings", n)
    assert len(client.fetch_range("readings", 0, 1, 3)) == 3
