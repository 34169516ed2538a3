"""The functions as an HTTP API: what a client of PostgREST sends and sees."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.http import Answer, Http
from support.postgrest import Postgrest


def test_a_topic_from_publish_to_acknowledgement(http: Http) -> None:
    created = http.post_for_one("create_topic", topic="readings", partitions=1)
    assert created.status == 200
    assert created.body["topic"] == "readings"
    assert created.body["retention"] == "7 days"
    again = http.post("create_topic", topic="readings", partitions=1)
    assert again == Answer(200, [created.body])

    first = http.post("publish", topic="readings", payload={"celsius": 21.5}, key="a")
    assert first.body == [{"partition": 0, "log_offset": 1, "duplicate": False}]
    batch = http.post(
        "publish_batch", topic="readings", payloads=[{"celsius": 22}, [1, 2], "text", 4.5]
    )
    assert batch.body == [{"partition": 0, "first_offset": 2, "last_offset": 5, "duplicate": False}]
    body = http.post_for_one("publish", topic="readings", body="\\x00ff", headers={"unit": "K"})
    assert body.body == {"partition": 0, "log_offset": 6, "duplicate": False}

    assert http.post("create_group", topic="readings", consumer_group="meters").status == 200
    # looking moves nothing, so it may be a GET
    for _ in range(2):
        seen = http.get("rpc/fetch", topic="readings", consumer_group="meters", max_messages=2)
        assert [row["log_offset"] for row in seen.body] == [1, 2]
        assert seen.body[0]["payload"] == {"celsius": 21.5}
        assert seen.body[0]["key"] == "a"

    polled = http.post("poll", topic="readings", consumer_group="meters", max_messages=10)
    assert [row["payload"] for row in polled.body] == [
        {"celsius": 21.5},
        {"celsius": 22},
        [1, 2],
        "text",
        4.5,
        None,
    ]
    assert polled.body[5]["body"] == "\\x00ff"
    assert polled.body[5]["headers"] == {"unit": "K"}
    committed = http.post(
        "commit_offset",
        topic="readings",
        consumer_group="meters",
        partition=0,
        committed_offset=5,
        lease_token=polled.body[0]["lease_token"],
    )
    assert committed == Answer(200, 5)

    lag = http.get(
        "group_lag", consumer_group="eq.meters", select="committed_offset,last_offset,lag"
    )
    assert lag.body == [{"committed_offset": 5, "last_offset": 6, "lag": 1}]

    sought = http.post("seek", topic="readings", consumer_group="meters", start="earliest")
    assert sought.body == [{"partition": 0, "position": 1}]
    consumed = http.post("consume", topic="readings", consumer_group="meters", max_messages=2)
    assert [row["log_offset"] for row in consumed.body] == [1, 2]


def test_a_job_from_enqueue_to_acknowledgement(http: Http) -> None:
    created = http.post_for_one("create_queue", queue="work", max_attempts=2, backoff="0")
    assert created.status == 200
    assert created.body["lease"] == "00:00:30"

    [added] = http.post("enqueue", queue="work", payload={"do": "this"}, label="blue").body
    assert added == {"job_id": added["job_id"], "duplicate": False}
    job_id = added["job_id"]
    assert isinstance(job_id, int)
    (job,) = http.post("claim_job", queue="work").body
    assert (job["job_id"], job["payload"], job["attempt"]) == (job_id, {"do": "this"}, 1)
    assert http.post("claim_job", queue="work").body == []
    token = {"job_id": job_id, "lease_token": job["lease_token"]}
    assert http.post("extend_lease", **token, lease="5 minutes") == Answer(200, True)
    [begun] = http.post("begin_effect", **token, effect="mail").body
    assert (begun["state"], begun["attempt"]) == ("begun", 1)
    assert http.post("finish_effect", **token, effect="mail", result={"id": 7}).body is True
    assert http.post("nack", **token, delay="0", error="not today") == Answer(200, True)
    (job,) = http.post("claim_job", queue="work").body
    assert job["attempt"] == 2
    # the first token is stale now
    assert http.post("begin_effect", **token, effect="mail").body["code"] == "MQ006"
    assert http.post("ack", **token) == Answer(200, False)
    token["lease_token"] = job["lease_token"]
    assert http.post("ack", **token) == Answer(200, True)
    assert http.post("ack", **token) == Answer(200, False)

    batch = http.post("enqueue_batch", queue="work", payloads=[1, 2, 3]).body
    ids = [row["job_id"] for row in batch]
    jobs = http.post("claim_job", queue="work", max_jobs=10).body
    assert [job["job_id"] for job in jobs] == ids
    done = http.post("ack_batch", job_ids=ids, lease_token=jobs[0]["lease_token"]).body
    assert sorted(row["job_id"] for row in done) == ids

    stats = http.get("queue_stats", queue="eq.work", select="ready,leased,dead")
    assert stats.body == [{"ready": 0, "leased": 0, "dead": 0}]
    archived = http.get("archived_jobs", queue="eq.work", select="job_id,outcome")
    assert len(archived.body) == 4


def test_a_unique_job(http: Http) -> None:
    made = http.post_for_one("create_queue", queue="work", unique_until="claimed").body
    assert made["unique_until"] == "claimed"
    given = {"queue": "work", "payload": 1, "unique_key": "k", "max_attempts": 3}
    [first] = http.post("enqueue", **given).body
    assert http.post("enqueue", **given).body == [{**first, "duplicate": True}]
    batch = {"payloads": [1, 2], "unique_keys": ["k", None]}
    rows = http.post("enqueue_batch", queue="work", **batch).body
    assert [row["duplicate"] for row in rows] == [True, False]
    [found] = http.get("rpc/get_job", job_id=str(first["job_id"])).body
    assert (found["state"], found["max_attempts"], found["payload"]) == ("ready", 3, 1)

    (job,) = http.post("claim_job", queue="work").body
    token = {"job_id": job["job_id"], "lease_token": job["lease_token"]}
    assert http.post("release_job", **token) == Answer(200, True)
    (job,) = http.post("claim_job", queue="work").body
    token = {"job_id": job["job_id"], "lease_token": job["lease_token"]}
    assert http.post("reject_job", **token, error="no") == Answer(200, True)
    assert http.post("cancel_job", job_id=rows[0]["job_id"]) == Answer(200, True)
    assert http.post("cancel_job", job_id=rows[0]["job_id"]) == Answer(200, False)
    assert http.get("rpc/get_job", job_id=str(first["job_id"])).body == []


def test_a_job_that_comes_too_early(http: Http) -> None:
    http.post("create_queue", queue="work")
    [made] = http.post("enqueue", queue="work", payload=1).body
    (job,) = http.post("claim_job", queue="work").body
    token = {"job_id": made["job_id"], "lease_token": job["lease_token"]}
    progress = {"done": 1, "of": 2}
    assert http.post("set_progress", **token, progress=progress) == Answer(200, True)
    assert http.post("release_job", **token, delay="1 hour") == Answer(200, True)
    [found] = http.get("rpc/get_job", job_id=str(made["job_id"])).body
    assert (found["state"], found["snoozes"], found["progress"]) == ("delayed", 1, progress)
    assert http.post("retry_job", job_id=made["job_id"]) == Answer(200, True)
    assert http.post("retry_job", job_id=made["job_id"]) == Answer(200, False)
    assert http.post("set_progress", **token) == Answer(200, False)


def test_a_subscription(http: Http) -> None:
    http.post("create_topic", topic="parcels")
    http.post("create_queue", queue="work")
    given = {"topic": "parcels", "queue": "work", "filter": {"status": ["shipped", "lost"]}}
    made = http.post_for_one("subscribe", subscription="work", **given).body
    assert {name: made[name] for name in given} == given
    for status in ("new", "shipped"):
        http.post("publish", topic="parcels", payload=status, headers={"status": status})
    (job,) = http.post("claim_job", queue="work", max_jobs=9).body
    assert (job["payload"], job["headers"]) == ("shipped", {"status": "shipped"})
    assert http.get("rpc/list_subscriptions").body == [made]
    http.post("unsubscribe", subscription="work")
    assert http.get("rpc/list_subscriptions").body == []


def test_a_schedule(http: Http) -> None:
    http.post("create_queue", queue="work")
    given = {"queue": "work", "payload": 1, "every": "1 hour", "starts_at": "2026-05-01T12:00:00Z"}
    made = http.post_for_one("create_schedule", schedule="hourly", **given).body
    assert (made["every"], made["next_at"]) == ("01:00:00", "2026-05-01T12:00:00+00:00")
    (run,) = http.post("run_schedules", max_ticks=5).body
    (job,) = http.post("claim_job", queue="work").body
    assert (job["job_id"], job["headers"]) == (run["job_id"], {"scheduled_at": run["tick_at"]})
    (found,) = http.get("rpc/list_schedules", schedule="hourly").body
    assert found["last_at"] == run["tick_at"]
    ticks = http.get(
        "rpc/next_ticks", cron="0 9 * * *", time_zone="Asia/Tokyo", after="2026-05-01", max_ticks=1
    )
    assert ticks == Answer(200, [{"tick_at": "2026-05-02T00:00:00+00:00"}])


def test_null_is_the_default(http: Http) -> None:
    """A client may send all the arguments that there are, with JSON null where it says nothing."""
    made = http.post_for_one(
        "create_topic",
        topic="readings",
        partitions=1,
        retention=None,
        max_bytes=None,
        notify=None,
        no_limit=None,
    )
    assert {name: made.body[name] for name in ("retention", "max_bytes", "notify")} == {
        "retention": "7 days",
        "max_bytes": None,
        "notify": False,
    }
    names = {"topic": "readings", "consumer_group": "meters"}
    group = http.post_for_one("create_group", **names, start=None, out_of_range=None)
    assert group.body["out_of_range"] == "error"
    content = {"key": None, "headers": None, "partition": None, "body": None}
    for number in (1, 2):
        published = http.post("publish", topic="readings", payload={"n": number}, **content)
        assert published.body == [{"partition": 0, "log_offset": number, "duplicate": False}]
    polled = http.post("poll", **names, max_messages=None, partition=None, lease=None)
    assert [row["payload"] for row in polled.body] == [{"n": 1}, {"n": 2}]

    http.post("create_queue", queue="work", lease=None, no_limit=None)
    added = http.post(
        "enqueue",
        queue="work",
        payload=[],
        delay=None,
        priority=None,
        **dict.fromkeys(("key", "headers", "run_at", "label", "body")),
    )
    assert added.status == 200
    [job] = http.post("claim_job", queue="work", max_jobs=None, lease=None, label=None).body
    assert (job["payload"], job["priority"]) == ([], 0)


def test_a_json_null_is_no_payload(http: Http) -> None:
    """Over HTTP it cannot be told from an argument that is left out."""
    http.post("create_topic", topic="readings", partitions=1)
    for content in ({"payload": None}, {"payload": None, "body": None}):
        answer = http.post("publish", topic="readings", **content)
        assert (answer.status, answer.body["code"]) == (400, "22004")
    assert http.get("topic_stats", select="messages").body == [{"messages": 0}]


def test_one_row_is_asked_for_where_there_are_none(http: Http) -> None:
    """An object can only be had of a function that always has one row."""
    http.post("create_topic", topic="readings", partitions=1)
    http.post("create_group", topic="readings", consumer_group="meters")
    answer = http.post_for_one("consume", topic="readings", consumer_group="meters")
    assert (answer.status, answer.body["code"]) == (406, "PGRST116")


def test_void_functions_answer_without_content(http: Http) -> None:
    http.post("create_topic", topic="readings")
    http.post("create_queue", queue="work")
    assert http.post("pause_queue", queue="work").body[0]["paused"] is True
    assert http.post("resume_queue", queue="work").body[0]["paused"] is False
    assert http.post("drop_queue", queue="work") == Answer(204, None)
    assert http.post("drop_topic", topic="readings") == Answer(204, None)


@pytest.mark.parametrize(
    ("function", "arguments", "status", "code"),
    [
        ("publish", {"topic": "nowhere", "payload": 1}, 400, "MQ001"),
        ("enqueue", {"queue": "nowhere", "payload": 1}, 400, "MQ002"),
        ("consume", {"topic": "readings", "consumer_group": "nobody"}, 400, "MQ003"),
        (
            "commit_offset",
            {
                "topic": "readings",
                "consumer_group": "meters",
                "partition": 0,
                "committed_offset": 9,
            },
            400,
            "MQ004",
        ),
        ("create_queue", {"queue": "work", "max_attempts": 7}, 400, "MQ005"),
        ("create_topic", {"topic": "readings", "partitions": 2}, 400, "MQ005"),
        (
            "commit_offset",
            {
                "topic": "readings",
                "consumer_group": "meters",
                "partition": 0,
                "committed_offset": 1,
                "lease_token": "00000000-0000-0000-0000-000000000000",
            },
            400,
            "MQ006",
        ),
        ("publish", {"topic": "readings", "payload": 1, "partition": 99}, 400, "MQ007"),
        ("drop_schedule", {"schedule": "none"}, 400, "MQ009"),
        ("unsubscribe", {"subscription": "none"}, 400, "MQ011"),
        ("publish", {"topic": "readings"}, 400, "22004"),
        ("publish", {"topic": None, "payload": 1}, 400, "22004"),
        ("create_topic", {"topic": "no spaces"}, 400, "22023"),
        ("claim_job", {"queue": "work", "max_jobs": 0}, 400, "22023"),
        ("claim_job", {"queue": "work", "max_jobs": "many"}, 400, "22P02"),
        ("publish", {"topic": "readings", "payloads": [1]}, 404, "PGRST202"),
    ],
)
def test_errors(
    http: Http,
    connection: psycopg.Connection[Any],
    function: str,
    arguments: dict[str, Any],
    status: int,
    code: str,
) -> None:
    connection.execute("select pgq.create_topic(topic => 'readings', partitions => 1)")
    connection.execute("select pgq.publish(topic => 'readings', payload => '1')")
    connection.execute("select pgq.create_group(topic => 'readings', consumer_group => 'meters')")
    connection.execute("select pgq.create_queue(queue => 'work')")
    answer = http.post(function, **arguments)
    assert (answer.status, answer.body["code"]) == (status, code)
    assert answer.body["message"]
    if code == "MQ001":
        assert answer.body["message"] == 'unknown topic "nowhere"'
        assert "create_topic" in answer.body["hint"]


def test_what_writes_is_refused_by_get(http: Http) -> None:
    http.post("create_topic", topic="readings")
    answer = http.get("rpc/publish", topic="readings", payload=1)
    assert answer.status == 405
    assert http.get("rpc/list_topics", select="topic").body == [{"topic": "readings"}]
    assert http.get("rpc/version").status == 200


def test_tables_are_behind_the_functions(
    http: Http, connection: psycopg.Connection[Any], dsn: str
) -> None:
    """An ordinary role that was granted nothing can do nothing."""
    connection.execute("drop role if exists web_visitor")
    connection.execute("create role web_visitor")
    try:
        with Postgrest(dsn, role="web_visitor") as postgrest:
            visitor = Http(postgrest.url)
            for answer in (
                visitor.post("create_topic", topic="readings"),
                visitor.get("message"),
                visitor.get("topic"),
            ):
                assert answer.status in (401, 403, 404)
                assert answer.body["code"] in ("42501", "PGRST202", "42P01")
    finally:
        connection.execute("drop owned by web_visitor")
        connection.execute("drop role web_visitor")


def test_openapi_shows_the_comments(http: Http, connection: psycopg.Connection[Any]) -> None:
    row = connection.execute(
        "select obj_description('pgq.publish'::regproc, 'pg_proc'),"
        " obj_description('pgq'::regnamespace, 'pg_namespace')"
    ).fetchone()
    assert row is not None
    summary, _, description = row[0].partition("\n")
    page = http.get("").body
    publish = page["paths"]["/rpc/publish"]["post"]
    assert publish["summary"] == summary
    assert publish["description"].split() == description.split()
    assert page["info"]["title"] == row[1].partition("\n")[0]
    schema = publish["parameters"][0]["schema"]
    assert set(schema["properties"]) == {
        "topic",
        "payload",
        "key",
        "headers",
        "partition",
        "idempotency_key",
        "body",
    }
    assert schema["required"] == ["topic"]
