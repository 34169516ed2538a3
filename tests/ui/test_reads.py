"""What the page can ask for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq import Client
from support.page import Page
from support.waiting import wait_until


def test_about(page: Page, client: Client) -> None:
    about = page.read("about")
    info = client.connection.info
    assert about["database"] == info.dbname
    assert about["role"] == info.user
    assert about["version"] == client.version()
    assert (about["standby"], about["read_only"]) == (False, False)
    assert about["server"].partition(".")[0] == str(info.server_version // 10000)


def test_topics_and_groups(page: Page, client: Client) -> None:
    client.admin.create_topic("orders", partitions=2, retention=timedelta(hours=36))
    client.admin.create_topic("audit", partitions=1, no_limit=["retention"])
    client.admin.create_group("orders", "billing")
    client.admin.create_queue("mail")
    client.admin.subscribe("orders-to-mail", "orders", "mail", filter={"kind": ["a"]})
    client.schedules.create_schedule("beat", topic="orders", payload=1, every=timedelta(minutes=1))
    client.publish_batch("orders", [1, 2, 3], partition=1)
    client.consume("orders", "billing", max_messages=1)
    topics = {one["topic"]: one for one in page.read("topics")}
    assert topics["orders"]["retention"] == "1d 12h"
    assert topics["audit"]["retention"] is None
    found = page.read("topic", topic="orders")
    assert found["settings"]["partitions"] == 2
    assert [one["messages"] for one in found["partitions"]] == [0, 3]
    assert [one["consumer_group"] for one in found["groups"]] == ["billing"]
    assert [one["filter"] for one in found["subscriptions"]] == ['{"kind": ["a"]}']
    assert [one["schedule"] for one in found["schedules"]] == ["beat"]
    group = page.read("group", topic="orders", group="billing")
    assert group["settings"]["out_of_range"] == "error"
    assert [one["lag"] for one in group["partitions"]] == [0, 2]
    oldest = datetime.fromisoformat(group["partitions"][1]["oldest_published_at"])
    assert oldest.utcoffset() == timedelta(0)
    assert page.read("subscriptions")[0]["queue"] == "mail"
    assert page.read("schedules")[0]["every"] == "1m"


def test_queues_and_jobs(page: Page, client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1)
    first = client.enqueue("mail", {"to": "a"}, key="k", headers={"h": 1}).job_id
    client.enqueue("mail", delay=timedelta(hours=1), payload=2)
    [job] = client.claim_job("mail")
    client.nack(job.job_id, job.lease_token, error="it broke")
    client.enqueue("mail", 3)
    found = page.read("queue", queue="mail")
    assert (found["stats"]["ready"], found["stats"]["delayed"], found["stats"]["dead"]) == (1, 1, 1)
    assert found["settings"]["lease"] == "30s"
    assert [one["state"] for one in page.read("jobs", queue="mail")["jobs"]] == ["ready", "delayed"]
    [waits] = page.read("jobs", queue="mail", state="delayed")["jobs"]
    assert waits["state"] == "delayed"
    [letter] = page.read("dead", queue="mail")["letters"]
    assert (letter["job_id"], letter["last_error"], letter["key"]) == (first, "it broke", "k")
    dead = page.read("job", job_id=first)
    assert (dead["state"], dead["headers"]) == ("dead", '{"h": 1}')
    assert dead["content"] == {"kind": "json", "text": '{"to": "a"}', "size": 11, "cut": False}
    assert page.ask("job", job_id=4711) == (
        404,
        {
            "message": "there is no job 4711, or it has ended",
            "hint": "how a job ended is kept in queues with keep_results",
            "sqlstate": None,
        },
    )


def test_pages_of_dead_letters(page: Page, client: Client) -> None:
    """All of them once, page by page, however many."""
    client.admin.create_queue("mail", max_attempts=1)
    client.enqueue_batch("mail", list(range(120)))
    jobs = client.claim_job("mail", max_jobs=120)
    client.nack_batch([job.job_id for job in jobs], jobs[0].lease_token)
    seen: list[int] = []
    after: dict[str, Any] = {}
    while True:
        found = page.read("dead", queue="mail", **after)
        seen += [one["job_id"] for one in found["letters"]]
        if not found["more"]:
            break
        assert len(found["letters"]) == 50
        last = found["letters"][-1]
        after = {"after_died_at": last["died_at"], "after_job_id": last["job_id"]}
    assert sorted(seen) == sorted(job.job_id for job in jobs)
    assert len(set(seen)) == 120


def test_workers_and_grants(page: Page, client: Client) -> None:
    client.heartbeat("w1", kind="press", host="mill", sources=["mail"], running=3)
    [worker] = page.read("workers")
    assert (worker["worker"], worker["running"], worker["stale"]) == ("w1", 3, False)
    client.admin.create_topic("secret", restricted=True)
    client.admin.grant_access("public", "publish", topic="secret")
    assert {(one["role"], one["access"]) for one in page.read("access")} >= {("public", "publish")}


def test_what_is_wrong(page: Page, client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1)
    client.enqueue("mail", 1)
    [job] = client.claim_job("mail")
    client.nack(job.job_id, job.lease_token)
    found = page.read("doctor")
    assert "queues" in found["checked"]
    assert any("mail has 1 dead letter" in one["what"] for one in found["findings"])


def test_values_that_javascript_does_not_have(page: Page, client: Client) -> None:
    """Digits stay, a text that is none is shown as bytes, and what is long is cut."""
    client.admin.create_topic("t", partitions=1, max_message_bytes=4_000_000)
    client.publish("t", Jsonb("[12345678901234567890, 0.12345678901234567890]", dumps=str))
    client.publish("t", body=b"\x00\xff\xfe")
    client.publish("t", body="äöü".encode())
    client.publish("t", "x" * 2_000_000)
    client.publish("t", Jsonb(None))
    client.publish("t", {"half": "\ud83d"[:0], "nul": "a"})
    rows = page.read("messages", topic="t")["messages"]
    by_offset = {one["log_offset"]: one["content"] for one in rows}
    assert by_offset[1]["text"] == "[12345678901234567890, 0.12345678901234567890]"
    assert by_offset[2] == {"kind": "bytes", "text": "00 ff fe", "size": 3, "cut": False}
    assert by_offset[3] == {"kind": "text", "text": "äöü", "size": 6, "cut": False}
    assert (len(by_offset[4]["text"]), by_offset[4]["cut"]) == (300, True)
    assert by_offset[4]["size"] == 2_000_002
    assert by_offset[5]["text"] == "null"
    whole = page.read("message", topic="t", partition=0, log_offset=4)["content"]
    assert (len(whole["text"]), whole["cut"]) == (1_000_000, True)


def test_json_that_python_cannot_read(
    client: Client, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    text = f'["ä", {"1" * 5001}]'
    client.admin.create_topic("t", partitions=1)
    client.publish("t", Jsonb(text, dumps=str))
    client.admin.create_queue("mail")
    job = client.enqueue("mail", Jsonb(text, dumps=str))
    with Page(dsn) as page:
        whole = page.read("message", topic="t", partition=0, log_offset=1)["content"]
        assert whole["text"] == text
        assert page.read("job", job_id=job.job_id)["content"]["text"] == text


def test_large_numbers_travel_as_texts(page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=1, max_bytes=2**60)
    client.admin.create_topic("u", partitions=1, max_bytes=2**53 - 1)
    limits = {one["topic"]: one["max_bytes"] for one in page.read("topics")}
    assert limits == {"t": str(2**60), "u": 2**53 - 1}


@pytest.mark.parametrize(
    ("name", "parameters", "status", "message"),
    [
        ("nothing", {}, 404, "there is nothing called nothing"),
        ("topic", {}, 400, "topic is missing"),
        ("topic", {"topic": "none"}, 404, 'unknown topic "none"'),
        ("group", {"topic": "t", "group": "g"}, 404, 'unknown consumer group "g"'),
        ("queue", {"queue": "none"}, 404, 'unknown queue "none"'),
        ("jobs", {"queue": "none"}, 404, 'unknown queue "none"'),
        ("dead", {"queue": "none"}, 404, 'unknown queue "none"'),
        ("dead", {"queue": "q", "after_job_id": "x"}, 400, "after_job_id must be a whole number"),
        ("dead", {"queue": "q", "after_died_at": "x"}, 400, "'x' is no time such as"),
        ("job", {"job_id": "1e3"}, 400, "job_id must be a whole number"),
        ("job", {"job_id": str(2**70)}, 400, "out of range"),
        ("messages", {"topic": "none"}, 404, 'unknown topic "none"'),
        ("messages", {"topic": "t", "partition": "7"}, 404, 'topic "t" has no partition 7'),
        ("messages", {"topic": "t", "before": "0"}, 400, "before must be of the form 0:17,1:4"),
        ("message", {"topic": "t", "partition": 0, "log_offset": 99}, 400, "99"),
        ("messages", {"topic": "t\x00"}, 400, "NUL"),
    ],
)
def test_what_makes_no_sense(
    page: Page, client: Client, name: str, parameters: Any, status: int, message: str
) -> None:
    client.admin.create_topic("t", partitions=1)
    client.admin.create_queue("q")
    found, document = page.ask(name, **parameters)
    assert (found, message in document["message"]) == (status, True), document


def test_a_read_writes_nothing(page: Page, client: Client) -> None:
    """Its transactions are read only, whatever they call."""
    client.admin.create_topic("t", deferred=True)
    client.publish("t", 1)
    assert page.read("messages", topic="t")["messages"] == []
    for name in ("topics", "overview", "doctor", "workers", "schedules"):
        page.read(name)
    assert client.bulk.assign_offsets("t") != []


def test_a_database_that_comes_and_goes(page: Page, client: Client) -> None:
    """Connections that are lost are made again; meanwhile it says what is the matter."""
    page.read("overview")
    client.admin.create_topic("t")

    def ended() -> bool:
        rows = client.connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'pgq ui' and datname = current_database()"
        ).fetchall()
        return bool(rows)

    for _ in range(3):
        wait_until(ended)
        assert page.read("topics")[0]["topic"] == "t"
    name = client.connection.info.dbname
    with psycopg.connect(client.connection.info.dsn, dbname="postgres", autocommit=True) as other:
        other.execute(f'alter database "{name}" with allow_connections false')
        try:
            ended()
            status, document = wait_until(
                lambda: found if (found := page.ask("overview"))[0] != 200 else None
            )
            assert status == 503
            assert document["message"].startswith("the database does not answer: ")
            assert page.ask("topics")[0] == 503
        finally:
            other.execute(f'alter database "{name}" with allow_connections true')
    assert wait_until(lambda: page.ask("overview")[0] == 200, 30)
