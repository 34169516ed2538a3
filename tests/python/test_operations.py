"""Housekeeping and figures."""

from __future__ import annotations

from datetime import timedelta

from pgq import (
    Client,
)
from support.clock import Clock


def test_version_and_cleanup(client: Client, clock: Clock) -> None:
    assert client.version().count(".") == 2
    client.create_queue("mail", job_ttl=timedelta(minutes=1))
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
    assert (lag.committed_offset, lag.last_offset, lag.lag) == (2, 5, 3)
    assert lag.oldest_published_at is not None
    assert lag.leased_until is None
    readings.poll("readings", "sums")
    (lag,) = readings.group_lag("readings")
    assert lag.leased_until is not None
    (stats,) = readings.topic_stats("readings")
    assert (stats.first_offset, stats.last_offset, stats.messages) == (1, 5, 5)
    assert stats.published_last_minute == 5
    assert len(readings.group_lag(consumer_group="sums")) == 9
    assert len(readings.topic_stats()) == 9
