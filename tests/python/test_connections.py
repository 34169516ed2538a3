"""The client on connections of other kinds."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from pgq import (
    Client,
)
from support.session import Connect


@pytest.mark.parametrize(
    "options",
    [
        {"prepare_threshold": None},
        {"prepare_threshold": 0},
        {"row_factory": psycopg.rows.dict_row},
        {"cursor_factory": psycopg.ClientCursor},
        {"options": "-c datestyle=German,DMY -c intervalstyle=sql_standard -c timezone=Asia/Tokyo"},
        {"options": "-c search_path="},
    ],
    ids=["no prepare", "always prepare", "dict rows", "client cursor", "styles", "no search path"],
)
def test_settings_of_the_connection_do_not_matter(
    connect: Connect, options: dict[str, Any]
) -> None:
    client = Client(connect(autocommit=True, **options))
    client.admin.create_topic("readings", partitions=1, retention=timedelta(days=1, seconds=5))
    client.admin.create_group("readings", "sums")
    client.admin.create_queue("mail")
    for n in range(7):
        client.publish("readings", {"n": n}, headers={"a": "b"})
        client.enqueue("mail", body=b"\x00\\x")
    assert client.admin.list_topics()[0].retention == timedelta(days=1, seconds=5)
    assert [m.payload["n"] for m in client.consume("readings", "sums")] == list(range(7))
    jobs = client.claim_job("mail", max_jobs=7)
    assert {job.body for job in jobs} == {b"\x00\\x"}
    assert abs(jobs[0].leased_until - datetime.now(timezone.utc)) < timedelta(minutes=5)
    assert len(client.ack_batch([job.job_id for job in jobs], jobs[0].lease_token)) == 7


def test_json_is_read_by_the_connections_own_function(connect: Connect) -> None:
    connection = connect(autocommit=True)
    psycopg.types.json.set_json_loads(lambda data: json.loads(data, parse_float=str), connection)
    client = Client(connection)
    client.admin.create_topic("readings", partitions=1)
    client.publish("readings", {"t": 0.1})
    assert client.bulk.fetch_range("readings", 0, 1, 1)[0].payload == {"t": "0.1"}


def test_json_is_read_by_the_function_of_all_connections(readings: Client) -> None:
    readings.publish("readings", {"t": 0.1})
    psycopg.types.json.set_json_loads(lambda data: json.loads(data, parse_float=str))
    try:
        (message,) = readings.fetch("readings", "sums")
    finally:
        psycopg.types.json.set_json_loads(json.loads)
    assert message.payload == {"t": "0.1"}


def test_calls_in_a_pipeline(connection: psycopg.Connection[Any]) -> None:
    client = Client(connection)
    with connection.pipeline():
        client.admin.create_topic("readings", partitions=1)
        for n in range(3):
            client.publish("readings", n)
    assert len(client.bulk.fetch_range("readings", 0, 1, 3)) == 3
