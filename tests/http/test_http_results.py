"""What has become of jobs, and acts on many of them, over HTTP."""

from __future__ import annotations

from typing import Any

from support.http import Answer, Http


def claimed(http: Http) -> dict[str, Any]:
    [job] = http.post("claim_job", queue="work").body
    return {"job_id": job["job_id"], "lease_token": job["lease_token"]}


def test_a_result(http: Http) -> None:
    made = http.post_for_one("create_queue", queue="work", keep_results=True, backoff="0").body
    assert made["keep_results"] is True
    job_id = http.post_for_one("enqueue", queue="work", payload=1).body["job_id"]
    waiting = {"state": "waiting", "result": None, "error": None, "ended_at": None}
    assert http.get("rpc/get_result", job_id=job_id) == Answer(200, [waiting])

    told = {"error": "busy", "worker": "w-1", "began_at": "2026-05-01T12:00:00+00:00"}
    assert http.post("nack", **claimed(http), **told) == Answer(200, True)
    [attempt] = http.get("rpc/job_history", job_id=job_id).body
    assert {name: attempt[name] for name in told} == told
    assert (attempt["attempt"], attempt["outcome"]) == (1, "failed")

    assert http.post("archive_job", **claimed(http), result={"sum": 3}) == Answer(200, True)
    found = http.post_for_one("get_result", job_id=job_id).body
    assert (found["state"], found["result"]) == ("finished", {"sum": 3})
    [gone] = http.get("rpc/get_result", job_id=999999, select="state").body
    assert gone == {"state": "gone"}
    assert http.get("rpc/job_history", job_id=999999).body == []


def test_the_newest_content(http: Http) -> None:
    postpone = {"on_duplicate": "postpone", "unique_until": "claimed", "debounce_max": "1 hour"}
    made = http.post_for_one("create_queue", queue="work", delay="1 minute", **postpone).body
    assert (made["on_duplicate"], made["debounce_max"]) == ("postpone", "01:00:00")
    first = http.post_for_one("enqueue", queue="work", payload=1, unique_key="k").body
    again = http.post_for_one("enqueue", queue="work", payload=2, unique_key="k").body
    assert again == {"job_id": first["job_id"], "duplicate": True}
    [job] = http.get("rpc/get_job", job_id=first["job_id"], select="payload").body
    assert job == {"payload": 2}


def test_many_jobs(http: Http) -> None:
    http.post("create_queue", queue="work", delay="1 hour")
    http.post("enqueue_batch", queue="work", payloads=[1, 2, 3], labels=["a", "a", "b"])
    some = {"queue": "work", "label": "a"}
    for call in ({"dry_run": True}, {}):
        retried = http.post_for_one("retry_jobs", **some, **call)
        assert retried == Answer(200, {"taken": 2, "seen": 3, "after_id": None})
    stats = http.get("queue_stats", queue="eq.work", select="ready,delayed").body
    assert stats == [{"ready": 2, "delayed": 1}]
    assert http.post_for_one("cancel_jobs", queue="work", all_jobs=True).body["taken"] == 3
    refused = http.post("cancel_jobs", queue="work")
    assert (refused.status, refused.body["code"]) == (400, "22023")
