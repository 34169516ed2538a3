"""Whoever gives a time to a job locks the table of queues or of jobs, and reads the clock then.

The floors of queues rest on it: a transaction without such a lock has not read the clock yet.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from support.bulk import begin, numbers, stage
from support.session import Connect, Session, new_name
from support.subscription import subscribe
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

WITHOUT_LOCK = """
    create or replace function pgq._clock()
    returns timestamptz language sql volatile parallel unsafe
    as $$
    select date_trunc('milliseconds', clock_timestamp()) + case
        when exists (
            select
            from pg_locks as l
            where l.pid = pg_backend_pid()
                and l.locktype = 'relation'
                and l.relation in ('pgq.queue'::regclass, 'pgq.job'::regclass)
        ) then interval '0' else interval '1 microsecond' end
    $$
"""
"""A clock that shows who reads it before the table of the queue or of its jobs is locked."""

TOO_EARLY = """
    select 'job', count(*) from pgq.job
    where isfinite(visible_at) and extract(microseconds from visible_at)::bigint % 1000 <> 0
    union all
    select 'run', count(*) from pgq.job_extent
    where extract(microseconds from visible_at)::bigint % 1000 <> 0
    union all
    select 'note', count(*) from pgq.key_wakeup
    where isfinite(look_at) and extract(microseconds from look_at)::bigint % 1000 <> 0
"""

WRITERS = {
    "queue/_add_extents.sql",
    "queue/_claim_jobs.sql",
    "queue/_extend_lease.sql",
    "queue/_free_keys.sql",
    "addons/ordered/_let_next.sql",
    "addons/limits/_remove_key_limit.sql",
    "queue/_nack.sql",
    "addons/limits/_block_jobs.sql",
    "queue/_point_jobs.sql",
    "addons/ordered/_point_ordered.sql",
    "addons/limits/_unblock_key.sql",
    "addons/ordered/_process_wakeups.sql",
    "addons/limits/_unblock_all.sql",
    "addons/limits/_unblock_jobs.sql",
    "addons/limits/_write_keys.sql",
    "queue/alter_queue.sql",
    "queue/enqueue.sql",
    "queue/enqueue_batch.sql",
    "queue/parts/claim.plpgsql",
    "queue/_redrive_jobs.sql",
    "addons/history/_retry_job.sql",
    "addons/duplicates/_merge_duplicate.sql",
}
"""All that gives a time to a job, a run or a note; what is new needs a call in the test below."""


def test_all_writers_are_known() -> None:
    written = re.compile(r"insert into pgq\.(job|job_extent|key_wakeup)( \(|\n)")
    sources = ROOT / "sql"
    files = {
        str(file.relative_to(sources))
        for pattern in ("*.sql", "*.plpgsql")
        for file in sources.rglob(pattern)
        if written.search(file.read_text())
    }
    # the first tries out whether a job is there, and leaves none behind; the second gives times of
    # the past, and lowers the floors itself
    assert files - {"queue/_still_leased.sql", "queue/_repair_jobs.sql"} == WRITERS


def test_the_clock_is_read_behind_the_lock(connect: Connect, connection: Session) -> None:
    """Each call is a transaction of its own, and the first thing that it does."""
    connection.execute(WITHOUT_LOCK)
    # a session that has no plans, and locks nothing to make them
    session = connect(autocommit=True)
    session.execute("set track_functions = 'pl'")

    def check(what: str) -> None:
        [*found] = connection.execute(TOO_EARLY.encode()).fetchall()
        assert [kind for kind, number in found if number] == [], what

    def do(what: str, **arguments: Any) -> Any:
        answer = session.call(what, **arguments)
        check(what)
        return answer

    plain, ordered, capped = (new_name("queue") for _ in range(3))
    common = {"backoff_jitter": 0, "backoff": "1 s", "max_attempts": 2, "lease": "1 hour"}
    do("create_queue", queue=plain, **common)
    do("create_queue", queue=ordered, ordered=True, **common)
    do("create_queue", queue=capped, max_leased_per_key=1, **common)
    for deferred in (False, True):
        topic = new_name("topic")
        do("create_topic", topic=topic, partitions=1, deferred=deferred)
        do("create_group", topic=topic, consumer_group="all")
        for queue in (plain, ordered, capped):
            subscribe(session, topic, queue)
        do("publish", topic=topic, payload=1, key="a")
        do("publish_batch", topic=topic, payloads=[1, 2], keys=["a", "b"])
        do("publish_batch", topic=topic, payloads=[1] * 8)
        do("publish", topic=topic, payload=1, idempotency_key="once")
        do("consume", topic=topic, consumer_group="all", max_messages=100)
        write_id = begin(session, topic=topic)
        stage(session, write_id, numbers(1, 600))
        do("commit_write", write_id=write_id)
    for queue in (plain, ordered, capped):
        for more in ({}, {"delay": "5 s"}, {"priority": 3}, {"idempotency_key": "i"}):
            do("enqueue", queue=queue, payload=1, key="a", **more)
        do("enqueue", queue=queue, payload=1, unique_key="u")
        do("enqueue_batch", queue=queue, payloads=[1, 2, 3], keys=["a", "a", "b"])
        write_id = begin(session, queue=queue)
        stage(session, write_id, numbers(1, 5))
        do("commit_write", write_id=write_id)
        do("create_schedule", schedule=new_name("s"), queue=queue, payload=1, every="1 minute")
    connection.execute("update pgq.schedule set next_at = pgq._clock() - interval '1 second'")
    do("run_schedules")

    for queue in (plain, ordered, capped):
        for number in range(12):
            [job] = do("claim_job", queue=queue) or [None]
            if job is None:
                break
            held = {"job_id": job.job_id, "lease_token": job.lease_token}
            do("extend_lease", **held, lease="2 hours")
            if number % 6 == 0:
                do("ack", **held)
            elif number % 6 == 1:
                do("nack", **held, delay="0")
            elif number % 6 == 2:
                do("nack", **held)
            elif number % 6 == 3:
                do("release_job", **held)
            elif number % 6 == 4:
                do("reject_job", **held)
            else:
                do("archive_job", **held)
        jobs = do("claim_job", queue=queue, max_jobs=4)
        batch = {"job_ids": [job.job_id for job in jobs], "lease_token": jobs[0].lease_token}
        do("extend_lease_batch", **batch, lease="2 hours")
        do("nack_batch", **batch, delay="0")
        jobs = do("claim_job", queue=queue, max_jobs=4)
        batch = {"job_ids": [job.job_id for job in jobs], "lease_token": jobs[0].lease_token}
        do("release_job_batch", **batch)
        [job] = do("claim_job", queue=queue)
        do(
            "finish_and_claim",
            queue=queue,
            job_ids=[job.job_id],
            lease_token=job.lease_token,
            max_jobs=5,
        )
        [job] = do("claim_job", queue=queue, label=None, max_jobs=1) or [None]
        do("redrive", queue=queue, all_jobs=True)
        do("cleanup")
    # of three jobs with one key, one is leased and the others are parked until it is done
    do("purge_queue", queue=capped, all_jobs=True)
    late = new_name("queue")
    do("create_queue", queue=late, unique_until="claimed", on_duplicate="postpone", **common)
    for delay in ("1 hour", "0", "1 minute"):
        do("enqueue", queue=late, payload=1, unique_key="u", delay=delay)
    do("enqueue_batch", queue=late, payloads=[1, 2], unique_keys=["u", "u"], delay="1 hour")
    do("retry_jobs", queue=late, all_jobs=True)
    [job] = do("claim_job", queue=late)
    do("release_job", job_id=job.job_id, lease_token=job.lease_token, delay="1 hour")
    assert do("retry_job", job_id=job.job_id)
    do("enqueue_batch", queue=capped, payloads=[1, 2, 3], keys=["c"] * 3)
    [job] = do("claim_job", queue=capped, max_jobs=3)
    do("ack", job_id=job.job_id, lease_token=job.lease_token)
    assert len(do("claim_job", queue=capped, max_jobs=3)) == 1
    do("alter_queue", queue=capped, no_limit=["max_leased_per_key"])
    do("claim_job", queue=capped)
    do("alter_queue", queue=capped, max_leased_per_key=2)
    do("claim_job", queue=capped, max_jobs=3)
    do("alter_queue", queue=ordered, delay="1 s")
    do("cleanup")

    session.close()
    called = "select funcname from pg_stat_user_functions where schemaname = 'pgq'"
    writers = {Path(file).stem for file in WRITERS} - {"claim"} | {"claim_job"}
    seen: set[str] = set()
    wait_until(lambda: seen.update(*connection.execute(called)) or "enqueue" in seen)
    assert writers - seen == set()
