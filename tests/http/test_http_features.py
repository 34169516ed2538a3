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

    one = http.post_for_one("redrive", queue="work", job_id=last["job_id"])
    assert one == Answer(200, {"taken": 1, "seen": 1, "after_id": None})
    paced = {"all_jobs": True, "max_jobs": 1, "per_second": 0.001}
    assert http.post_for_one("redrive", queue="work", **paced).body["taken"] == 1
    stats = http.get("queue_stats", queue="eq.work", select="ready,delayed,dead").body
    assert stats == [{"ready": 2, "delayed": 0, "dead": 1}], "the first of those in pace is due"
    none = http.post_for_one("purge_queue", queue="work", died_before="2001-01-01")
    assert none == Answer(200, {"taken": 0, "seen": 1, "after_id": None})
    assert http.post_for_one("purge_queue", queue="work", dead_only=True).body["taken"] == 1


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


def test_a_limit_for_each_key(http: Http) -> None:
    made = http.post_for_one("create_queue", queue="work", max_leased_per_key=1).body
    assert made["max_leased_per_key"] == 1
    refused = http.post("alter_queue", queue="work", max_leased_per_key=0)
    assert (refused.status, refused.body["code"]) == (400, "22023")
    assert "max_leased_per_key" in refused.body["message"]
    http.post("enqueue_batch", queue="work", payloads=[1, 2, 3, 4, 5], keys=["a"] * 4 + ["b"])
    seen = []
    for limit in ({}, {"max_leased_per_key": 2}, {"no_limit": ["max_leased_per_key"]}):
        altered = http.post_for_one("alter_queue", queue="work", **limit).body
        jobs = http.post("claim_job", queue="work", max_jobs=9).body
        seen.append((altered["max_leased_per_key"], [job["payload"] for job in jobs]))
    assert seen == [(1, [1, 5]), (2, [2]), (None, [3, 4])]


def test_a_full_queue(http: Http) -> None:
    """The code tells it from other errors; nothing is added, and there is room again later."""
    http.post("create_queue", queue="work", max_unfinished=2)
    http.post("enqueue", queue="work", payload=1)
    answer = http.post("enqueue_batch", queue="work", payloads=[2, 3])
    assert answer == Answer(
        400,
        {
            "code": "MQ010",
            "message": 'queue "work" is full',
            "details": "New jobs: 2; unfinished: 1; max_unfinished: 2.",
            "hint": answer.body["hint"],
        },
    )
    assert "max_unfinished" in answer.body["hint"]
    assert http.post("enqueue", queue="work", payload=2).status == 200
    full = http.post_for_one("enqueue", queue="work", payload=3)
    assert (full.status, full.body["code"]) == (400, "MQ010")
    stats = http.get("queue_stats", queue="eq.work", select="ready,is_full").body
    assert stats == [{"ready": 2, "is_full": True}]
    [job] = http.post("claim_job", queue="work").body
    http.post("ack", job_id=job["job_id"], lease_token=job["lease_token"])
    assert http.post("enqueue", queue="work", payload=3).status == 200


def test_an_effect_that_did_not_happen(http: Http) -> None:
    """Whoever looks finds it in the view, with the token that takes it back."""
    http.post("create_queue", queue="work")
    http.post("enqueue", queue="work", payload=1)
    [job] = http.post("claim_job", queue="work").body
    place = {"job_id": job["job_id"], "lease_token": job["lease_token"], "effect": "mail"}
    for state in ("begun", "interrupted"):
        begun = http.post_for_one("begin_effect", **place).body
        assert (begun["state"], begun["result"]) == (state, None)
    [shown] = http.get("effects", queue="eq.work").body
    assert {name: shown[name] for name in place} == place
    assert (shown["state"], shown["attempt"], shown["finished_at"]) == ("begun", 1, None)
    assert http.get("effects", state="eq.interrupted").body == []

    stranger = {**place, "lease_token": "00000000-0000-0000-0000-000000000000"}
    assert http.post("delete_effect", **stranger) == Answer(200, False)
    assert http.post("delete_effect", **{**place, "effect": "other"}) == Answer(200, False)
    assert http.post("delete_effect", **place) == Answer(200, True)
    assert http.post("delete_effect", **place) == Answer(200, False)
    assert http.get("effects").body == []
    assert http.post_for_one("begin_effect", **place).body["state"] == "begun"
    assert http.post("finish_effect", **place, result=[1]) == Answer(200, True)
    assert http.post("delete_effect", **place) == Answer(200, False)
    assert http.get("effects", select="state,result").body == [{"state": "finished", "result": [1]}]
    assert http.get("rpc/delete_effect", **place).status == 405


def test_ticks_that_were_missed(http: Http) -> None:
    """Each is written once, however many calls it takes; one that fails holds up no other."""
    http.post("create_topic", topic="events", partitions=1)
    http.post("create_queue", queue="gone")
    given = {"payload": 1, "every": "1 hour", "starts_at": "2026-05-01T12:00:00Z"}
    http.post("create_schedule", schedule="broken", queue="gone", **given)
    http.post("drop_queue", queue="gone")
    given = {**given, "starts_at": "2100-01-01T00:00:00Z"}
    http.post("create_schedule", schedule="later", topic="events", **given)
    hours = {"cron": "0 12 * * *", "time_zone": "Asia/Tokyo", "missed": "all"}
    http.post(
        "create_schedule",
        schedule="noon",
        topic="events",
        payload=2,
        starts_at="2026-05-01T00:00:00Z",
        **hours,
    )
    runs = [run for most in (3, 2) for run in http.post("run_schedules", max_ticks=most).body]
    broken = next(run for run in runs if run["schedule"] == "broken")
    assert (broken["job_id"], broken["log_offset"]) == (None, None)
    assert "gone" in broken["error"]
    written = [run for run in runs if run["schedule"] == "noon"]
    assert len(written) > 2
    ticks = http.get(
        "rpc/next_ticks",
        cron="0 12 * * *",
        time_zone="Asia/Tokyo",
        after="2026-05-01T00:00:00Z",
        max_ticks=len(written),
    ).body
    assert [(run["partition"], run["log_offset"]) for run in written] == [
        (0, offset) for offset in range(1, len(written) + 1)
    ]
    assert [run["tick_at"] for run in written] == [tick["tick_at"] for tick in ticks]
    [found] = http.get("rpc/list_schedules", schedule="broken").body
    assert found["last_error"] == broken["error"]


def test_offsets_are_given_to_one_partition(http: Http) -> None:
    http.post("create_topic", topic="later", partitions=2, deferred=True)
    for partition in (0, 1, 1):
        http.post("publish", topic="later", payload=partition, partition=partition)
    place = {"topic": "later", "partition": 1}
    there = {**place, "first_offset": 1, "last_offset": 2}
    assert http.get("rpc/fetch_range", **there).body["code"] == "MQ004"
    assert http.get("rpc/assign_offsets", **place).status == 405
    given = {"partition": 1, "first_offset": 1, "last_offset": 2}
    assert http.post("assign_offsets", **place) == Answer(200, [given])
    assert len(http.get("rpc/fetch_range", **there).body) == 2
    rest = {"partition": 0, "first_offset": 1, "last_offset": 1}
    assert http.post("assign_offsets", topic="later", partition=None).body == [rest]
    for code, names in (("MQ001", {"topic": "none"}), ("MQ007", {**place, "partition": 2})):
        answer = http.post("assign_offsets", **names)
        assert (answer.status, answer.body["code"]) == (400, code)


def test_messages_that_failed(http: Http) -> None:
    """By the offsets that consume gave, or by the token; what failed is seen in the lag."""
    for topic in ("orders", "orders.dead"):
        http.post("create_topic", topic=topic, partitions=1)
    group = {"topic": "orders", "consumer_group": "billing"}
    http.post("create_group", **group, max_attempts=3, dead_letter_topic="orders.dead")
    http.post("publish_batch", topic="orders", payloads=[1, 2])
    place = {**group, "partition": 0}
    span = {"first_offset": 1, "last_offset": 2}
    neither = http.post("nack_offsets", **place)
    assert (neither.status, neither.body["code"]) == (400, "22023")
    above = http.post("nack_offsets", **place, first_offset=1, last_offset=3)
    assert (above.status, above.body["code"]) == (400, "MQ004")
    assert http.post("nack_offsets", **place, **span, error="no") == Answer(200, True)
    lag = {"consumer_group": "eq.billing", "select": "lag,attempt,last_error,leased_until"}
    assert http.get("group_lag", **lag).body == [
        {"lag": 2, "attempt": 1, "last_error": "no", "leased_until": None}
    ]
    [leased, _] = http.post("poll", **group).body
    assert leased["attempt"] == 2
    assert http.post("nack_offsets", **place, **span) == Answer(200, False)
    token = {"lease_token": leased["lease_token"]}
    given_back = http.post("nack_offsets", **place, **token, delay="1 hour", error="not yet")
    assert given_back == Answer(200, True)
    assert http.post("nack_offsets", **place, **token) == Answer(200, False)
    assert http.post("poll", **group).body == []
    [shown] = http.get("group_lag", **lag).body
    assert (shown["attempt"], shown["last_error"]) == (2, "not yet")
    assert shown["leased_until"] is not None
