"""Many callers, few transactions: what they are answered, and what becomes of what is refused."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from typing import Any

import psycopg
import pytest

import pgq
from pgq import AsyncClient, Client, UnknownTopic
from pgq.embedded import Server
from pgq.producer import AsyncProducer, Full, OutcomeUnknown, Producer, Published
from support.house import install_script
from support.session import Session
from support.waiting import PATIENCE, wait_until
from support.working import kill_backends


def stored(client: Client) -> dict[tuple[int, int], Any]:
    """All messages by their places."""
    found = {}
    for offsets in client.bulk.list_offsets("events"):
        if offsets.last_offset >= offsets.first_offset:
            for message in client.bulk.fetch_range(
                "events", offsets.partition, offsets.first_offset, offsets.last_offset
            ):
                content = message.payload if message.body is None else message.body
                found[message.partition, message.log_offset] = (message.key, content)
    return found


def transactions(client: Client) -> int:
    """How many transactions have written the messages that are there."""
    [(count,)] = client.connection.execute(
        "select count(distinct m.xmin::text) from pgq.message as m"
        " inner join pgq.partition as p on p.partition_id = m.partition_id"
        " where p.topic = 'events'"
    ).fetchall()
    return int(count)


@pytest.mark.parametrize("keyed", [False, True])
def test_many_threads_share_few_transactions(dsn: str, client: Client, keyed: bool) -> None:
    def publish(caller: int) -> list[tuple[Published, Any]]:
        key = f"caller {caller}" if keyed else None
        futures = [
            (producer.publish([caller, number], key=key), [caller, number]) for number in range(50)
        ]
        return [(future.result(PATIENCE), payload) for future, payload in futures]

    with Producer("events", conninfo=dsn, linger=0.5) as producer:
        with ThreadPoolExecutor(8) as threads:
            answers = [answer for part in threads.map(publish, range(8)) for answer in part]
    there = stored(client)
    assert len(there) == 400
    for result, payload in answers:
        assert there[result.partition, result.log_offset or 0][1] == payload
        assert not result.duplicate
    if keyed:
        by_key = defaultdict(list)
        for _, (key, (_, number)) in sorted(there.items()):
            by_key[key].append(number)
        assert [*by_key.values()] == [[*range(50)]] * 8
    assert transactions(client) <= 60


def test_many_tasks_share_few_transactions(dsn: str, client: Client) -> None:
    async def caller(producer: AsyncProducer, number: int) -> list[Published]:
        return [await producer.publish([number, step]) for step in range(5)]

    async def run() -> list[list[Published]]:
        async with AsyncProducer("events", conninfo=dsn, linger=0.5) as producer:
            return await asyncio.gather(*(caller(producer, number) for number in range(50)))

    answers = asyncio.run(run())
    there = stored(client)
    for number, results in enumerate(answers):
        for step, result in enumerate(results):
            assert there[result.partition, result.log_offset or 0][1] == [number, step]
    assert transactions(client) <= 30


def test_jobs(dsn: str, client: Client) -> None:
    with Producer(queue="mail", conninfo=dsn) as producer:
        futures = [producer.enqueue(number, label=str(number % 2)) for number in range(20)]
        urgent = producer.enqueue(body=b"now", priority=0, max_attempts=1)
        twice = [producer.enqueue("same", unique_key="same") for _ in range(2)]
        ids = [future.result(PATIENCE).job_id for future in futures]
        assert sorted(ids) == ids
        first, second = (future.result(PATIENCE) for future in twice)
    assert (first.job_id, first.duplicate) == (second.job_id, False)
    assert second.duplicate
    jobs = {job.job_id: job for job in client.claim_job("mail", max_jobs=100)}
    assert [jobs[job_id].payload for job_id in ids] == [*range(20)]
    assert [jobs[job_id].label for job_id in ids] == ["0", "1"] * 10
    assert jobs[urgent.result(0).job_id].body == b"now"


def test_values_that_json_does_not_have(dsn: str, client: Client) -> None:
    def encoder(value: Any) -> Any:
        return "a complex number" if isinstance(value, complex) else pgq.encode(value)

    with Producer(queue="mail", conninfo=dsn, encoder=encoder) as producer:
        producer.enqueue({"on": date(2030, 1, 1), "number": 1j}, delay=0)
        with pytest.raises(TypeError, match=r"^payload\.at: naive datetime; give it a time zone$"):
            producer.enqueue({"at": datetime(2030, 1, 1)})
        with pytest.raises(TypeError, match=r"^headers\.at: nan is not in JSON$"):
            producer.enqueue(1, headers={"at": float("nan")})
        with pytest.raises(TypeError, match=r"^run_at: naive datetime; give it a time zone$"):
            producer.enqueue(1, run_at=datetime(2030, 1, 1))
    [job] = client.claim_job("mail", max_jobs=2)
    assert job.payload == {"on": "2030-01-01", "number": "a complex number"}


@pytest.mark.parametrize("kind", [Producer, AsyncProducer], ids=["threads", "tasks"])
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"encoder": 3}, "encoder is 3, must be a function"),
        ({"linger": "1"}, "linger is '1': give a timedelta or seconds"),
        ({"timeout": True}, "timeout is True: give a timedelta or seconds"),
    ],
)
def test_settings_that_are_refused(kind: type[Any], settings: dict[str, Any], error: str) -> None:
    with pytest.raises(TypeError, match=error):
        kind("events", **settings)


def test_what_is_refused_fails_alone(dsn: str, client: Client) -> None:
    with Producer("events", conninfo=dsn, linger=0.2) as producer:
        with pytest.raises(TypeError):
            producer.publish(object())
        futures = [producer.publish("bad \0" if number == 7 else number) for number in range(20)]
        errors = [future.exception(PATIENCE) for future in futures]
    assert [type(error) for error in errors if error] == [psycopg.errors.UntranslatableCharacter]
    assert errors[7] is not None
    assert sorted(content for _, content in stored(client).values()) == [
        number for number in range(20) if number != 7
    ]
    with Producer("nowhere", conninfo=dsn, linger=0.05) as producer:
        futures = [producer.publish(number) for number in range(3)]
        assert all(isinstance(future.exception(PATIENCE), UnknownTopic) for future in futures)


def test_idempotency_keys(dsn: str, client: Client) -> None:
    client.publish("events", "first", idempotency_key="a")
    with Producer("events", conninfo=dsn, linger=0.1) as producer:
        futures = [
            producer.publish(name, key=name, idempotency_key=name) for name in ("a", "b", "b", "c")
        ]
        results = [future.result(PATIENCE) for future in futures]
    assert [result.duplicate for result in results] == [True, False, True, False]
    there = stored(client)
    assert len(there) == 3
    found = [there[result.partition, result.log_offset][1] for result in results]
    assert found == ["first", "b", "b", "c"]


def test_flush_and_close(dsn: str, client: Client) -> None:
    producer = Producer("events", conninfo=dsn, linger=60.0, max_batch=10, max_pending=12)
    producer.flush()
    future = producer.publish(1)
    producer.flush()
    assert future.done()
    last = producer.publish(2)
    producer.close()
    assert last.result(0).partition >= 0
    with pytest.raises(ValueError, match="closed"):
        producer.publish(3)
    with pytest.raises(ValueError, match="exactly one"):
        Producer("events", queue="mail")
    with pytest.raises(ValueError, match="exactly one"):
        Producer("events").publish()
    with pytest.raises(ValueError, match="has a topic"):
        Producer("events").enqueue(1)


def test_no_more_than_may_wait(dsn: str, client: Client, connect: Callable[..., Session]) -> None:
    blocker = connect()
    blocker.execute("lock table pgq.partition in access exclusive mode")
    with Producer("events", conninfo=dsn, linger=0, max_batch=1, max_pending=2) as producer:
        first = producer.publish(0)
        wait_until(
            lambda: client.connection.execute(
                "select 1 from pg_stat_activity where application_name = 'pgq producer'"
                " and wait_event_type = 'Lock'"
            ).fetchall()
        )
        rest = [producer.publish(1), producer.publish(2)]
        with pytest.raises(Full):
            producer.publish(3)
        blocker.rollback()
        assert all(future.result(PATIENCE) for future in (first, *rest))


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_connection_that_is_lost(
    dsn: str, client: Client, connect: Callable[..., Session], idempotent: bool
) -> None:
    """Nobody knows whether the batch has committed; with keys it is asked."""
    blocker = connect()
    with Producer("events", conninfo=dsn, idempotent=idempotent) as producer:
        assert producer.publish("before").result(PATIENCE)
        blocker.execute("lock table pgq.partition in access exclusive mode")
        future = producer.publish("lost")
        wait_until(
            lambda: client.connection.execute(
                "select 1 from pg_stat_activity where application_name = 'pgq producer'"
                " and wait_event_type = 'Lock'"
            ).fetchall()
        )
        kill_backends(client.connection, "pgq producer")
        wait_until(lambda: future.done() or idempotent)
        blocker.rollback()
        if idempotent:
            assert future.result(PATIENCE).duplicate is False
        else:
            assert isinstance(future.exception(PATIENCE), OutcomeUnknown)
        assert producer.publish("behind").result(PATIENCE)
    contents = sorted(content for _, content in stored(client).values())
    assert contents == (["before", "behind", "lost"] if idempotent else ["before", "behind"])


@pytest.mark.parametrize("kind", [Producer, AsyncProducer], ids=["threads", "tasks"])
def test_a_connection_that_is_lost_behind_the_commit(
    dsn: str, client: Client, kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are told where their messages stand, and what comes next is written as well."""
    ends = [1]
    for used in (Client, AsyncClient):
        _lost_before(monkeypatch, used, client, ends)
    results, after = _published_in(kind, dsn)
    there = stored(client)
    assert not ends
    assert [there[one.partition, one.log_offset][1] for one in results] == [*range(20)]
    assert there[after.partition, after.log_offset][1] == "after"
    assert len(there) == 21


def _lost_before(
    monkeypatch: pytest.MonkeyPatch, used: type[Any], client: Client, ends: list[int]
) -> None:
    """The connection is lost when it is asked where messages stand, so often."""
    ask = used._rows

    def lost(self: Any, kind: Any, function: str, **arguments: Any) -> Any:
        if function == "fetch_range" and self is not client and ends:
            ends.pop()
            kill_backends(client.connection, "pgq producer")
        return ask(self, kind, function, **arguments)

    monkeypatch.setattr(used, "_rows", lost)


def _published_in(kind: type[Any], dsn: str) -> tuple[list[Any], Any]:
    """What 20 messages of one batch in several partitions are answered, and one behind them."""
    if kind is Producer:
        with Producer("events", conninfo=dsn, linger=0.2) as producer:
            futures = [producer.publish(number, key=str(number)) for number in range(20)]
            results = [future.result(PATIENCE) for future in futures]
            return results, producer.publish("after").result(PATIENCE)

    async def run() -> tuple[list[Any], Any]:
        async with AsyncProducer("events", conninfo=dsn, linger=0.2) as producer:
            futures = [producer.publish(number, key=str(number)) for number in range(20)]
            results = [await future for future in futures]
            return results, await producer.publish("after")

    return asyncio.run(run())


@pytest.mark.slow
def test_a_server_that_restarts(start_server: Callable[..., Server]) -> None:
    """Each message is there once, in the order of its caller."""
    server = start_server()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        Client(connection).admin.create_topic("events", partitions=4)
    with Producer("events", conninfo=server.dsn, idempotent=True, linger=0.001) as producer:
        futures = []
        for step in range(3):
            for number in range(step * 300, step * 300 + 300):
                futures.append(producer.publish(number, key=f"k{number % 5}"))
            if step < 2:
                wait_until(futures[-290].done, PATIENCE)
                server.kill()
                server.restart()
        for future in futures:
            future.result(2 * PATIENCE)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        there = sorted(stored(Client(connection)).items())
    by_key = defaultdict(list)
    for _, (key, number) in there:
        by_key[key].append(number)
    assert {**by_key} == {f"k{rest}": [*range(rest, 900, 5)] for rest in range(5)}
