"""While somebody holds an old snapshot nothing can be vacuumed; calls must not get slower by it.

An update or a delete leaves a dead row and its index entries behind. As long as a transaction is
open that could see them, every reader that comes by has to look at them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader, refuse_growth
from support.session import Connect

pytestmark = pytest.mark.slow

ROUNDS = 20
JOBS_PER_ROUND = 200


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    reader = Reader(dsn)
    yield reader
    reader.close()


def _claim_and_ack(reader: Reader, jobs: int) -> None:
    done = reader.call("claim_job", queue="work", max_jobs=jobs)
    assert len(done) == jobs
    reader.call("ack_batch", job_ids=[j.job_id for j in done], lease_token=done[0].lease_token)


@pytest.mark.parametrize("at_once", [True, False], ids=["one batch", "many batches"])
@pytest.mark.parametrize("label", [None, "blue"])
def test_claims(
    reader: Reader, connection: psycopg.Connection[Any], connect: Connect, at_once: bool, label: str
) -> None:
    connection.execute("select pgq.create_queue('work')")
    total = (ROUNDS + 1) * JOBS_PER_ROUND
    for size in [total] if at_once else [JOBS_PER_ROUND] * (total // JOBS_PER_ROUND):
        reader.call(
            "enqueue_batch", queue="work", payloads=[Jsonb(1)] * size, labels=[label] * size
        )
    holder = connect(isolation_level="repeatable read")
    holder.execute("select count(*) from pgq.job")

    work = []
    for _ in range(ROUNDS):
        _claim_and_ack(reader, JOBS_PER_ROUND)
        # the floor rises a few times a second at most
        for _ in range(3):
            time.sleep(0.055)
            _claim_and_ack(reader, 1)
        asked = {} if label is None else {"label": label}
        (job,) = reader.call("claim_job", queue="work", **asked)
        work.append(reader.last.entries)
        assert not reader.last.scanned
        reader.call("nack", job_id=job.job_id, lease_token=job.lease_token, delay="1 hour")
    refuse_growth(work, 30)
    assert max(work) < 2 * JOBS_PER_ROUND, work


def test_retries(reader: Reader, connection: psycopg.Connection[Any], connect: Connect) -> None:
    """Jobs that come back again and again."""
    connection.execute("select pgq.create_queue('work', no_limit => '{max_attempts}')")
    reader.call("enqueue_batch", queue="work", payloads=[Jsonb(1)] * 20)
    holder = connect(isolation_level="repeatable read")
    holder.execute("select count(*) from pgq.job")
    work = []
    for _ in range(300):
        (job,) = reader.call("claim_job", queue="work")
        work.append(reader.last.entries)
        reader.call("nack", job_id=job.job_id, lease_token=job.lease_token, delay="0")
        time.sleep(0.002)
    refuse_growth(work, 60)


def test_positions(reader: Reader, connection: psycopg.Connection[Any], connect: Connect) -> None:
    """Thousands of claims and commits move a group on; nothing of it is in the way."""
    connection.execute("select pgq.create_topic('events', partitions => 2)")
    connection.execute("select pgq.create_group('events', 'readers')")
    for partition in (0, 1):
        reader.call(
            "publish_batch", topic="events", payloads=[Jsonb(1)] * 6000, partition=partition
        )
    holder = connect(isolation_level="repeatable read")
    holder.execute("select count(*) from pgq.group_position")
    group = {"topic": "events", "consumer_group": "readers"}
    work: dict[str, list[int]] = {"claim_offsets": [], "poll": [], "commit_offset": [], "fetch": []}

    def call(function: str, **arguments: Any) -> list[Any]:
        rows = reader.call(function, **group, **arguments)
        work[function].append(reader.last.entries)
        assert not reader.last.scanned
        return rows

    for _ in range(12):
        connection.execute(
            """
            do $$
            begin
                for n in 1 .. 250 loop
                    perform pgq.claim_offsets('events', 'readers', 1);
                    commit;
                end loop;
            end
            $$
            """
        )
        assert call("claim_offsets", max_messages=1)
        (message,) = call("poll", max_messages=1)
        call("fetch", max_messages=1)
        call(
            "commit_offset",
            partition=message.partition,
            committed_offset=message.log_offset,
            lease_token=message.lease_token,
        )
    for calls in work.values():
        refuse_growth(calls, 4)
        assert max(calls) < 60, work


def test_publishing(reader: Reader, connection: psycopg.Connection[Any], connect: Connect) -> None:
    connection.execute("select pgq.create_topic('events', partitions => 1)")
    holder = connect(isolation_level="repeatable read")
    holder.execute("select count(*) from pgq.message")
    work = []
    for _ in range(10):
        connection.execute(
            """
            do $$
            begin
                for n in 1 .. 200 loop
                    perform pgq.publish('events', '1');
                    commit;
                end loop;
            end
            $$
            """
        )
        reader.call("publish", topic="events", payload=Jsonb(1))
        work.append(reader.last.entries)
    refuse_growth(work, 4)
    assert max(work) < 40, work
