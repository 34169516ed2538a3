"""For each function what makes a call of it that succeeds.

A new function has to be added here.
"""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from support.pg_cron import STAND_IN
from support.session import Session

__all__ = ["GIVEN", "Arguments", "given", "prepare"]

Arguments = dict[str, Any]

TOPIC: Arguments = {"topic": "t"}
GROUP: Arguments = {"topic": "t", "consumer_group": "g"}
PLACE: Arguments = {**GROUP, "partition": 0}
RANGE: Arguments = {"topic": "t", "partition": 0, "first_offset": 1, "last_offset": 2}
QUEUE: Arguments = {"queue": "q"}
SCHEDULE: Arguments = {"schedule": "s"}
EFFECT: Arguments = {"job_id": "$job", "lease_token": "$job_token", "effect": "e"}

# For each function what it cannot do without: the arguments that are required, and of those of
# which one has to be given, one. A text that begins with $ is something of the database below.
GIVEN: dict[str, Arguments] = {
    "abort_write": {"write_id": "$write"},
    "ack": {"job_id": "$job", "lease_token": "$job_token"},
    "ack_batch": {"job_ids": "$jobs", "lease_token": "$job_token"},
    "alter_group": GROUP,
    "alter_queue": QUEUE,
    "alter_schedule": SCHEDULE,
    "alter_topic": TOPIC,
    "assign_offsets": TOPIC,
    "archive_job": {"job_id": "$job", "lease_token": "$job_token"},
    "archive_job_batch": {"job_ids": "$jobs", "lease_token": "$job_token"},
    "begin_effect": EFFECT,
    "begin_write": TOPIC,
    "check_range": RANGE,
    "cancel_job": {"job_id": "$job"},
    "cancel_jobs": {**QUEUE, "all_jobs": True},
    "claim_job": QUEUE,
    "claim_offsets": GROUP,
    "commit_offset": {**PLACE, "committed_offset": 1},
    "commit_write": {"write_id": "$write"},
    "consume": GROUP,
    "create_group": {"topic": "t", "consumer_group": "new"},
    "create_queue": {"queue": "new"},
    "create_schedule": {"schedule": "new", **QUEUE, "payload": Jsonb(1), "cron": "@daily"},
    "create_topic": {"topic": "new"},
    "drop_group": GROUP,
    "drop_queue": QUEUE,
    "drop_schedule": SCHEDULE,
    "drop_topic": TOPIC,
    "enqueue": {**QUEUE, "payload": Jsonb(1)},
    "enqueue_batch": {**QUEUE, "payloads": [Jsonb(1), Jsonb(2)]},
    "extend_lease": {"job_id": "$job", "lease_token": "$job_token"},
    "extend_lease_batch": {"job_ids": "$jobs", "lease_token": "$job_token"},
    "extend_poll": {**PLACE, "consumer_group": "leased", "lease_token": "$poll_token"},
    "fetch": GROUP,
    "fetch_archived_jobs": QUEUE,
    "fetch_dead_letters": QUEUE,
    "fetch_packed": RANGE,
    "fetch_range": RANGE,
    "finish_and_claim": QUEUE,
    "finish_effect": EFFECT,
    "delete_effect": EFFECT,
    "delete_worker": {"worker": "w"},
    "get_job": {"job_id": "$job"},
    "get_result": {"job_id": "$job"},
    "grant_access": {"role": "public", **TOPIC, "access": "publish"},
    "list_access": {},
    "heartbeat": {"worker": "w"},
    "job_history": {"job_id": "$dead"},
    "list_groups": {},
    "list_offsets": TOPIC,
    "watermark": TOPIC,
    "list_schedules": {},
    "list_workers": {},
    "nack": {"job_id": "$job", "lease_token": "$job_token"},
    "nack_batch": {"job_ids": "$jobs", "lease_token": "$job_token"},
    "nack_offsets": {**PLACE, "consumer_group": "leased", "lease_token": "$poll_token"},
    "next_due": QUEUE,
    "next_poll": GROUP,
    "next_ticks": {"cron": "@daily"},
    "pause_queue": QUEUE,
    "pause_schedule": SCHEDULE,
    "peek_jobs": QUEUE,
    "poll": GROUP,
    "publish": {**TOPIC, "payload": Jsonb(1)},
    "publish_batch": {**TOPIC, "payloads": [Jsonb(1), Jsonb(2)]},
    "purge_queue": {**QUEUE, "all_jobs": True},
    "redrive": {**QUEUE, "all_jobs": True},
    "reject_job": {"job_id": "$job", "lease_token": "$job_token"},
    "release_job": {"job_id": "$job", "lease_token": "$job_token"},
    "release_job_batch": {"job_ids": "$jobs", "lease_token": "$job_token"},
    "release_poll": {**PLACE, "consumer_group": "leased", "lease_token": "$poll_token"},
    "repair_clock": {},
    "resume_queue": QUEUE,
    "resume_schedule": SCHEDULE,
    "retry_job": {"job_id": "$job"},
    "retry_jobs": {**QUEUE, "all_jobs": True},
    "search_jobs": QUEUE,
    "list_errors": QUEUE,
    "revoke_access": {"role": "public", **TOPIC},
    "run_schedules": {},
    "schedule_cleanup": {},
    "seek": {**GROUP, "start": "latest"},
    "set_progress": {"job_id": "$job", "lease_token": "$job_token", "progress": Jsonb(1)},
    "set_storage_bounds": {},
    "subscribe": {"subscription": "new", **TOPIC, **QUEUE},
    "unsubscribe": {"subscription": "b"},
    "write_chunk": {
        "write_id": "$write",
        "task": 0,
        "task_attempt": "a",
        "chunk": 0,
        "lengths": [1, 1],
        "packed_payloads": b"12",
    },
}


def prepare(session: Session) -> Arguments:
    """Make what the calls name, and say how it is called."""
    session.execute(STAND_IN.read_bytes())
    session.create_topic(topic="t", partitions=1)
    for group in ("g", "leased"):
        session.create_group(topic="t", consumer_group=group)
    # more than any default is about
    session.publish_batch(topic="t", payloads=[Jsonb(n) for n in range(150)])
    [leased, *_] = session.poll(topic="t", consumer_group="leased", lease="1 second")
    session.create_queue(queue="q", backoff_jitter=0, lease="1 minute", max_attempts=1)
    session.enqueue_batch(queue="q", payloads=[Jsonb(n) for n in range(6)])
    [dead] = session.claim_job(queue="q")
    session.nack(job_id=dead[0], lease_token=dead[1])
    session.alter_queue(queue="q", max_attempts=3)
    jobs = session.claim_job(queue="q", max_jobs=2, lease="30 seconds")
    session.begin_effect(job_id=jobs[0][0], lease_token=jobs[0][1], effect="e")
    write = session.begin_write(topic="t")
    queue_write = session.begin_write(queue="q")
    session.create_queue(queue="followers")
    session.subscribe(subscription="b", topic="t", queue="followers")
    session.create_schedule(
        schedule="s",
        queue="q",
        payload=Jsonb(1),
        every="1 second",
        missed="all",
        starts_at="2029-12-31 23:00+00",
    )
    session.heartbeat(worker="w", started_at="2029-12-31 23:00+00")
    return {
        "$poll_token": leased[0],
        "$dead": dead[0],
        "$job": jobs[0][0],
        "$jobs": [job[0] for job in jobs],
        "$job_token": jobs[0][1],
        "$write": write[0],
        "$queue_write": queue_write[0],
    }


def given(function: str, known: Arguments) -> Arguments:
    """The arguments of a call that succeeds."""
    return {
        name: known.get(value, value) if isinstance(value, str) else value
        for name, value in GIVEN[function].items()
    }
