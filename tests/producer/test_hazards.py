"""What one caller or the server does to a producer, and what is written all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.producer import AsyncProducer, Producer
from support.away import read_only, read_only_at_once
from support.waiting import PATIENCE, wait_until


@pytest.mark.parametrize(
    # where its connection is lost too, a batch without keys may be in doubt
    ("idempotent", "all_sessions"),
    [(True, False), (True, True), (False, True)],
)
def test_read_only_for_a_while(
    dsn: str,
    client: Client,
    request: pytest.FixtureRequest,
    idempotent: bool,
    all_sessions: bool,
) -> None:
    """The batch is kept, and written once; nothing of it is in doubt."""
    if all_sessions:
        request.getfixturevalue("server")
        refusing = read_only_at_once(client.connection)
    else:
        refusing = read_only(client.connection, "pgq producer%")
    with Producer("events", conninfo=dsn, idempotent=idempotent, linger=0.001) as producer:
        before = producer.publish("before", key="a")
        before.result(PATIENCE)
        with refusing:
            futures = [producer.publish(number, key="a") for number in range(3)]
            wait_until(lambda: producer._sender._client is None, PATIENCE)
            assert not any(future.done() for future in futures)
        assert [future.result(PATIENCE).duplicate for future in futures] == [False] * 3
    found = [
        message.payload
        for partition in client.bulk.list_offsets("events")
        if partition.last_offset
        for message in client.bulk.fetch_range(
            "events", partition.partition, 1, partition.last_offset
        )
    ]
    assert found == ["before", 0, 1, 2]


def test_in_tasks(dsn: str, client: Client) -> None:
    async def run() -> None:
        async with AsyncProducer("events", conninfo=dsn) as producer:
            await producer.publish("before")
            with read_only_at_once(client.connection):
                future = producer.publish("after")
                while producer._sender._client is not None:
                    await asyncio.sleep(0.005)
                assert not future.done()
            await future

    asyncio.run(run())


def test_a_callback_that_raises(dsn: str, client: Client) -> None:
    def fail(future: Any) -> None:
        raise GeneratorExit

    with Producer("events", conninfo=dsn) as producer:
        producer.publish(1).add_done_callback(fail)
        producer.flush()
        assert producer.publish(2).result(PATIENCE)


class Odd(int):
    """A priority that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("equal to nothing")

    __hash__ = int.__hash__


def test_values_of_other_types(dsn: str, client: Client) -> None:
    """They are their caller's error, or the database's; the producer goes on."""
    client.admin.create_queue("mail")
    with Producer(queue="mail", conninfo=dsn, linger=0.05) as producer:
        futures = [
            producer.enqueue(1, key=5),  # type: ignore[arg-type]
            producer.enqueue(2, key=["a"]),  # type: ignore[arg-type]
            producer.enqueue(3, key="a"),
        ]
        assert futures[2].result(PATIENCE).job_id
        assert isinstance(futures[1].exception(PATIENCE), psycopg.Error)
        odd = [producer.enqueue(number, priority=Odd(number)) for number in (4, 5)]
        assert any(isinstance(one.exception(PATIENCE), ValueError) for one in odd)
        assert producer.enqueue(6).result(PATIENCE).job_id
