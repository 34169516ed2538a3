"""Writes of many writers at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgq import BulkWriteState, Client, WriteLost


def test_a_bulk_write_to_a_topic(client: Client) -> None:
    client.admin.create_topic("readings", partitions=2)
    target: dict[str, Any] = {"topic": "readings", "producer": "job", "seq": 1}
    begun = client.bulk.begin_write(**target, timeout=timedelta(hours=1))
    assert isinstance(begun, BulkWriteState)
    write_id = begun.write_id
    keyed = {"keys": ("k", None), "headers": [{"h": 1}, None]}
    assert client.bulk.write_chunk(
        write_id, 0, "a", 0, (1, 1), partition=0, packed_bodies=b"12", **keyed
    )
    assert client.bulk.write_chunk(write_id, 0, "a", 1, [2], b"[]", last_chunk=True)
    assert not client.bulk.write_chunk(write_id, 0, "b", 0, [], b"", last_chunk=True)
    done = client.bulk.commit_write(write_id, expected_messages=3)
    assert (done.write_id, done.messages, done.duplicate) == (write_id, 3, False)
    assert done.committed_at is not None
    assert client.bulk.begin_write(**target).duplicate
    messages = client.bulk.fetch_range("readings", 0, 1, 3)
    assert [(m.key, m.headers, m.payload, m.body) for m in messages] == [
        ("k", {"h": 1}, None, b"1"),
        (None, None, None, b"2"),
        (None, None, [], None),
    ]


def test_a_bulk_write_to_a_queue(mail: Client) -> None:
    write_id = mail.bulk.begin_write(queue="mail", atomic=False).write_id
    more = {"labels": ["l"], "priority": 3, "delay": timedelta(0)}
    assert mail.bulk.write_chunk(write_id, 0, "a", 0, [1], packed_bodies=b"1", **more)
    (job,) = mail.claim_job("mail")
    assert (job.body, job.label, job.priority) == (b"1", "l", 3)
    assert mail.bulk.abort_write(write_id)
    assert not mail.bulk.abort_write(write_id)
    with pytest.raises(WriteLost):
        mail.bulk.commit_write(write_id)
