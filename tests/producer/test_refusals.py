"""What a producer does when it ends, and when a batch as a whole is too much."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq import Client
from pgq.embedded import Server
from pgq.producer import AsyncProducer, Producer, Published
from pgq.producer._entries import Entry, runs
from support.house import install_script
from support.waiting import PATIENCE, aside, wait_until


def test_flush_behind_close(dsn: str, client: Client) -> None:
    producer = Producer("events", conninfo=dsn)
    assert producer.publish(1).result(PATIENCE)
    producer.close()
    aside(producer.flush).result(PATIENCE)


def test_what_comes_as_it_closes_is_written(dsn: str, client: Client) -> None:
    """Between the look whether something waits and the look whether it is to end."""
    producer = Producer("events", conninfo=dsn, linger=0)
    late: list[Any] = []
    begun = threading.Event()

    class Entries(list):  # type: ignore[type-arg]
        def __bool__(self) -> bool:
            some = len(self) > 0
            code = sys._getframe(1).f_code
            if not some and code.co_name == "_gather" and not begun.is_set():
                begun.set()
                other = threading.Thread(target=at_the_end)
                other.start()
                other.join(0.5)
            return some

    def at_the_end() -> None:
        late.append(producer.publish("late"))
        producer._closing = True

    producer._entries = Entries()
    future = producer.publish("first")
    assert future.result(PATIENCE)
    wait_until(lambda: late)
    producer.close()
    for each in late:
        assert each.result(PATIENCE)


def test_one_that_is_too_deep_fails_alone(dsn: str, client: Client) -> None:
    """Its error is of a class of which others mean that the connection is lost."""

    def as_it_is(text: Any) -> str:
        return str(text)

    with Producer("events", conninfo=dsn, linger=0.2) as producer:
        good = [producer.publish(number) for number in range(3)]
        deep = producer.publish(Jsonb("[" * 100000 + "]" * 100000, as_it_is))
        assert isinstance(deep.exception(PATIENCE), psycopg.errors.StatementTooComplex)
        assert all(future.result(PATIENCE) for future in good)


def test_a_batch_has_so_many_bytes() -> None:
    """The server takes no more than 1 GB in one call, and memory has an end."""
    large = [Entry(None, 0.0, body=b"x" * 2**20) for _ in range(100)]
    sizes = [sum(entry.size for entry in run) for run in runs(large)]
    assert len(sizes) > 1
    assert max(sizes) <= 2**25
    assert sum(sizes) >= 100 * 2**20
    huge = [Entry(None, 0.0, body=b"x" * 2**26), Entry(None, 0.0, body=b"y")]
    assert [len(run) for run in runs(huge)] == [1, 1]


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_the_server_is_away(kind: type[Producer] | type[AsyncProducer]) -> None:
    """All that waits fails when its time is up, however many batches there are."""
    begun = time.monotonic()
    away = "host=127.0.0.1 port=1 connect_timeout=2"
    if kind is Producer:
        producer = Producer("events", conninfo=away, timeout=1.0, max_batch=1)
        futures = [producer.publish(number) for number in range(30)]
        producer.close()
        errors = [future.exception(0) for future in futures]
    else:
        errors = _in_tasks(away)
    assert all(isinstance(error, psycopg.OperationalError) for error in errors)
    assert time.monotonic() - begun < 15.0, "1 s each, one behind the other"


def _in_tasks(away: str) -> list[Any]:
    async def run() -> list[Any]:
        producer = AsyncProducer("events", conninfo=away, timeout=1.0, max_batch=1)
        futures = [producer.publish(number) for number in range(30)]
        await producer.close()
        return [future.exception() for future in futures]

    return asyncio.run(run())


@pytest.mark.parametrize("keyed", [False, True])
def test_a_deferred_topic_has_no_offsets_to_answer(dsn: str, client: Client, keyed: bool) -> None:
    client.admin.create_topic("later", partitions=2, deferred=True)
    with Producer("later", conninfo=dsn, linger=0.1) as producer:
        futures = [
            producer.publish(number, key=str(number) if keyed else None) for number in range(9)
        ]
        results = [future.result(PATIENCE) for future in futures]
    assert all(result.log_offset is None for result in results)
    assert sum(part.last_offset for part in client.bulk.list_offsets("later")) == 0
    client.bulk.assign_offsets("later")
    assert sum(part.last_offset for part in client.bulk.list_offsets("later")) == 9


def test_a_role_that_may_not_ask_where_messages_stand(dsn: str, client: Client) -> None:
    """The answer says that they are written, and no more where the batch went to several."""
    role = f"pgq_test_writer_{os.getpid()}"
    run = client.connection.execute
    client.admin.create_topic("places", partitions=2)
    run(f"create role {role}".encode())
    try:
        run(f"grant usage on schema pgq to {role}".encode())
        run(f"grant execute on function pgq.publish_batch to {role}".encode())
        one_way = {"options": f"-c role={role}"}
        with Producer("places", conninfo=dsn, linger=0.2, connect=one_way) as producer:
            several = [producer.publish(number, key=str(number)) for number in range(9)]
            assert {future.result(PATIENCE) for future in several} == {Published()}
            alone = producer.publish(9, key="0").result(PATIENCE)
    finally:
        run(f"drop owned by {role}".encode())
        run(f"drop role {role}".encode())
    assert alone.duplicate is False
    assert alone.log_offset
    assert sum(part.last_offset for part in client.bulk.list_offsets("places")) == 10


def test_enqueues_of_many_callers_share_a_transaction(dsn: str, client: Client) -> None:
    with Producer(queue="mail", conninfo=dsn, linger=PATIENCE, max_batch=40) as producer:
        with ThreadPoolExecutor(8) as threads:
            parts = [
                threads.submit(lambda: [producer.enqueue(number) for number in range(5)])
                for _ in range(8)
            ]
            ids = {job.result(PATIENCE).job_id for part in parts for job in part.result(PATIENCE)}
    assert len(ids) == 40
    # others in this database may have left a job behind that came for a queue that was dropped
    written = client.connection.execute(
        "select j.xmin::text, count(*) from pgq.job as j where j.job_id = any(%s) group by 1",
        [list(ids)],
    ).fetchall()
    assert [count for _, count in written] == [40], written


def test_jobs_in_tasks(dsn: str, client: Client) -> None:
    """In one transaction; what is refused fails alone, and a lost connection is a new one."""

    async def run() -> tuple[list[Any], list[Any]]:
        async with AsyncProducer(queue="mail", conninfo=dsn, linger=0.2) as producer:
            futures = [
                producer.enqueue("bad \0" if number == 3 else number, label=str(number % 2))
                for number in range(10)
            ]
            first = await asyncio.gather(*futures, return_exceptions=True)
            with pytest.raises(TypeError):
                producer.enqueue(object())
            with pytest.raises(ValueError, match="has a queue"):
                producer.publish(1)
            return first, [await producer.enqueue("again", unique_key="k") for _ in range(2)]

    first, twice = asyncio.run(run())
    refused = [number for number, one in enumerate(first) if isinstance(one, Exception)]
    assert refused == [3]
    assert isinstance(first[3], psycopg.errors.UntranslatableCharacter)
    assert [one.duplicate for one in twice] == [False, True]
    jobs = {job.job_id: job.payload for job in client.claim_job("mail", max_jobs=100)}
    assert [jobs[one.job_id] for one in first if not isinstance(one, Exception)] == [
        number for number in range(10) if number != 3
    ]
    assert jobs[twice[0].job_id] == "again"
    assert len(jobs) == 10


@pytest.mark.slow
def test_jobs_over_a_restart(start_server: Callable[..., Server]) -> None:
    """From tasks, with keys: each is there once."""
    server = start_server()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        Client(connection).admin.create_queue("mail")

    async def run() -> list[int]:
        async with AsyncProducer(
            queue="mail", conninfo=server.dsn, idempotent=True, linger=0.001
        ) as producer:
            futures = []
            for step in range(2):
                futures += [
                    producer.enqueue(number) for number in range(step * 200, step * 200 + 200)
                ]
                if step == 0:
                    await futures[0]
                    await asyncio.to_thread(lambda: (server.kill(), server.restart()))
            return [(await future).job_id for future in futures]

    ids = asyncio.run(run())
    assert len({*ids}) == 400
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        jobs = Client(connection).claim_job("mail", max_jobs=1000)
    assert sorted(job.payload for job in jobs) == [*range(400)]
