"""Topics, publishing and consumer groups."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq import (
    AlreadyExists,
    Client,
    Group,
    Message,
    OffsetRange,
    PublishBatchResult,
    PublishResult,
    Topic,
)


def test_topic_settings_arrive_and_return(client: Client) -> None:
    topic = client.admin.create_topic(
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
    assert client.admin.list_topics() == [topic]


def test_none_is_the_default(client: Client) -> None:
    assert client.admin.create_topic("week", retention=None).retention == timedelta(days=7)
    assert client.admin.create_queue("mail", max_attempts=None).max_attempts == 5
    assert client.admin.create_topic("kept", no_limit=["retention"]).retention is None
    assert client.admin.create_queue("kept", no_limit=("job_ttl",)).job_ttl is None


def test_what_is_there_is_returned_if_it_agrees(client: Client) -> None:
    assert client.admin.create_topic("readings", partitions=3) == client.admin.create_topic(
        "readings"
    )
    assert client.admin.create_queue("mail", max_attempts=3) == client.admin.create_queue("mail")
    group = client.admin.create_group("readings", "sums")
    assert client.admin.create_group("readings", "sums", start="latest") == group
    with pytest.raises(AlreadyExists):
        client.admin.create_topic("readings", partitions=4)
    with pytest.raises(AlreadyExists):
        client.admin.create_queue("mail", max_attempts=4)
    with pytest.raises(AlreadyExists):
        client.admin.create_group("readings", "sums", out_of_range="skip")


def test_topic_is_altered_and_dropped(client: Client) -> None:
    client.admin.create_topic("readings", max_bytes=1_000_000)
    altered = client.admin.alter_topic(
        "readings", retention=timedelta(hours=1), no_limit=["max_bytes"]
    )
    assert (altered.retention, altered.max_bytes) == (timedelta(hours=1), None)
    client.admin.drop_topic("readings")
    assert client.admin.list_topics() == []


def test_payloads_of_any_kind_return_as_they_were(readings: Client) -> None:
    payloads = [{"t": 21.5, "ok": True, "tags": ["a", None]}, [1, 2], "text", 7, 2.5]
    payloads += [False, "", 0, {}, [], 'ä😀 \\ "\n', 2**70, 1e-30, {"a": {"b": [[], {}]}}]
    for number, payload in enumerate(payloads, start=1):
        where = readings.publish("readings", payload, key="k", headers={"h": "ä"})
        assert where == PublishResult(0, number, False)
        (message,) = readings.bulk.fetch_range("readings", 0, number, number)
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
    assert ranges == [PublishBatchResult(0, 1, 5, False)]
    assert [m.payload["n"] for m in readings.fetch("readings", "sums")] == list(range(5))
    assert readings.publish_batch("readings", []) == []


def test_batch_of_bodies(readings: Client) -> None:
    readings.publish_batch("readings", bodies=(b"one", b"", b"\x00"), partition=0)
    assert [m.body for m in readings.fetch("readings", "sums")] == [b"one", b"", b"\x00"]


def test_null_in_a_batch_refuses_all_of_it(readings: Client) -> None:
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        readings.publish_batch("readings", [{"n": 1}, None])
    assert readings.fetch("readings", "sums") == []


def test_groups_are_created_listed_dropped(client: Client) -> None:
    client.admin.create_topic("readings")
    client.admin.create_topic("others")
    group = client.admin.create_group("readings", "sums", start="latest", out_of_range="skip")
    assert isinstance(group, Group)
    assert (group.consumer_group, group.out_of_range) == ("sums", "skip")
    assert (
        client.admin.alter_group("readings", "sums", out_of_range="error").out_of_range == "error"
    )
    assert client.admin.alter_group("readings", "sums").out_of_range == "error"
    client.admin.create_group("others", "all")
    assert [g.consumer_group for g in client.admin.list_groups("others")] == ["all"]
    assert len(client.admin.list_groups()) == 2
    client.admin.drop_group("readings", "sums")
    assert client.admin.list_groups("readings") == []


def test_lag_and_topic_stats(readings: Client) -> None:
    readings.admin.create_topic("others")
    readings.admin.create_group("others", "sums")
    readings.publish_batch("readings", list(range(5)))
    readings.consume("readings", "sums", max_messages=2)
    (lag,) = readings.monitor.group_lag("readings", "sums")
    assert (lag.committed_offset, lag.last_offset, lag.lag) == (2, 5, 3)
    assert lag.oldest_published_at is not None
    assert lag.leased_until is None
    readings.poll("readings", "sums")
    (lag,) = readings.monitor.group_lag("readings")
    assert lag.leased_until is not None
    (stats,) = readings.monitor.topic_stats("readings")
    assert (stats.first_offset, stats.last_offset, stats.messages) == (1, 5, 5)
    assert stats.published_last_minute == 5
    assert len(readings.monitor.group_lag(consumer_group="sums")) == 9
    assert len(readings.monitor.topic_stats()) == 9


def test_idempotency_keys(client: Client) -> None:
    topic = client.admin.create_topic(
        "readings", partitions=1, idempotency_window=timedelta(hours=1)
    )
    assert topic.idempotency_window == timedelta(hours=1)
    assert client.publish("readings", 1, idempotency_key="1") == PublishResult(0, 1, False)
    assert client.publish("readings", 2, idempotency_key="1") == PublishResult(0, 1, True)
    assert client.publish_batch("readings", [1, 2], idempotency_keys=["1", None]) == [
        PublishBatchResult(0, 1, 1, True),
        PublishBatchResult(0, 2, 2, False),
    ]
    altered = client.admin.alter_topic("readings", idempotency_window=timedelta(days=1))
    assert altered.idempotency_window == timedelta(days=1)


def test_dead_letter_topics(client: Client) -> None:
    client.admin.create_topic("readings", partitions=1)
    client.admin.create_topic("dead", partitions=1)
    group = client.admin.create_group("readings", "sums", max_attempts=2, dead_letter_topic="dead")
    assert (group.max_attempts, group.dead_letter_topic) == (2, "dead")
    client.publish_batch("readings", [1, 2])
    polled = client.poll("readings", "sums", max_messages=1)
    token = polled[0].lease_token
    assert client.nack_offsets("readings", "sums", 0, lease_token=token, error="no") is True
    assert client.nack_offsets("readings", "sums", 0, lease_token=token, error="no") is False
    (lag,) = client.monitor.group_lag("readings")
    assert (lag.attempt, lag.last_error) == (1, "no")
    assert client.nack_offsets(
        "readings", "sums", 0, first_offset=1, last_offset=1, delay=timedelta(hours=1), error="bad"
    )
    (letter,) = client.bulk.fetch_range("dead", 0, 1, 1)
    assert letter.headers is not None
    assert (letter.payload, letter.headers["pgq_error"]) == (1, "bad")
    assert [m.payload for m in client.consume("readings", "sums")] == [2]
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        client.admin.drop_topic("dead")
    altered = client.admin.alter_group("readings", "sums", no_limit=["max_attempts"])
    assert (altered.max_attempts, altered.dead_letter_topic) == (None, None)
    altered = client.admin.alter_group("readings", "sums", max_attempts=3, dead_letter_topic="dead")
    assert (altered.max_attempts, altered.dead_letter_topic) == (3, "dead")


def test_a_deferred_topic(client: Client) -> None:
    assert client.admin.create_topic("readings", partitions=1, deferred=True).deferred is True
    client.admin.create_group("readings", "g")
    assert client.publish("readings", 1) == PublishResult(0, None, False)
    assert client.publish_batch("readings", [2, 3]) == [PublishBatchResult(0, None, None, False)]
    assert client.bulk.assign_offsets("readings") == [OffsetRange(0, 1, 3)]
    assert client.bulk.assign_offsets("readings", partition=0) == []
    client.publish("readings", 4)
    assert [m.payload for m in client.consume("readings", "g")] == [1, 2, 3]
    assert [m.payload for m in client.consume("readings", "g")] == [4]
