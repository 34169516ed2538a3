"""What `assert_enqueued` finds, and what it says when it does not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from pgq import Client, UnknownQueue
from pgq.testing import assert_enqueued


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail")
    return client


@dataclass
class Mail:
    to: str


def test_each_argument_counts(client: Client) -> None:
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    first = client.enqueue("mail", {"to": "ada", "more": {"a": 1, "b": [2]}}, label="x", key="k")
    second = client.enqueue("mail", {"to": "bob"}, delay=60, priority=3, unique_key="u")
    third = client.enqueue("mail", {"to": "bob"}, run_at=tomorrow)

    def found(**wanted: Any) -> list[int]:
        return [job.job_id for job in assert_enqueued(client, "mail", **wanted)]

    assert sorted(found()) == sorted(found(count=3))
    assert found(payload={"to": "ada"}) == [first.job_id]
    assert found(payload=Mail("ada")) == [first.job_id]
    assert found(payload={"more": {"b": [2]}}) == [first.job_id]
    assert found(label="x") == found(key="k") == [first.job_id]
    assert found(priority=3) == found(unique_key="u") == found(delay=60) == [second.job_id]
    assert found(delay=timedelta(minutes=1), count=1) == [second.job_id]
    assert found(run_at=tomorrow) == [third.job_id]
    assert len(found(payload={"to": "bob"}, count=2)) == 2
    assert found(payload={"to": "eve"}, count=0) == []
    for wanted in (
        {"payload": {"more": {"b": [2, 3]}}},
        {"payload": {"more": {"c": None}}},
        {"payload": ["ada"]},
        {"label": "y"},
        {"key": "x"},
        {"priority": 1},
        {"unique_key": "v"},
        {"delay": 58},
        {"run_at": tomorrow + timedelta(seconds=2)},
        {"payload": {"to": "ada"}, "delay": 60},
        {"count": 2},
        {"count": 0},
    ):
        with pytest.raises(AssertionError):
            found(**wanted)


def test_the_error_lists_what_is_there(client: Client) -> None:
    first = client.enqueue("mail", {"to": "ada"}, label="x").job_id
    second = client.enqueue("mail", body=b"\x00", delay=60).job_id
    with pytest.raises(AssertionError) as raised:
        assert_enqueued(client, "mail", {"to": "bob"}, label="x")
    assert str(raised.value).splitlines() == [
        "queue \"mail\" has 0 jobs with payload={'to': 'bob'}, label='x', not at least 1;"
        " it has 2 in all",
        f"  job {first}, ready: payload={{'to': 'ada'}} label='x'",
        f"  job {second}, delayed: body=b'\\x00' delay=datetime.timedelta(seconds=60)",
    ]
    client.enqueue_batch("mail", [*range(25)])
    with pytest.raises(AssertionError, match="has 27 jobs, not 1; it has 27 in all") as raised:
        assert_enqueued(client, "mail", count=1)
    assert str(raised.value).splitlines()[-1] == "  and 7 more"
    assert len(str(raised.value).splitlines()) == 22


def test_in_an_open_transaction(client: Client) -> None:
    with client.connection.transaction(force_rollback=True):
        client.enqueue("mail", 1)
        assert_enqueued(client.connection, "mail", 1, count=1)
    assert_enqueued(client.connection, "mail", count=0)


def test_bad_input(client: Client) -> None:
    with pytest.raises(UnknownQueue, match='"nowhere"'):
        assert_enqueued(client, "nowhere")
    with pytest.raises(TypeError, match="delay is 'soon': give a timedelta or seconds"):
        assert_enqueued(client, "mail", delay="soon")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="payload: set is not in JSON"):
        assert_enqueued(client, "mail", {1})
