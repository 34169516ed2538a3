"""Retries of serialization failures and deadlocks, with real ones."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest
from psycopg.errors import DeadlockDetected, SerializationFailure

from pgq import Client, UnknownTopic
from pgq._sync._transactions import pause
from support.session import Connect
from support.waiting import wait_until_blocked


def test_serialization_failure_is_tried_again(connect: Connect) -> None:
    Client(connect(autocommit=True)).admin.create_topic("readings", partitions=1)
    other = Client(connect(autocommit=True))
    connection = connect(isolation_level="repeatable read")
    tries = []

    def step(client: Client) -> int | None:
        client.admin.list_topics()  # takes the snapshot
        tries.append(1)
        if len(tries) == 1:
            other.publish("readings", "in between")
        return client.publish("readings", "mine").log_offset

    assert Client(connection).retry(step) == 2
    assert len(tries) == 2
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert [m.payload for m in other.bulk.fetch_range("readings", 0, 1, 2)] == [
        "in between",
        "mine",
    ]


def test_deadlock_is_tried_again(connect: Connect) -> None:
    observer = connect(autocommit=True)
    observer.execute("drop table if exists account")
    observer.execute("create table account (id integer primary key, amount integer)")
    observer.execute("insert into account values (1, 0), (2, 0)")
    slow = connect()
    slow.execute("set deadlock_timeout = '30 s'")
    slow.commit()
    slow.execute("update account set amount = amount + 1 where id = 1")
    quick = connect()
    quick.execute("set deadlock_timeout = '50 ms'")
    quick.commit()
    failures: list[str | None] = []

    def finish_slow() -> None:
        slow.execute("update account set amount = amount + 1 where id = 2")
        slow.commit()

    thread = threading.Thread(target=finish_slow)

    def step(client: Client) -> None:
        client.connection.execute("update account set amount = amount + 10 where id = 2")
        if not failures:
            thread.start()
            wait_until_blocked(observer, slow.pid)
        try:
            client.connection.execute("update account set amount = amount + 10 where id = 1")
        except DeadlockDetected as error:
            failures.append(error.sqlstate)
            raise

    Client(quick).retry(step, attempts=3)
    thread.join()
    assert failures == ["40P01"]
    assert observer.execute("select amount from account order by id").fetchall() == [(11,), (11,)]
    observer.execute("drop table account")


def test_it_gives_up_after_the_last_attempt(connect: Connect) -> None:
    tries = []

    def step(client: Client) -> None:
        tries.append(1)
        client.connection.execute(
            "do $$ begin raise exception 'no' using errcode = '40001'; end $$"
        )

    with pytest.raises(SerializationFailure):
        Client(connect()).retry(step, attempts=3, backoff=timedelta(milliseconds=1))
    assert len(tries) == 3


def test_other_errors_are_raised_at_once_and_undo_the_try(connect: Connect) -> None:
    client = Client(connect())
    tries = []

    def step(client: Client) -> None:
        tries.append(1)
        client.admin.create_topic("readings")
        client.publish("nothing", 1)

    with pytest.raises(UnknownTopic):
        client.retry(step)
    assert len(tries) == 1
    assert client.admin.list_topics() == []


def test_it_needs_a_connection_outside_a_transaction(connect: Connect) -> None:
    connection = connect()
    connection.execute("select 1")
    with pytest.raises(psycopg.ProgrammingError, match="must not be in one"):
        Client(connection).retry(lambda client: client.version())


def test_at_least_one_attempt(connect: Connect) -> None:
    with pytest.raises(ValueError, match="attempts"):
        Client(connect()).retry(lambda client: client.version(), attempts=0)


def test_pauses_double_and_are_bounded() -> None:
    for attempt, longest in ((1, 1), (2, 2), (3, 4), (7, 64), (100, 64)):
        assert all(longest / 2 <= pause(attempt, 1.0) <= longest for _ in range(50))
