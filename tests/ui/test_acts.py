"""What can be done from the page."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from pgq import Client
from support.page import Page
from support.session import Session
from support.waiting import wait_until


@pytest.fixture
def letters(client: Client) -> list[int]:
    """The ids of five dead letters of the queue mail."""
    client.admin.create_queue("mail", max_attempts=1)
    client.enqueue_batch("mail", list(range(5)))
    jobs = client.claim_job("mail", max_jobs=5)
    client.nack_batch([job.job_id for job in jobs], jobs[0].lease_token)
    return [job.job_id for job in jobs]


def test_publish(page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=2)
    said = page.act(
        "publish", topic="t", payload='{"n": 12345678901234567890}', key="k",
        headers='{"h": true}', partition="1",
    )  # fmt: skip
    assert said == "published to t, partition 1, offset 1"
    [message] = client.bulk.fetch_range("t", 1, 1, 1)
    assert message.payload == {"n": 12345678901234567890}
    assert (message.key, message.headers) == ("k", {"h": True})
    assert page.act("publish", topic="t", payload="null", key="", headers="", partition="")


def test_publish_to_a_deferred_topic(page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=1, deferred=True)
    assert page.act("publish", topic="t", payload="1") == "published to t, partition 0"
    assert page.act("assign_offsets", topic="t") == "1 message got an offset"
    assert page.act("assign_offsets", topic="t") == "0 messages got an offset"


def test_enqueue(page: Page, client: Client) -> None:
    client.admin.create_queue("mail")
    said = page.act(
        "enqueue", queue="mail", payload="[1]", delay="1h", priority="7", key="k", headers="{}"
    )
    [job] = client.jobs.peek_jobs("mail")
    assert said == f"enqueued job {job.job_id}"
    assert (job.payload, job.priority, job.key, job.state) == ([1], 7, "k", "delayed")


def test_redrive(page: Page, client: Client, letters: list[int]) -> None:
    assert page.act("redrive", queue="mail", job_id=letters[3]) == "1 dead letter is a job again"
    said = page.act("redrive", queue="mail", all_jobs=True, max_jobs="2", per_second="")
    assert said == "2 dead letters are jobs again"
    assert {job.job_id for job in client.jobs.peek_jobs("mail")} == {
        letters[0],
        letters[1],
        letters[3],
    }
    assert page.act("redrive", queue="mail", all_jobs=True, per_second="0.5")
    assert client.monitor.queue_stats("mail")[0].dead == 0


def test_remove_dead_letters(page: Page, client: Client, letters: list[int]) -> None:
    client.enqueue("mail", "alive")
    assert page.act("purge_dead", queue="mail", job_id=letters[0]) == "removed 1 dead letter"
    assert page.act("purge_dead", queue="mail", job_id=letters[0]) == "removed 0 dead letters"
    assert page.act("purge_dead", queue="mail") == "removed 4 dead letters"
    assert client.monitor.queue_stats("mail")[0].ready == 1
    assert page.act("purge_queue", queue="mail") == "removed 1 job"
    assert client.monitor.queue_stats("mail")[0].ready == 0


def test_pause_and_resume(page: Page, client: Client) -> None:
    client.admin.create_queue("mail")
    assert page.act("pause_queue", queue="mail") == "queue mail is paused"
    assert client.monitor.queue_stats("mail")[0].held_by == "paused"
    assert page.act("resume_queue", queue="mail") == "queue mail goes on"
    assert client.monitor.queue_stats("mail")[0].held_by is None
    client.schedules.create_schedule("beat", queue="mail", payload=1, every=timedelta(minutes=1))
    assert page.act("pause_schedule", schedule="beat") == "schedule beat is paused"
    assert client.schedules.list_schedules("beat")[0].paused
    assert page.act("resume_schedule", schedule="beat") == "schedule beat goes on"
    assert not client.schedules.list_schedules("beat")[0].paused


def test_cancel(page: Page, client: Client, letters: list[int]) -> None:
    job_id = client.enqueue("mail", 1).job_id
    assert page.act("cancel_job", job_id=str(job_id)) == f"job {job_id} is cancelled"
    assert client.get_job(job_id) is None
    said = page.act("cancel_job", job_id=letters[0])
    assert said == f"job {letters[0]} is finished already, or a dead letter"


def test_retry_now(page: Page, client: Client, letters: list[int]) -> None:
    job_id = client.enqueue("mail", 1, delay=timedelta(hours=1)).job_id
    assert page.act("retry_job", job_id=str(job_id)) == f"job {job_id} is due now"
    assert page.read("job", job_id=job_id)["state"] == "ready"
    for other in (job_id, letters[0], 4711):
        said = page.act("retry_job", job_id=other)
        assert said == f"job {other} does not wait for a time any more"


@pytest.mark.parametrize(
    ("given", "positions"),
    [
        ({"start": "earliest"}, [1, 1]),
        ({"start": "latest"}, [4, 4]),
        ({"partition": "1", "log_offset": "2"}, [4, 2]),
        ({"published_at": "10m ago", "partition": ""}, [1, 1]),
    ],
)
def test_seek(page: Page, client: Client, given: dict[str, Any], positions: list[int]) -> None:
    client.admin.create_topic("t", partitions=2)
    client.admin.create_group("t", "g", start="earliest")
    for partition in (0, 1):
        client.publish_batch("t", [1, 2, 3], partition=partition)
        client.consume("t", "g", partition=partition)
    assert page.act("seek", topic="t", group="g", **given).startswith("g reads from its new place")
    found = [one.committed_offset + 1 for one in client.monitor.group_lag("t", "g")]
    assert found == positions


def test_unsubscribe_and_forget(page: Page, client: Client) -> None:
    client.admin.create_topic("t")
    client.admin.create_queue("mail")
    client.admin.subscribe("s", "t", "mail")
    assert page.act("unsubscribe", subscription="s") == "subscription s has ended"
    assert client.admin.list_subscriptions() == []
    client.heartbeat("w", kind="press", sources=[])
    assert page.act("delete_worker", worker="w") == "w is forgotten"
    assert page.act("delete_worker", worker="w") == "w was not known any more"


def test_an_error_changes_nothing_and_says_what_to_do(page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=1)
    client.admin.create_queue("full", max_unfinished=1)
    client.enqueue("full", 1)
    wrong: list[tuple[str, dict[str, Any], int, str | None]] = [
        ("publish", {"topic": "t", "payload": "{"}, 400, "22P02"),
        ("publish", {"topic": "t"}, 400, "22004"),
        ("publish", {"topic": "t", "payload": 1}, 400, None),
        ("publish", {"topic": "none", "payload": "1"}, 404, "MQ001"),
        ("publish", {"topic": "t", "payload": "1", "headers": "[]"}, 400, "22023"),
        ("publish", {"topic": "t", "payload": "1", "partition": "5"}, 404, "MQ007"),
        ("publish", {"topic": "t", "payload": "1", "partition": 0.5}, 400, None),
        ("enqueue", {"queue": "full", "payload": "1"}, 400, "MQ010"),
        ("enqueue", {"queue": "full", "payload": "1", "delay": "soon"}, 400, None),
        ("redrive", {"queue": "full"}, 400, "22023"),
        ("redrive", {"queue": "full", "all_jobs": "yes"}, 400, None),
        ("redrive", {"queue": "full", "all_jobs": True, "per_second": "fast"}, 400, None),
        ("pause_queue", {"queue": "none"}, 404, "MQ002"),
        ("pause_queue", {}, 400, None),
        ("seek", {"topic": "t", "group": "none", "start": "latest"}, 404, "MQ003"),
        ("unsubscribe", {"subscription": "none"}, 404, "MQ011"),
        ("pause_schedule", {"schedule": "none"}, 404, "MQ009"),
        ("cancel_job", {"job_id": str(uuid.UUID(int=1))}, 400, None),
        ("retry_job", {"job_id": "soon"}, 400, None),
    ]
    for name, given, status, sqlstate in wrong:
        found, document = page.do(name, **given)
        assert (found, document["sqlstate"]) == (status, sqlstate), (name, given, document)
        assert document["message"]
        if sqlstate in ("MQ001", "MQ002", "MQ010"):
            assert document["hint"], document
    assert client.monitor.topic_stats("t")[0].messages == 0
    assert client.monitor.queue_stats("full")[0].ready == 1


def test_what_was_done_is_seen_soon(page: Page, client: Client) -> None:
    client.admin.create_queue("mail")
    page.act("pause_queue", queue="mail")

    def held() -> str | None:
        found = [one for one in page.read("overview")["queues"] if one["queue"] == "mail"]
        return found[0]["held_by"] if found else None

    wait_until(lambda: held() == "paused")


def test_only_showing(dsn: str, client: Client) -> None:
    client.admin.create_queue("mail")
    with Page(dsn, read_only=True) as page:
        assert page.read("about")["read_only"] is True
        status, document = page.do("pause_queue", queue="mail")
        assert (status, document["message"]) == (
            403,
            "this page only shows: it was started with --read-only",
        )
        assert page.read("queue", queue="mail")["stats"]["paused"] is False


def test_a_cleanup_that_fails(page: Page, client: Client, connection: Session) -> None:
    """The page says which part."""
    connection.execute("alter function pgq._clean_workers rename to pgq_test_gone")
    assert page.act("cleanup").startswith("cleanup failed: workers: 42883")
