"""pgq works with settings of all kinds, and where PL/pgSQL is as strict as it can be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from psycopg.types.string import TextLoader

from support.access import use_access
from support.clock import Clock
from support.house import load_pgq, refuse
from support.odd_settings import KINDS, STRICT, set_for_database
from support.pg_cron import use_pg_cron
from support.session import Connect, Session


def test_installing(dsn: str, connection: Session) -> None:
    """No variable has the name of an argument."""
    connection.execute("drop schema pgq cascade")
    options = " ".join(f"-c {setting}={value}" for setting, value in STRICT.items())
    load_pgq(conninfo=dsn, options=options)
    assert connection.execute("select pgq.version()").fetchone()


@pytest.fixture(params=KINDS)
def strict(
    connect: Connect, connection: Session, clock: Clock, request: pytest.FixtureRequest
) -> Session:
    """A session to a database with all extra checks, whose clock can be moved."""
    set_for_database(connection, request.param)
    session = connect(autocommit=True)
    for setting, value in request.param.items():
        assert session.execute(f"show {setting}").fetchone() == (value,)
    for kind in ("interval", "timestamptz"):
        # psycopg knows only the usual styles of what comes as a text
        session.adapters.register_loader(kind, TextLoader)
    return session


class Caller:
    """Calls functions, and notes which were called, what they warned of and what failed."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.called: set[str] = set()
        self.broken: list[str] = []
        self.noticed: list[str] = []
        session.add_notice_handler(
            lambda diagnostic: self.noticed.append(str(diagnostic.message_primary))
        )

    def __getattr__(self, function: str) -> Callable[..., Any]:
        def run(**arguments: Any) -> Any:
            self.called.add(function)
            try:
                return self.session.call(function, **arguments)
            except psycopg.Error as error:
                self.broken.append(f"{function}: {error.sqlstate} {error.diag.message_primary}")
                return []
            finally:
                self.broken += [f"{function} warns: {notice}" for notice in self.noticed]
                self.noticed.clear()

        return run


def use_idempotency_keys(
    one: Callable[..., Any], batch: Callable[..., Any], turn: int, **target: Any
) -> None:
    for _ in range(2):
        one(**target, payload=Jsonb(1), idempotency_key=f"{turn}")
        one(**target, body=b"x", key="k", idempotency_key="for ever")
        keys = ["a", "for ever", None, "a", f"{turn} in a batch"]
        batch(**target, payloads=[Jsonb(1)] * 5, keys=["k"] * 5, idempotency_keys=keys)
        batch(**target, bodies=[b"x"] * 5, idempotency_keys=[None] * 5)


def use_dead_letter_topics(pgq: Caller, clock: Clock) -> None:
    topic = {"topic": "poisoned"}
    member = {**topic, "consumer_group": "g"}
    limit = {"max_attempts": 1, "dead_letter_topic": "dead"}
    pgq.create_topic(topic="dead")
    pgq.create_topic(**topic, partitions=1)
    for _ in range(2):
        pgq.create_group(**member, **limit)
    pgq.publish_batch(**topic, payloads=[Jsonb(n) for n in range(9)])
    for _ in range(5):
        for row in pgq.poll(**member, max_messages=3)[:1]:
            held = {**member, "partition": row.partition, "lease_token": row.lease_token}
            pgq.nack_offsets(**held, error="e", delay="1 second")
            pgq.nack_offsets(**held)
        clock.advance("2 seconds")
        pgq.poll(**member, lease="1 second"), pgq.next_poll(**member)
        clock.advance("2 seconds")
        pgq.nack_offsets(**member, partition=0, first_offset=2, last_offset=3)
    pgq.consume(**member)
    pgq.alter_group(**member, no_limit=["max_attempts"])
    pgq.alter_group(**member, **limit)
    pgq.drop_topic(**topic)
    pgq.drop_topic(topic="dead")


def use_a_deferred_topic(pgq: Caller, clock: Clock) -> None:
    topic, member = {"topic": "deferred"}, {"topic": "deferred", "consumer_group": "g"}
    pgq.create_topic(**topic, partitions=2, notify=True, retention="1 hour", deferred=True)
    pgq.create_group(**member)
    for turn in range(4):
        for options in ({}, {"key": "k"}, {"partition": 1}):
            pgq.publish(**topic, payload=Jsonb(1), **options)
        pgq.publish_batch(**topic, payloads=[Jsonb(n) for n in range(9)], partition=0)
        pgq.publish_batch(**topic, bodies=[b"x"] * 9, keys=[str(n) for n in range(9)])
        pgq.publish_batch(**topic, bodies=[b"x"])
        use_idempotency_keys(pgq.publish, pgq.publish_batch, turn, **topic)
        if turn % 2 == 0:
            clock.advance("21 minutes")
            pgq.cleanup()
            pgq.repair_clock()
            pgq.publish(**topic, payload=Jsonb(1))
        pgq.assign_offsets(**topic, partition=0)
        pgq.consume(**member)
        pgq.consume(**member, partition=1)
    pgq.drop_topic(**topic)


def use_the_log(pgq: Caller, clock: Clock) -> None:
    topic = {"topic": "t"}
    member = {**topic, "consumer_group": "g"}
    pgq.create_topic(**topic, partitions=2, notify=True)
    pgq.create_topic(topic="limited", max_bytes=1000)
    pgq.alter_topic(**topic, partitions=3)
    pgq.create_topic(**topic, partitions=3, notify=True, no_limit=["max_bytes"])
    for group, rule in (("g", "error"), ("skipping", "skip")):
        for given in (rule, rule, None):
            pgq.create_group(**topic, consumer_group=group, out_of_range=given)
        pgq.alter_group(**topic, consumer_group=group, out_of_range=rule)
    for turn in range(3):
        for partition in range(3):
            pgq.publish(**topic, payload=Jsonb(1), partition=partition)
        pgq.publish(**topic, body=b"x", key="k", headers=Jsonb({"a": "b"}))
        pgq.publish(**topic, payload=Jsonb(1))
        pgq.publish_batch(**topic, payloads=[Jsonb(n) for n in range(9)])
        pgq.publish_batch(**topic, bodies=[b"x"] * 9, keys=[str(n) for n in range(9)])
        use_idempotency_keys(pgq.publish, pgq.publish_batch, turn, **topic)
        pgq.consume(**member, max_messages=2)
        pgq.claim_offsets(**member, max_messages=1, partition=turn)
        pgq.fetch(**member)
        pgq.fetch(**member, partition=0)
        for row in pgq.poll(**member, max_messages=3)[:1]:
            held = {**member, "partition": row.partition, "lease_token": row.lease_token}
            pgq.extend_poll(**held), pgq.next_poll(**member)
            pgq.commit_offset(**held, committed_offset=row.log_offset)
            pgq.release_poll(**held)
        for place, first, last, _ in pgq.list_offsets(**topic):
            where = {**topic, "partition": place, "first_offset": first, "last_offset": last}
            for read in (pgq.fetch_range, pgq.fetch_packed, pgq.check_range):
                read(**where)
        pgq.list_offsets(**topic, published_at="now"), pgq.watermark(**topic)
        pgq.seek(**member, published_at="now")
        pgq.seek(**member, start="earliest")
        pgq.seek(**member, partition=1, log_offset=2)
        clock.advance("3 days")
        for _ in range(3):
            pgq.cleanup()
    clock.advance("10 days")
    for _ in range(2):
        pgq.cleanup()
    pgq.publish(**topic, payload=Jsonb(1), partition=0)
    pgq.consume(**topic, consumer_group="skipping")
    pgq.list_topics(), pgq.list_groups()
    pgq.drop_group(**member)
    pgq.drop_topic(**topic)


def use_the_queue(pgq: Caller, clock: Clock) -> None:
    queue = {"queue": "q"}
    pgq.create_queue(**queue, max_attempts=2, backoff="0", notify=True)
    pgq.create_queue(queue="for-ever", no_limit=["job_ttl", "retention"])
    pgq.create_queue(**queue, backoff="0", no_limit=[])
    pgq.alter_queue(**queue, lease="1 minute")
    pgq.enqueue(**queue, payload=Jsonb(1), delay="1 second", label="l", key="k")
    for turn in range(8):
        pgq.enqueue(**queue, payload=Jsonb(1))
        use_idempotency_keys(pgq.enqueue, pgq.enqueue_batch, turn, **queue)
        if turn > 5:
            pgq.alter_queue(**queue, idempotency_window=f"{turn} minutes")
            pgq.cleanup()
        pgq.enqueue_batch(**queue, bodies=[b"x"] * 3, labels=["a", "b", "l"])
    ways: list[Callable[[int, Any], Any]] = [
        lambda job, token: pgq.ack(job_id=job, lease_token=token),
        lambda job, token: pgq.nack(job_id=job, lease_token=token, error="e"),
        lambda job, token: pgq.extend_lease(job_id=job, lease_token=token),
        lambda job, token: pgq.archive_job(job_id=job, lease_token=token, outcome="o"),
        lambda job, token: pgq.ack_batch(job_ids=[job], lease_token=token),
        lambda job, token: pgq.nack_batch(job_ids=[job], lease_token=token),
        lambda job, token: pgq.extend_lease_batch(job_ids=[job], lease_token=token),
        lambda job, token: pgq.archive_job_batch(job_ids=[job], lease_token=token, outcome="o"),
    ]
    for options in ({}, {"max_jobs": 8}, {"label": "l"}, {"max_jobs": 3, "label": "a"}):
        for turn, way in enumerate(ways):
            jobs = pgq.claim_job(**queue, **options)
            for number, job in enumerate(jobs):
                for once_more in (False, True, None):
                    effect = {"job_id": job[0], "lease_token": job[1], "effect": str(turn)}
                    pgq.begin_effect(**effect, at_least_once=once_more)
                    settle = pgq.delete_effect if once_more else pgq.finish_effect
                    settle(**effect)
                (way if len(jobs) == 1 else ways[(turn + number) % 8])(job[0], job[1])
            clock.advance("2 minutes")
            pgq.cleanup()
    for job_ids in ({}, {"max_jobs": 3}):
        jobs = pgq.finish_and_claim(**queue, **job_ids)
        pgq.finish_and_claim(
            **queue, job_ids=[job[0] for job in jobs], lease_token=jobs[0][1] if jobs else None
        )
    use_unique_jobs(pgq, clock)
    for letter in pgq.fetch_dead_letters(**queue, max_jobs=1):
        after = {"after_died_at": letter.died_at, "after_job_id": letter.job_id}
        pgq.fetch_dead_letters(**queue, **after), pgq.fetch_archived_jobs(**queue)
        pgq.list_errors(**queue), pgq.redrive(**queue, all_jobs=True, max_jobs=1, per_second=0.5)
        pgq.purge_queue(**queue, died_before=letter.died_at)
        pgq.purge_queue(**queue, job_id=letter.job_id)
    use_limits(pgq, clock)
    pgq.redrive(**queue, all_jobs=True), pgq.search_jobs(**queue, label="a")
    pgq.pause_queue(**queue), pgq.resume_queue(**queue)
    pgq.list_queues()
    clock.advance("20 days")
    for _ in range(3):
        pgq.cleanup()
    pgq.purge_queue(**queue, dead_only=True)
    pgq.purge_queue(**queue, all_jobs=True)
    pgq.drop_queue(**queue)


def use_limits(pgq: Caller, clock: Clock) -> None:
    queue = {"queue": "few"}
    pgq.create_queue(**queue, max_leased=3, rate_limit=100, max_unfinished=60)
    pgq.enqueue(**queue, payload=Jsonb(1))
    pgq.enqueue_batch(**queue, bodies=[b"x"] * 50)
    for _ in range(5):
        clock.advance("20 seconds")
        pgq.claim_job(**queue)
        pgq.claim_job(**queue, max_jobs=9)
    pgq.alter_queue(**queue, rate_interval="1 minute", no_limit=["max_leased"])
    clock.advance("1 minute")
    pgq.claim_job(**queue, max_jobs=9)
    pgq.alter_queue(**queue, max_leased=20)
    pgq.claim_job(**queue, max_jobs=3)
    pgq.drop_queue(**queue)
    pgq.create_queue(**queue)
    pgq.alter_queue(**queue, max_leased_per_key=1)
    for label in (None, "x"):
        pgq.enqueue_batch(**queue, payloads=[Jsonb(1)] * 9, keys=["a"] * 9, labels=[label] * 9)
        for job in pgq.claim_job(**queue, max_jobs=9):
            pgq.nack(job_id=job.job_id, lease_token=job.lease_token)
        pgq.claim_job(**queue, label="x")
        pgq.claim_job(**queue, max_jobs=9)
    pgq.alter_queue(**queue, max_leased_per_key=2)
    clock.advance("1 hour")
    pgq.claim_job(**queue)
    pgq.alter_queue(**queue, no_limit=["max_leased_per_key"])
    pgq.cleanup()
    pgq.drop_queue(**queue)


def use_unique_jobs(pgq: Caller, clock: Clock) -> None:
    for until in ("finished", "claimed", "removed"):
        queue = {"queue": until}
        pgq.create_queue(**queue, unique_until=until, max_attempts=3, backoff="0")
        for number in range(12):
            for _ in range(2):
                pgq.enqueue(**queue, payload=Jsonb(1), unique_key=f"k{number}", max_attempts=1)
            pgq.enqueue_batch(**queue, bodies=[b"x"] * 3, unique_keys=["a", None, f"k{number}"])
        for way in (pgq.ack, pgq.nack, pgq.release_job, pgq.reject_job, pgq.reject_job):
            jobs = pgq.claim_job(**queue, max_jobs=1 if way is pgq.ack else 2)
            for job in jobs:
                [show(job_id=job[0]) for show in (pgq.get_job, pgq.get_result, pgq.job_history)]
                pgq.peek_jobs(**queue, state="leased"), pgq.next_due(**queue)
                pgq.set_progress(job_id=job[0], lease_token=job[1], progress=Jsonb(1))
                way(job_id=job[0], lease_token=job[1])
        jobs = pgq.claim_job(**queue, max_jobs=3)
        pgq.release_job(job_id=jobs[1][0], lease_token=jobs[1][1], delay="1 minute")
        pgq.release_job_batch(job_ids=[job[0] for job in jobs], lease_token=jobs[0][1])
        for number, end in enumerate((pgq.cancel_job, pgq.retry_job, pgq.cancel_job)):
            end(job_id=jobs[number % 2][0])
        pgq.claim_job(**queue, max_jobs=2)
        clock.advance("1 hour")
        pgq.cleanup()
        pgq.redrive(**queue, job_id=jobs[1][0])
        for act in (pgq.redrive, pgq.retry_jobs, pgq.cancel_jobs, pgq.purge_queue):
            act(**queue, all_jobs=True)
    pgq.drop_queue(queue="removed")


def use_bulk_writes(pgq: Caller) -> None:
    pgq.create_topic(topic="bulk")
    pgq.create_queue(queue="bulk")
    chunk = {"task_attempt": "a", "chunk": 0, "lengths": [1, 1]}
    for target in ({"topic": "bulk"}, {"queue": "bulk"}):
        for atomic in (True, False):
            begun = pgq.begin_write(
                **target, atomic=atomic, producer="p", seq=int(atomic), timeout=timedelta(days=9)
            )
            for task, more in enumerate(
                (
                    {"packed_bodies": b"12"},
                    {"packed_payloads": b"12"},
                    {"packed_bodies": b"12", "keys": ["a", "b"]},
                )
            ):
                pgq.write_chunk(
                    write_id=begun.write_id, task=task, last_chunk=True, **chunk, **more
                )
            pgq.commit_write(write_id=begun.write_id)
        begun = pgq.begin_write(**target)
        pgq.write_chunk(
            write_id=begun.write_id, task=0, **chunk, starts=[1, 2], packed_bodies=b"12"
        )
        pgq.abort_write(write_id=begun.write_id)
    pgq.cleanup()


def use_schedules(pgq: Caller, clock: Clock) -> None:
    pgq.create_topic(topic="ticks", partitions=2)
    pgq.create_queue(queue="ticks")
    daily = {"schedule": "daily", "queue": "ticks", "payload": Jsonb(1), "label": "l"}
    hourly = {"schedule": "hourly", "topic": "ticks", "body": b"x", "headers": Jsonb({"a": 1})}
    for cron in ("@daily", "*/5 8-18/2 1,15 JAN-MAR FRI-SUN"):
        pgq.next_ticks(cron=cron, time_zone="Europe/Berlin", after="2026-10-24 23:59+00")
    pgq.next_ticks(cron="30 * * * *", time_zone="Europe/Berlin", after="2026-10-25 00:10+00")
    for _ in range(2):
        pgq.create_schedule(**daily, cron="30 2 * * *", time_zone="Europe/Berlin")
        pgq.create_schedule(**hourly, every="1 hour", missed="all")
    pgq.create_schedule(schedule="lost", queue="ticks", payload=Jsonb(1), every="1 hour")
    pgq.alter_schedule(schedule="lost", topic="ticks", partition=1, cron="@hourly", missed="skip")
    clock.advance("3 days")
    pgq.run_schedules()
    pgq.run_schedules(max_ticks=1), pgq.next_run()
    for verb in ("pause", "resume", "drop"):
        getattr(pgq, f"{verb}_schedule")(schedule="daily")
    pgq.drop_topic(topic="ticks")
    clock.advance("1 day")
    pgq.run_schedules()
    pgq.list_schedules(schedule="hourly")
    for worker in ("a", "b"):
        pgq.heartbeat(worker=worker, sources=["ticks"])
    [read() for read in (pgq.list_workers, pgq.metrics, pgq.metrics_text)]
    _ = pgq.list_cleanup_failures(), pgq.delete_worker(worker="a")


def use_subscriptions(pgq: Caller, clock: Clock) -> None:
    pgq.create_topic(topic="parcels", partitions=2, retention="9 hours", notify=True)
    for queue in ("mails", "bills"):
        pgq.create_queue(queue=queue, notify=True, job_ttl="40 hours", retention="40 hours")
    filtered = {"filter": Jsonb({"h": ["v"]}), "routing_key": "a.*.#.b"}
    for _ in range(2):
        pgq.subscribe(subscription="mails", topic="parcels", queue="mails", **filtered)
        pgq.subscribe(subscription="bills", topic="parcels", queue="bills")
    headers = Jsonb({"h": "v", "routing_key": "a.x.b"})
    for _ in range(2):
        pgq.publish(topic="parcels", payload=Jsonb(1), headers=headers)
        pgq.publish_batch(
            topic="parcels", payloads=[Jsonb(n) for n in range(150)], headers=[headers, None] * 75
        )
        pgq.claim_job(queue="mails", max_jobs=9)
    pgq.list_subscriptions()
    for _ in range(12):
        clock.advance("4 hours")
        pgq.cleanup()
    pgq.unsubscribe(subscription="mails")
    pgq.drop_queue(queue="bills")
    pgq.purge_queue(queue="mails", all_jobs=True)
    pgq.cleanup()


def test_every_call(strict: Session, connection: Session, clock: Clock) -> None:
    """Neither an error nor a warning comes from any of them."""
    pgq = Caller(strict)
    pgq.version()
    use_bulk_writes(pgq)
    use_a_deferred_topic(pgq, clock)
    use_the_log(pgq, clock)
    use_dead_letter_topics(pgq, clock)
    use_the_queue(pgq, clock)
    use_schedules(pgq, clock)
    use_subscriptions(pgq, clock)
    use_access(pgq)
    use_pg_cron(pgq)
    rows = connection.execute(
        "select proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        " and not starts_with(proname, '_')"
    ).fetchall()
    refuse(dict.fromkeys(pgq.broken))
    assert {name for (name,) in rows} - pgq.called == set()
    for view in ("group_lag", "topic_stats", "queue_stats", "messages", "archived_jobs", "effects"):
        strict.execute(f"select * from pgq.{view}")
