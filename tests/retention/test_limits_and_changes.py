"""How long things are kept: limits of size, other retentions, and what is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import ack, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Session, row
from support.storage import actions, close_segment, held, publish, states


def test_a_limit_of_size(connection: Session, clock: Clock) -> None:
    """At least that many bytes are kept; beyond it the oldest go, long before their time."""
    limit = 3_000_000
    connection.create_topic(topic="t", partitions=1, retention="365 days", max_bytes=limit)
    connection.create_topic(topic="other", partitions=1, retention="365 days")
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
    [first, last] = row(
        connection, "select first_offset, last_offset from pgq.topic_stats where topic = 't'"
    )
    assert last == 6000
    assert 1 < first < last
    assert len(
        connection.fetch_range(topic="t", partition=0, first_offset=first, last_offset=last)
    ) == (last - first + 1)
    assert row(
        connection, "select last_offset, first_offset from pgq.topic_stats where topic = 'other'"
    ) == (
        1,
        1,
    )
    # lifted, nothing goes that is published from then on
    connection.alter_topic(topic="t", no_limit=["max_bytes"])
    for _ in range(40):
        connection.execute(batch)
        connection.cleanup()
    assert (
        len(connection.fetch_range(topic="t", partition=0, first_offset=6001, last_offset=10_000))
        == 4000
    )


@pytest.mark.parametrize("retention", ["30 hours", "3 hours", None])
def test_a_queue_with_another_retention(
    connection: Session, clock: Clock, retention: str | None
) -> None:
    """What is stored stays claimable, and what is archived stays as long as was promised."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours", max_attempts=1)
    enqueue_many(connection, queue, 4)
    acked, dead = claim(connection, queue, 2)
    assert ack(connection, acked)
    assert connection.nack(job_id=dead.job_id, lease_token=dead.lease_token)
    enqueue(connection, queue, "delayed", delay="1 hour")
    if retention is None:
        change: dict[str, Any] = {"no_limit": ["job_ttl", "retention"]}
    else:
        change = {"job_ttl": retention, "retention": retention}
    connection.alter_queue(queue=queue, **change)
    enqueue(connection, queue, "new")
    for _ in range(4):
        connection.cleanup()
    assert row(connection, "select payload from pgq.archived_jobs") == (0,)
    assert row(connection, "select payload from pgq.dead_letters") == (1,)
    assert [job.payload for job in claim(connection, queue, 10, lease="20 hours")] == [2, 3, "new"]
    clock.advance("1 hour")
    late = claim_one(connection, queue)
    assert late.payload == "delayed"
    assert ack(connection, late)
    clock.advance("7 hours")
    for _ in range(3):
        connection.cleanup()
    assert row(connection, "select count(*) from pgq.archived_jobs where outcome = 'acked'") == (2,)


def test_a_topic_with_another_retention(connection: Session, clock: Clock) -> None:
    """Old messages go by the old one, new ones by the new one; offsets go on."""
    connection.create_topic(topic="t", partitions=1, retention="9 hours")
    publish(connection, "t", 3)
    connection.alter_topic(topic="t", retention="90 hours")
    publish(connection, "t", 2)
    for _ in range(4):
        connection.cleanup()

    def offsets() -> list[int]:
        [first, last] = row(connection, "select first_offset, last_offset from pgq.topic_stats")
        found = connection.fetch_range(topic="t", partition=0, first_offset=first, last_offset=last)
        return [message[1] for message in found]

    assert offsets() == [1, 2, 3, 4, 5]
    clock.advance("10 hours")
    for _ in range(4):
        connection.cleanup()
    assert offsets() == [4, 5]
    clock.advance("70 hours")
    for _ in range(4):
        connection.cleanup()
    assert offsets() == [4, 5]
    publish(connection, "t", 1)
    assert offsets() == [4, 5, 6]


@pytest.mark.parametrize("retention", ["9 hours", None])
def test_what_is_dropped_frees_its_storage(
    connection: Session, clock: Clock, retention: str | None
) -> None:
    """The last of a retention at once, whatever the retention; its class is forgotten."""
    no_limit = ["retention"] if retention is None else []
    kept: dict[str, Any] = {"retention": retention, "no_limit": no_limit}
    queue = new_queue(connection, **kept, job_ttl="9 hours", max_attempts=1)
    connection.create_topic(topic="t", partitions=2, **kept)
    connection.create_group(topic="t", consumer_group="g")
    for _ in range(2):
        enqueue_many(connection, queue, 4)
        acked, dead, _ = claim(connection, queue, 3)
        assert ack(connection, acked)
        assert connection.nack(job_id=dead.job_id, lease_token=dead.lease_token)
        publish(connection, "t", 10, partition=1)
        connection.consume(topic="t", consumer_group="g", max_messages=2)
        clock.advance("3 hours")
        connection.cleanup()
        connection.cleanup()
    connection.execute("select pgq.drop_queue(%s)", [queue])
    connection.execute("select pgq.drop_topic('t')")
    for _ in range(5):
        connection.cleanup()
    assert states(connection) == []
    assert held(connection) == (0, 0)
    for table in ("storage_class", "job", "dead_job", "group_position", "segment_range"):
        assert row(connection, f"select count(*) from pgq.{table}") == (0,), table


def test_what_others_keep_stays_when_one_is_dropped(connection: Session, clock: Clock) -> None:
    goes = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    stays = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    for queue in (goes, stays):
        enqueue_many(connection, queue, 2)
        assert ack(connection, claim_one(connection, queue))
    connection.execute("select pgq.drop_queue(%s)", [goes])
    close_segment(connection, clock, "3 hours")
    assert claim_one(connection, stays).payload == 1
    clock.advance("8 hours")
    connection.cleanup()
    assert row(
        connection, "select queue, payload from pgq.archived_jobs where outcome = 'acked'"
    ) == (stays, 0)


def test_a_queue_that_keeps_for_ever(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, no_limit=["job_ttl", "retention"])
    enqueue_many(connection, queue, 2)
    assert ack(connection, claim_one(connection, queue))
    for _ in range(5):
        clock.advance("3000 days")
        assert actions(connection) == []
    assert claim_one(connection, queue).payload == 1
    assert row(connection, "select payload from pgq.archived_jobs") == (0,)
