"""What a consumer makes of the messages of a topic, and how it ends."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from pgq import AsyncClient, Client, UnknownGroup, UnknownTopic
from pgq._runtime import _schedule
from pgq.consumer import AsyncConsumer, Consumer
from pgq.embedded import Server
from support.house import install_script
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import kill_backends, unreachable, working

Kind = type[Consumer] | type[AsyncConsumer]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


def lag(client: Client) -> int:
    return sum(part.lag for part in client.monitor.group_lag("events"))


def publish(client: Client, count: int) -> None:
    client.publish_batch(
        "events", [*range(count)], keys=[f"k{number % 10}" for number in range(count)]
    )


def in_order(seen: list[int]) -> bool:
    """Whether the messages of each key came in their order."""
    by_key = defaultdict(list)
    for number in seen:
        by_key[number % 10].append(number)
    return all(numbers == sorted(numbers) for numbers in by_key.values())


@pytest.mark.parametrize("batch", [None, 7])
def test_messages_in_order(
    dsn: str, client: Client, kind: Kind, as_handler: As, batch: int | None
) -> None:
    seen: list[int] = []
    consumer = kind("all", conninfo=dsn, concurrency=3)

    def one(payload: int, message: Any) -> None:
        assert message.payload == payload
        seen.append(payload)

    def many(payloads: list[int]) -> None:
        assert len(payloads) <= 7
        seen.extend(payloads)

    consumer.handler("events", batch=batch, max_messages=20)(as_handler(many if batch else one))
    publish(client, 200)
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
        publish(client, 5)
        wait_until(lambda: lag(client) == 0)
    assert sorted(seen) == sorted([*range(200), *range(5)])
    assert in_order(seen[:200])
    assert all(part.leased_until is None for part in client.monitor.group_lag("events"))


def test_what_fails_is_tried_again_in_its_place(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []
    failed: list[int] = []

    def handle(payload: int) -> None:
        if payload == 50 and len(failed) < 2:
            failed.append(payload)
            raise RuntimeError("not now")
        seen.append(payload)

    consumer = kind("all", conninfo=dsn)
    consumer.handler("events", backoff=0.01)(as_handler(handle))
    publish(client, 100)
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
    assert sorted(seen) == [*range(100)], "what was done before the failure is not repeated"
    assert in_order(seen)
    errors = [record for record in caplog.records if getattr(record, "outcome", "") == "failed"]
    assert len(errors) == 2
    assert errors[0].topic == "events"  # type: ignore[attr-defined]


@pytest.mark.parametrize("batch", [None, 20])
def test_a_message_that_always_fails_goes_to_the_dead_letters(
    dsn: str, client: Client, kind: Kind, as_handler: As, batch: int | None
) -> None:
    """With its error, after its attempts; all others are handled, in their order."""
    client.admin.create_topic("dead", partitions=1)
    client.admin.alter_group("events", "all", max_attempts=2, dead_letter_topic="dead")
    seen: list[int] = []
    tried: list[int] = []

    def one(payload: int) -> None:
        if payload == 50:
            tried.append(payload)
            raise RuntimeError("never")
        seen.append(payload)

    def many(payloads: list[int]) -> None:
        for payload in payloads:
            one(payload)

    consumer = kind("all", conninfo=dsn)
    consumer.handler("events", batch=batch, backoff=0.01)(as_handler(many if batch else one))
    publish(client, 100)
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
    assert {*seen} == {*range(100)} - {50}
    assert len(tried) == 4, "twice with those behind it, twice alone"
    assert client.bulk.list_offsets("dead")[0].last_offset == 1
    [letter] = client.bulk.fetch_range("dead", 0, 1, 1)
    assert letter.payload == 50
    assert (letter.headers or {})["pgq_error"] == "RuntimeError: never"


def test_each_attempt_comes_later(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the database counts them, so that each may come to another consumer."""
    client.admin.create_topic("dead")
    client.admin.alter_group("events", "all", max_attempts=4, dead_letter_topic="dead")
    caplog.set_level("INFO", logger="pgq.consumer")
    numbers: list[int | None] = []

    def handle(payload: int, message: Any) -> None:
        numbers.append(message.attempt)
        raise RuntimeError("never")

    consumer = kind("all", conninfo=dsn, poll=0.05)
    consumer.handler("events", backoff=0.05)(as_handler(handle))
    client.publish("events", 1)
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
    assert numbers == [1, 2, 3, 4]
    records = [record for record in caplog.records if "is tried again in" in record.msg]
    waits = [record.args[2] for record in records]  # type: ignore[index]
    for number, wait in enumerate(waits[:3]):
        assert 0.04 * 2**number <= float(str(wait)) <= 0.05 * 2**number


def test_a_message_that_does_not_fit(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: pytest.LogCaptureFixture
) -> None:
    """It holds up its partition, up to a rest of `backoff_max`, and no other."""
    seen: list[int] = []

    def handle(payload: int) -> None:
        seen.append(payload)

    consumer = kind("all", conninfo=dsn)
    consumer.handler("events", backoff_max=50)(as_handler(handle))
    client.publish("events", "text", partition=0)
    client.publish_batch("events", [1, 2], partition=1)
    with working(consumer):
        wait_until(lambda: seen == [1, 2])
        wait_until(lambda: "a whole number is wanted" in caplog.text)
    assert lag(client) == 1
    [stuck] = [part for part in client.monitor.group_lag("events") if part.leased_until is not None]
    assert (stuck.partition, stuck.lag) == (0, 1)
    assert "a whole number is wanted" in (stuck.last_error or "")


def test_a_stop_commits_what_is_done(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    begun, go = threading.Event(), threading.Event()
    seen: list[int] = []

    def handle(payload: int) -> None:
        seen.append(payload)
        begun.set()
        assert go.wait(PATIENCE)

    consumer = kind("all", conninfo=dsn, concurrency=1)
    # a plain function in both: it blocks
    consumer.handler("events")(handle)
    client.publish_batch("events", [*range(10)], partition=2)
    with working(consumer) as started:
        assert begun.wait(PATIENCE)
        started.stop()
        go.set()
        started.join()
    assert seen == [0]
    assert lag(client) == 9
    assert len(client.poll("events", "all")) == 9


def test_a_second_stop_gives_partitions_back(dsn: str, client: Client) -> None:
    begun, go = threading.Event(), threading.Event()

    def handle(payload: int) -> None:
        begun.set()
        go.wait(PATIENCE)

    consumer = Consumer("all", conninfo=dsn)
    consumer.handler("events")(handle)
    client.publish("events", 1)
    with working(consumer) as started:
        assert begun.wait(PATIENCE)
        started.stop()
        started.stop()
        started.join()
        assert [message.payload for message in client.poll("events", "all")] == [1]
        go.set()


def test_heartbeats_and_a_lost_lease(dsn: str, client: Client, kind: Kind) -> None:
    begun: list[int] = []
    go = threading.Event()
    consumer = kind("all", conninfo=dsn, concurrency=1)

    def handle(payload: int) -> None:
        begun.append(payload)
        go.wait(PATIENCE)

    consumer.handler("events", lease=1.5)(handle)
    client.publish("events", 1, partition=0)
    with working(consumer):
        wait_until(lambda: begun)
        before = client.monitor.group_lag("events")[0].leased_until
        assert before is not None
        wait_until(lambda: (client.monitor.group_lag("events")[0].leased_until or before) > before)
        client.admin.seek("events", "all", start="earliest")  # leases are lost by that
        go.set()
        wait_until(lambda: len(begun) == 2 and lag(client) == 0)
    assert begun == [1, 1]


LISTENS = "select count(*) from pg_stat_activity where application_name = 'pgq consumer: leases'"


def test_only_a_notice_wakes_it(
    dsn: str, client: Client, kind: Kind, as_handler: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look again after an hour; so too when the connection that listens is a new one."""
    monkeypatch.setattr(_schedule, "SHORTEST", 3600.0)
    client.admin.alter_topic("events", notify=True)
    looks: list[int] = []
    for used in (Client, AsyncClient):
        _count_polls(monkeypatch, used, looks)
    seen: list[int] = []
    consumer = kind("all", conninfo=dsn, concurrency=1, poll=3600.0)
    consumer.handler("events")(as_handler(seen.append))

    def in_turn(*numbers: int) -> None:
        for number in numbers:
            before = len(looks)
            client.publish("events", number, partition=0)
            wait_until(lambda: lag(client) == 0)
            # it looks once more, and then waits; a look that was under way may have been the first
            with suppress(AssertionError):
                _wait_until(lambda: len(looks) >= before + 2, 2)  # noqa: B023

    with working(consumer):
        in_turn(1, 2, 3)
        assert kill_backends(client.connection, "pgq consumer: leases") == 1
        wait_until(lambda: client.connection.execute(LISTENS).fetchall() == [(1,)])
        in_turn(4, 5, 6)
    assert seen == [1, 2, 3, 4, 5, 6]


def _count_polls(monkeypatch: pytest.MonkeyPatch, used: type[Any], looks: list[int]) -> None:
    poll = used.poll

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        looks.append(1)
        return poll(self, *arguments, **named)

    monkeypatch.setattr(used, "poll", counted)


def test_polling_goes_on_without_notices(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    """The connection that listens is lost and does not come back; that which polls is there."""
    client.admin.alter_topic("events", notify=True)
    seen: list[int] = []
    consumer = kind("all", conninfo=dsn, concurrency=1, poll=0.2)
    consumer.handler("events", lease=300.0)(as_handler(seen.append))
    with working(consumer):
        client.publish("events", 1)
        wait_until(lambda: seen == [1] and lag(client) == 0)
        with unreachable(client.connection, dsn, "pgq consumer: leases"):
            wait_until(lambda: client.connection.execute(LISTENS).fetchall() == [(0,)])
            client.publish("events", 2)
            wait_until(lambda: seen == [1, 2] and lag(client) == 0)
            assert client.connection.execute(LISTENS).fetchall() == [(0,)]


def test_two_consumers_share_the_partitions(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    seen: dict[str, list[int]] = {"one": [], "two": []}

    def new(name: str) -> Consumer | AsyncConsumer:
        consumer = kind("all", conninfo=dsn, concurrency=2)
        consumer.handler("events", max_messages=5)(as_handler(seen[name].append))
        return consumer

    publish(client, 300)
    with working(new("one")), working(new("two")):
        wait_until(lambda: lag(client) == 0)
    assert sorted(seen["one"] + seen["two"]) == [*range(300)]


@pytest.mark.slow
def test_a_server_that_restarts(
    start_server: Callable[..., Server], kind: Kind, as_handler: As
) -> None:
    """Nothing is lost, and what was repeated comes in order."""
    server = start_server()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        client = Client(connection)
        client.admin.create_topic("events", partitions=4)
        client.admin.create_group("events", "all")
        publish(client, 1000)
    seen: list[int] = []
    consumer = kind("all", conninfo=server.dsn, concurrency=2, poll=0.2)
    consumer.handler("events", max_messages=10, lease=5.0)(as_handler(seen.append))
    with working(consumer):
        for step in (1, 2):
            wait_until(lambda: len(seen) > 100 * step)  # noqa: B023
            server.kill()
            server.restart()
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            wait_until(lambda: lag(Client(connection)) == 0)
    assert {*seen} == {*range(1000)}
    assert len(seen) < 1100


def test_what_is_refused(dsn: str, client: Client) -> None:
    consumer = Consumer("nobody", conninfo=dsn)
    with pytest.raises(ValueError, match="no handler"):
        consumer.run()
    consumer.handler("events")(lambda payload: None)
    with pytest.raises(UnknownGroup):
        consumer.run()
    consumer.handler("nowhere")(lambda payload: None)
    with pytest.raises(UnknownTopic):
        consumer.run()
    with pytest.raises(ValueError, match="must be 1 to"):
        consumer.handler("a", batch=0)
