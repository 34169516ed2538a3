"""The asynchronous client at work."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest
from psycopg import AsyncConnection, IsolationLevel

from pgq import AsyncClient, UnknownTopic
from support.tasks import with_client


def test_log_and_queue(dsn: str) -> None:
    async def tour(client: AsyncClient) -> None:
        await client.admin.create_topic("readings", partitions=1)
        await client.admin.create_group("readings", "sums")
        await client.publish_batch("readings", [{"n": n} for n in range(4)])
        async with client.connection.transaction():
            messages = await client.consume("readings", "sums", max_messages=3)
        assert [message.payload["n"] for message in messages] == [0, 1, 2]
        (leased,) = await client.poll("readings", "sums")
        committed = await client.commit_offset(
            "readings", "sums", leased.partition, leased.log_offset, lease_token=leased.lease_token
        )
        assert committed == 4
        assert await client.bulk.claim_offsets("readings", "sums") is None
        await client.admin.create_queue("mail")
        first, _ = await client.enqueue_batch("mail", [1, 2])
        (job,) = await client.claim_job("mail")
        assert job.job_id == first.job_id
        assert await client.ack(job.job_id, job.lease_token)
        assert [stats.ready for stats in await client.monitor.queue_stats("mail")] == [1]

    with_client(dsn, tour)


def test_errors_are_translated(dsn: str) -> None:
    async def fail(client: AsyncClient) -> None:
        with pytest.raises(UnknownTopic):
            await client.publish("nothing", 1)

    with_client(dsn, fail)


def test_retry(dsn: str) -> None:
    async def conflict(client: AsyncClient) -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as second:
            other = AsyncClient(second)
            await other.admin.create_topic("readings", partitions=1)
            await client.connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
            tries = []

            async def step(client: AsyncClient) -> int | None:
                await client.admin.list_topics()
                tries.append(1)
                if len(tries) == 1:
                    await other.publish("readings", "in between")
                return (await client.publish("readings", "mine")).log_offset

            assert await client.retry(step) == 2
            assert len(tries) == 2
            async with client.connection.transaction():
                with pytest.raises(psycopg.ProgrammingError):
                    await client.retry(step)

    with_client(dsn, conflict, autocommit=False)


def test_wait(dsn: str) -> None:
    async def listen(client: AsyncClient) -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as second:
            other = AsyncClient(second)
            await other.admin.create_queue("mail", notify=True)

            async def enqueue_later() -> None:
                await asyncio.sleep(0.3)
                await other.enqueue("mail", "hello")

            jobs, _ = await asyncio.gather(
                client.wait(
                    lambda c: c.claim_job("mail"),
                    queue="mail",
                    timeout=timedelta(seconds=30),
                    interval=timedelta(hours=1),
                ),
                enqueue_later(),
            )
            assert [job.payload for job in jobs] == ["hello"]
            nothing = await client.wait(
                lambda c: c.claim_job("mail"),
                timeout=timedelta(milliseconds=50),
                interval=timedelta(milliseconds=10),
            )
            assert nothing == []

    with_client(dsn, listen)


def test_a_cancelled_wait_leaves_the_connection_usable(dsn: str) -> None:
    async def cancel(client: AsyncClient) -> None:
        await client.admin.create_queue("mail", notify=True)
        waiting = asyncio.ensure_future(
            client.wait(lambda c: c.claim_job("mail"), queue="mail", interval=timedelta(hours=1))
        )
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        cursor = await client.connection.execute("select pg_listening_channels()")
        assert await cursor.fetchall() == []

    with_client(dsn, cancel)
