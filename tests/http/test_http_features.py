"""What the functions can do besides, over HTTP."""

from __future__ import annotations

from support.http import Answer, Http


def test_idempotency_keys(http: Http) -> None:
    http.post("create_queue", queue="work")
    given = {"queue": "work", "payload": 1, "idempotency_key": "k"}
    [first] = http.post("enqueue", **given).body
    assert http.post("enqueue", **given).body == [{**first, "duplicate": True}]
    batch = {"queue": "work", "payloads": [1, 2], "idempotency_keys": ["k", None]}
    rows = http.post("enqueue_batch", **batch).body
    assert [row["duplicate"] for row in rows] == [True, False]

    http.post("create_topic", topic="readings", partitions=1, idempotency_window="1 hour")
    message = {"topic": "readings", "payload": 1, "idempotency_key": "k"}
    assert http.post_for_one("publish", **message).body["duplicate"] is False
    again = http.post_for_one("publish", **message).body
    assert again == {"partition": 0, "log_offset": 1, "duplicate": True}


def test_dead_letters_of_a_queue(http: Http) -> None:
    http.post("create_queue", queue="work", max_attempts=1)
    http.post("enqueue_batch", queue="work", payloads=[1, 2, 3])
    jobs = http.post("claim_job", queue="work", max_jobs=3).body
    for job in jobs:
        token = {"job_id": job["job_id"], "lease_token": job["lease_token"]}
        assert http.post("nack", **token, error="no") == Answer(200, True)

    page = http.get("rpc/fetch_dead_letters", queue="work", max_jobs=2).body
    assert [(row["job_id"], row["last_error"]) for row in page] == [
        (job["job_id"], "no") for job in jobs[:2]
    ]
    place = {"after_died_at": page[1]["died_at"], "after_job_id": str(page[1]["job_id"])}
    [last] = http.get("rpc/fetch_dead_letters", queue="work", **place).body
    assert last["job_id"] == jobs[2]["job_id"]

    assert http.post("redrive", queue="work", job_id=last["job_id"]) == Answer(200, 1)
    paced = {"all_jobs": True, "max_jobs": 1, "per_second": 0.001}
    assert http.post("redrive", queue="work", **paced) == Answer(200, 1)
    stats = http.get("queue_stats", queue="eq.work", select="ready,delayed,dead").body
    assert stats == [{"ready": 2, "delayed": 0, "dead": 1}], "the first of those in pace is due"
    assert http.post("purge_queue", queue="work", died_before="2001-01-01") == Answer(200, 0)
    assert http.post("purge_queue", queue="work", dead_only=True) == Answer(200, 1)


def test_dead_letters_of_a_group(http: Http) -> None:
    for topic in ("orders", "orders.dead"):
        http.post("create_topic", topic=topic, partitions=1)
    group = {"topic": "orders", "consumer_group": "billing"}
    http.post("create_group", **group, max_attempts=1, dead_letter_topic="orders.dead")
    http.post("publish", topic="orders", payload={"no": 1}, key="a")
    [message] = http.post("poll", **group).body
    place = {"partition": 0, "lease_token": message["lease_token"]}
    assert http.post("nack_offsets", **group, **place, error="no") == Answer(200, True)
    letter = {"topic": "orders.dead", "partition": 0, "first_offset": 1, "last_offset": 1}
    [dead] = http.get("rpc/fetch_range", **letter).body
    assert (dead["key"], dead["payload"], dead["headers"]["pgq_error"]) == ("a", {"no": 1}, "no")
    assert http.post("poll", **group).body == []


def test_a_deferred_topic(http: Http) -> None:
    made = http.post_for_one("create_topic", topic="later", partitions=1, deferred=True).body
    assert made["deferred"] is True
    published = http.post_for_one("publish", topic="later", payload=1).body
    assert (published["log_offset"], published["duplicate"]) == (None, False)
    [offsets] = http.post("assign_offsets", topic="later").body
    assert (offsets["partition"], offsets["first_offset"], offsets["last_offset"]) == (0, 1, 1)
    assert http.post("assign_offsets", topic="later").body == []
    there = {"topic": "later", "partition": 0, "first_offset": 1, "last_offset": 1}
    assert [row["payload"] for row in http.get("rpc/fetch_range", **there).body] == [1]


def test_limits_and_order(http: Http) -> None:
    limits = {"max_leased": 1, "rate_limit": 100, "max_unfinished": 2}
    made = http.post_for_one("create_queue", queue="work", ordered=True, **limits).body
    assert {name: made[name] for name in limits} == limits
    http.post("enqueue_batch", queue="work", payloads=[1, 2], keys=["k", "k"])
    full = http.post("enqueue", queue="work", payload=3)
    assert (full.status, full.body["code"]) == (400, "MQ010")
    [job] = http.post("claim_job", queue="work", max_jobs=9).body
    assert job["payload"] == 1
    stats = http.get("queue_stats", queue="eq.work", select="held_by,is_full,waiting").body
    assert stats == [{"held_by": "max_leased", "is_full": True, "waiting": 1}]
