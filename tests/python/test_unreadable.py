"""JSON that Python cannot decode: every read returns its rows, and says where the bad one is."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.json import Jsonb, set_json_loads

import pgq
from pgq import AsyncClient, Client, Unreadable, UnreadablePayload
from support.session import Connect
from support.tasks import with_client

LONG = "1" * 5001
DEEP = "[" * 3000 + "]" * 3000
BAD = {"long": LONG, "deep": DEEP}


def raw(text: str) -> Jsonb:
    return Jsonb(text, dumps=str)


@pytest.fixture
def bad(readings: Client, mail: Client) -> Client:
    """A client with three messages and three jobs, the second of which cannot be read."""
    readings.publish_batch("readings", [1, raw(LONG), 3])
    mail.enqueue_batch("mail", [1, raw(LONG), 3])
    return readings


def shape(rows: list[Any]) -> list[Any]:
    return ["bad" if isinstance(row.payload, Unreadable) else row.payload for row in rows]


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_consume_in_autocommit(readings: Client, text: str) -> None:
    """What the server has committed reaches the caller, and the group goes on."""
    with_bad = [1, raw(text), 3]
    readings.publish_batch("readings", with_bad)
    first, second, third = readings.consume("readings", "sums")
    assert (first.payload, third.payload) == (1, 3)
    assert readings.consume("readings", "sums") == []
    found = second.payload
    if text == DEEP and not isinstance(found, Unreadable):
        return  # some versions of Python can read it
    assert found.raw == text
    assert found.error.startswith(("ValueError: ", "RecursionError: "))
    assert (found.column, found.topic, found.partition) == ("payload", "readings", 0)
    assert (found.log_offset, found.queue, found.job_id) == (2, None, None)


def test_consume_in_a_transaction(bad: Client) -> None:
    with bad.connection.transaction():
        assert shape(bad.consume("readings", "sums")) == [1, "bad", 3]
    assert bad.monitor.group_lag("readings")[0].lag == 0


def test_every_read_of_a_topic(bad: Client) -> None:
    group = ("readings", "sums")
    assert shape(bad.fetch(*group)) == [1, "bad", 3]
    assert shape(bad.bulk.fetch_range("readings", 0, 1, 3)) == [1, "bad", 3]
    leased = bad.poll(*group)
    assert shape(leased) == [1, "bad", 3]
    assert leased[1].payload.log_offset == 2


def test_every_read_of_a_queue(bad: Client) -> None:
    ids = [job.job_id for job in bad.jobs.peek_jobs("mail")]
    assert shape(bad.jobs.peek_jobs("mail")) == [1, "bad", 3]
    info = bad.get_job(ids[1])
    assert info is not None
    assert (info.payload.queue, info.payload.job_id) == ("mail", ids[1])
    jobs = bad.claim_job("mail", max_jobs=10)
    assert shape(jobs) == [1, "bad", 3]
    token = jobs[0].lease_token
    assert bad.nack_batch(ids, token, delay=timedelta(0)) == ids
    jobs = bad.finish_and_claim("mail", max_jobs=10)
    assert shape(jobs) == [1, "bad", 3]
    token = jobs[0].lease_token
    assert bad.archive_job(ids[1], token, result=raw(LONG))
    [archived] = bad.jobs.archived_jobs("mail")
    assert (archived.payload.job_id, archived.result.column) == (ids[1], "result")
    again = bad.enqueue("mail", raw(LONG))
    [job] = bad.claim_job("mail", max_jobs=1)
    assert bad.reject_job(job.job_id, job.lease_token, error="no")
    assert [one.payload.job_id for one in bad.jobs.dead_letters("mail")] == [again.job_id]
    assert [one.payload.raw for one in bad.jobs.fetch_dead_letters("mail")] == [LONG]


def test_every_other_column(bad: Client) -> None:
    bad.publish("readings", 4, headers=raw(f'{{"n": {LONG}}}'))  # type: ignore[arg-type]
    headers = bad.consume("readings", "sums")[3].headers
    assert isinstance(headers, Unreadable)
    with pytest.raises(UnreadablePayload, match=r"headers, topic readings, partition 0, offset 4"):
        headers["n"]
    bad.schedules.create_schedule(
        "nightly", every=timedelta(days=1), queue="mail", payload=raw(LONG)
    )
    assert bad.schedules.list_schedules()[0].payload.queue == "mail"
    bad.heartbeat("w1", details=raw(LONG))
    assert bad.monitor.list_workers()[0].details.column == "details"
    bad.admin.subscribe("s", "readings", "mail", filter=raw(f'{{"n": [{LONG}]}}'))  # type: ignore[arg-type]
    assert isinstance(bad.admin.list_subscriptions()[0].filter, Unreadable)
    [job] = bad.claim_job("mail", max_jobs=1)
    assert bad.begin_effect(job.job_id, job.lease_token, "pay").state == "begun"
    assert bad.finish_effect(job.job_id, job.lease_token, "pay", result=raw(LONG))
    assert bad.begin_effect(job.job_id, job.lease_token, "pay").result.raw == LONG
    assert bad.jobs.effects("mail")[0].result.job_id == job.job_id


def test_the_asynchronous_client(dsn: str, bad: Client) -> None:
    async def read(client: AsyncClient) -> None:
        assert shape(await client.consume("readings", "sums")) == [1, "bad", 3]
        assert shape(await client.claim_job("mail", max_jobs=3)) == [1, "bad", 3]

    with_client(dsn, read)


USES: dict[str, Callable[[Any], Any]] = {
    "item": lambda it: it["a"],
    "attribute": lambda it: it.get,
    "hasattr": lambda it: hasattr(it, "get"),
    "iteration": list,
    "length": len,
    "truth": bool,
    "membership": lambda it: "a" in it,
    "equality": lambda it: it == 1,
    "inequality": lambda it: it != 1,
    "order": lambda it: it < 1,
    "number": int,
    "merge": lambda it: {**it},
    "json": json.dumps,
    "json inside": lambda it: json.dumps({"a": [it]}, indent=1),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_use_goes_unnoticed(bad: Client, use: Callable[[Any], Any]) -> None:
    found = bad.consume("readings", "sums")[1].payload
    with pytest.raises(UnreadablePayload, match=r"topic readings, partition 0, offset 2") as raised:
        use(found)
    error = raised.value
    assert (error.topic, error.partition, error.log_offset) == ("readings", 0, 2)
    assert error.unreadable is found


def test_what_is_published_again(bad: Client) -> None:
    """Not by accident: as it is, by its text."""
    [_, job, _] = bad.claim_job("mail", max_jobs=3)
    for content in (job.payload, {"was": job.payload}):
        with pytest.raises(UnreadablePayload, match=f"queue mail, job_id {job.job_id}") as raised:
            bad.publish("readings", content)
        assert raised.value.job_id == job.job_id
    bad.publish("readings", Jsonb(job.payload.raw, dumps=str))
    stored = "select payload::text from pgq.messages order by log_offset desc limit 1"
    assert bad.connection.execute(stored).fetchone() == (LONG,)


def test_what_does_not_use_it(bad: Client) -> None:
    rows = bad.consume("readings", "sums")
    found = rows[1].payload
    assert isinstance(found, Unreadable)
    assert not isinstance(found, dict)
    assert LONG not in repr(found)
    assert "log_offset=2" in repr(rows)
    for other in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other == found
        assert hash(other) == hash(found)
    assert copy.deepcopy(rows) == pickle.loads(pickle.dumps(rows)) == rows
    error = UnreadablePayload(found)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("error", [LookupError("not mine"), Speechless(), psycopg.DataError("x")])
def test_a_decoder_of_the_callers_own(bad: Client, error: Exception) -> None:
    """Whatever it raises."""

    def loads(text: str | bytes) -> Any:
        if LONG in str(text):
            raise error
        return json.loads(text)

    set_json_loads(loads, bad.connection)
    rows = bad.consume("readings", "sums")
    assert shape(rows) == [1, "bad", 3]
    assert rows[1].payload.error.startswith(type(error).__name__)
    assert rows[1].payload.raw == LONG


class Refusing(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> Any:
        raise psycopg.DataError("no time")


def test_an_error_of_another_column_is_raised(bad: Client) -> None:
    bad.connection.adapters.register_loader("timestamptz", Refusing)
    with pytest.raises(psycopg.DataError, match="no time"):
        bad.fetch("readings", "sums")


def test_another_encoding_of_the_client(readings: Client, connect: Connect) -> None:
    """The server writes JSON in it as well, and what looks like UTF-8 is not."""
    content = {"ä": ["Ã©", "ß"]}
    readings.publish("readings", content)
    readings.publish("readings", raw(f'["ä", {LONG}]'))
    connection = connect()
    connection.execute("set client_encoding = 'latin1'")
    first, second = Client(connection).fetch("readings", "sums")
    assert first.payload == content
    assert second.payload.raw == f'["ä", {LONG}]'


def test_the_names_are_public() -> None:
    assert pgq.errors.UnreadablePayload is pgq.UnreadablePayload
    assert not issubclass(UnreadablePayload, psycopg.Error)
