"""Long polls, on the client's side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import Client
from support.session import Connect

HOUR = timedelta(hours=1)


def _later(action: Callable[[], object], seconds: float = 0.3) -> threading.Thread:
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_notice_ends_the_wait(connect: Connect, autocommit: bool) -> None:
    other = Client(connect(autocommit=True))
    other.admin.create_queue("mail", notify=True)
    client = Client(connect(autocommit=autocommit))
    began = time.monotonic()
    timer = _later(lambda: other.enqueue("mail", "hello"))
    jobs = client.wait(
        lambda c: c.claim_job("mail"), queue="mail", timeout=timedelta(seconds=30), interval=HOUR
    )
    timer.join()
    assert [job.payload for job in jobs] == ["hello"]
    assert time.monotonic() - began < 10
    assert client.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert client.ack(jobs[0].job_id, jobs[0].lease_token)


def test_a_notice_of_a_topic(connect: Connect) -> None:
    other = Client(connect(autocommit=True))
    other.admin.create_topic("readings", notify=True)
    other.admin.create_group("readings", "sums")
    client = Client(connect(autocommit=True))
    timer = _later(lambda: other.publish_batch("readings", [1, 2], partition=3))
    messages = client.wait(
        lambda c: c.consume("readings", "sums"),
        topic="readings",
        timeout=timedelta(seconds=30),
        interval=HOUR,
    )
    timer.join()
    assert [message.payload for message in messages] == [1, 2]


def test_notices_of_others_do_not_end_the_wait(connect: Connect) -> None:
    other = Client(connect(autocommit=True))
    other.admin.create_queue("mail", notify=True)
    other.admin.create_queue("parcels", notify=True)
    client = Client(connect(autocommit=True))
    calls = []

    def claim(client: Client) -> list[Any]:
        calls.append(1)
        return list(client.claim_job("mail"))

    timer = _later(lambda: other.enqueue("parcels", 1), 0.1)
    assert client.wait(claim, queue="mail", timeout=timedelta(seconds=0.5), interval=HOUR) == []
    timer.join()
    assert len(calls) <= 2  # at the beginning and when the time is up; a slow one is both


def test_without_notices_it_polls(connect: Connect) -> None:
    other = Client(connect(autocommit=True))
    other.admin.create_queue("mail", notify=False)
    client = Client(connect(autocommit=True))
    timer = _later(lambda: other.enqueue("mail", 1))
    for name in ("mail", None):
        jobs = client.wait(
            lambda c: c.claim_job("mail"),
            queue=name,
            timeout=timedelta(seconds=30),
            interval=timedelta(milliseconds=50),
        )
        assert len(jobs) == 1
        timer.join()
        other.enqueue("mail", 2)


def test_what_is_there_already_returns_at_once(connect: Connect) -> None:
    client = Client(connect(autocommit=True))
    client.admin.create_queue("mail", notify=True)
    client.enqueue("mail", 1)
    began = time.monotonic()
    assert client.wait(lambda c: c.claim_job("mail"), queue="mail", interval=HOUR)
    assert time.monotonic() - began < 5


def test_no_listening_is_left_behind(connect: Connect) -> None:
    client = Client(connect(autocommit=True))
    client.admin.create_queue("mail", notify=True)
    client.wait(lambda c: c.claim_job("mail"), queue="mail", timeout=timedelta(0))

    def fail(client: Client) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        client.wait(fail, queue="mail")
    assert client.connection.execute("select pg_listening_channels()").fetchall() == []


def test_a_failing_try_is_undone(connect: Connect) -> None:
    client = Client(connect(autocommit=True))
    client.admin.create_topic("readings", partitions=1)
    client.admin.create_group("readings", "sums")
    client.publish("readings", 1)

    def consume_and_fail(client: Client) -> list[Any]:
        client.consume("readings", "sums")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        client.wait(consume_and_fail)
    assert len(client.consume("readings", "sums")) == 1


def test_it_needs_a_connection_outside_a_transaction(connect: Connect) -> None:
    connection = connect()
    connection.execute("select 1")
    with pytest.raises(psycopg.ProgrammingError, match="must not be in one"):
        Client(connection).wait(lambda client: client.version())


def test_the_interval_must_be_positive(connect: Connect) -> None:
    with pytest.raises(ValueError, match="interval"):
        Client(connect()).wait(lambda client: client.version(), interval=timedelta(0))
