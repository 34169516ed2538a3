"""The asynchronous client: subscriptions, schedules, keys, order, limits, offsets and effects."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from pgq import (
    AlreadyExists,
    AsyncClient,
    DeadLetter,
    Effect,
    EffectInterrupted,
    EffectState,
    EnqueueResult,
    Group,
    GroupLag,
    JobInfo,
    LeasedMessage,
    LeaseLost,
    Message,
    OffsetOutOfRange,
    OffsetRange,
    PublishBatchResult,
    PublishResult,
    Queue,
    QueueFull,
    QueueStats,
    Schedule,
    ScheduleRun,
    Subscription,
    UnknownSchedule,
    UnknownSubscription,
)
from support.clock import Clock
from support.tasks import with_client

MAY = datetime(2026, 5, 1, 12, 0, 30, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def test_subscriptions(dsn: str) -> None:
    async def tour(client: AsyncClient) -> None:
        await client.admin.create_topic("parcels", partitions=1)
        await client.admin.create_queue("mail")
        wanted = {"status": ["processed", "shipped"]}
        made = await client.admin.subscribe(
            "s", "parcels", "mail", filter=wanted, routing_key="a.#"
        )
        assert made == Subscription(
            "s", "parcels", "mail", wanted, "a.#", made.created_at, made.made_by
        )
        assert await client.admin.subscribe("s", "parcels", "mail", filter=wanted) == made
        assert await client.admin.list_subscriptions() == [made]
        with pytest.raises(AlreadyExists):
            await client.admin.subscribe("s", "parcels", "mail", routing_key="b")
        for status in ("new", "shipped"):
            headers = {"status": status, "routing_key": "a.b"}
            await client.publish("parcels", status, headers=headers)
        [job] = await client.claim_job("mail", max_jobs=5)
        assert (job.payload, job.headers) == ("shipped", headers)
        await client.admin.unsubscribe("s")
        assert await client.admin.list_subscriptions() == []
        await client.publish("parcels", "later", headers=headers)
        assert await client.claim_job("mail") == []
        with pytest.raises(UnknownSubscription):
            await client.admin.unsubscribe("s")

    with_client(dsn, tour)


def test_schedules(dsn: str, clock: Clock) -> None:
    clock.set_to(MAY.isoformat())

    async def tour(client: AsyncClient) -> None:
        await client.admin.create_queue("mail")
        await client.admin.create_topic("events", partitions=1)
        made = await client.schedules.create_schedule(
            "s", queue="mail", payload={"a": 1}, every=HOUR, headers={"b": 2}, label="l"
        )
        assert isinstance(made, Schedule)
        assert (made.queue, made.every, made.next_at) == ("mail", HOUR, MAY + HOUR)
        assert await client.schedules.create_schedule("s", queue="mail", payload={"a": 1}) == made
        assert (
            await client.schedules.list_schedules()
            == await client.schedules.list_schedules("s")
            == [made]
        )

        clock.advance("1 hour")
        [run] = await client.schedules.run_schedules()
        assert run == ScheduleRun("s", MAY + HOUR, run.job_id, None, None, None)
        [job] = await client.claim_job("mail", label="l")
        assert (job.job_id, job.payload, (job.headers or {})["b"]) == (run.job_id, {"a": 1}, 2)

        assert (await client.schedules.pause_schedule("s")).paused is True
        clock.advance("3 hours")
        assert await client.schedules.run_schedules() == []
        resumed = await client.schedules.resume_schedule("s")
        assert (resumed.paused, resumed.last_at) == (False, MAY + HOUR)
        assert [run.tick_at for run in await client.schedules.run_schedules()] == [MAY + 4 * HOUR]

        altered = await client.schedules.alter_schedule(
            "s", topic="events", cron="@hourly", missed="all"
        )
        assert (altered.queue, altered.topic, altered.every) == (None, "events", None)
        ticks = await client.schedules.next_ticks("@hourly", after=MAY + 4 * HOUR, max_ticks=2)
        assert ticks[1] - ticks[0] == HOUR
        [evening] = await client.schedules.next_ticks(
            "0 22 * * *", time_zone="Asia/Tokyo", after=MAY + 48 * HOUR, max_ticks=1
        )
        assert evening == datetime(2026, 5, 3, 13, tzinfo=timezone.utc)
        clock.advance("2 hours")
        [first] = await client.schedules.run_schedules(max_ticks=1)
        [second] = await client.schedules.run_schedules()
        assert [first, second] == [
            ScheduleRun("s", tick, None, 0, offset, None) for offset, tick in enumerate(ticks, 1)
        ]
        await client.schedules.drop_schedule("s")
        assert await client.schedules.list_schedules() == []
        with pytest.raises(UnknownSchedule):
            await client.schedules.drop_schedule("s")

    with_client(dsn, tour)


def test_a_schedule_whose_target_is_gone(dsn: str, clock: Clock) -> None:
    clock.set_to(MAY.isoformat())

    async def tour(client: AsyncClient) -> None:
        await client.admin.create_queue("mail")
        await client.schedules.create_schedule("s", queue="mail", payload=1, every=HOUR)
        await client.admin.drop_queue("mail")
        clock.advance("1 hour")
        [run] = await client.schedules.run_schedules()
        assert (run.job_id, run.tick_at) == (None, MAY + HOUR)
        [listed] = await client.schedules.list_schedules()
        assert run.error is not None
        assert listed.last_error == run.error

    with_client(dsn, tour)


def test_keys(dsn: str) -> None:
    async def tour(client: AsyncClient) -> None:
        await client.admin.create_queue("mail", idempotency_window=HOUR, unique_until="claimed")
        first = await client.enqueue("mail", 1, idempotency_key="a")
        assert await client.enqueue("mail", 2, idempotency_key="a") == EnqueueResult(
            first.job_id, True
        )
        second, again = await client.enqueue_batch("mail", [3, 4], idempotency_keys=["b", "a"])
        assert (second.duplicate, again) == (False, EnqueueResult(first.job_id, True))

        unique = await client.enqueue("mail", 5, unique_key="u")
        results = await client.enqueue_batch("mail", [6, 7], unique_keys=["u", None])
        assert [result.duplicate for result in results] == [True, False]
        assert results[0].job_id == unique.job_id
        found = await client.get_job(unique.job_id)
        assert isinstance(found, JobInfo)
        assert (found.state, found.unique_key, found.payload) == ("ready", "u", 5)
        assert [job.payload for job in await client.claim_job("mail", max_jobs=9)] == [1, 3, 5, 7]
        assert not (await client.enqueue("mail", 8, unique_key="u")).duplicate

        await client.admin.create_topic("events", partitions=1)
        place = PublishResult(0, 1, False)
        assert await client.publish("events", 1, idempotency_key="a") == place
        assert await client.publish("events", 2, idempotency_key="a") == PublishResult(0, 1, True)
        assert await client.publish_batch("events", [3, 4], idempotency_keys=["a", "b"]) == [
            PublishBatchResult(0, 1, 1, True),
            PublishBatchResult(0, 2, 2, False),
        ]

    with_client(dsn, tour)


def test_an_ordered_queue(dsn: str) -> None:
    async def tour(client: AsyncClient) -> None:
        made = await client.admin.create_queue(
            "mail", ordered=True, after_dead_letter="stop", max_attempts=1
        )
        assert isinstance(made, Queue)
        assert (made.ordered, made.after_dead_letter) == (True, "stop")
        await client.enqueue_batch("mail", [1, 2, 3], keys=["k", "k", None])
        first, other = await client.claim_job("mail", max_jobs=9)
        assert (first.payload, other.payload) == (1, 3)
        [stats] = await client.monitor.queue_stats("mail")
        assert isinstance(stats, QueueStats)
        assert (stats.leased, stats.waiting) == (2, 1)
        assert await client.nack(first.job_id, first.lease_token, error="no")
        assert await client.claim_job("mail") == []
        [letter] = await client.jobs.dead_letters("mail")
        assert isinstance(letter, DeadLetter)
        assert (letter.job_id, letter.last_error, letter.stops_key) == (first.job_id, "no", True)
        assert await client.jobs.fetch_dead_letters("mail") == [letter]
        assert (await client.jobs.redrive("mail", job_id=first.job_id)).taken == 1
        for payload in (1, 2):
            [job] = await client.claim_job("mail", max_jobs=9)
            assert job.payload == payload
            assert await client.ack(job.job_id, job.lease_token)

    with_client(dsn, tour)


def test_limits(dsn: str) -> None:
    limits: dict[str, Any] = {
        "max_leased": 3,
        "rate_limit": 100,
        "rate_interval": HOUR,
        "rate_burst": 50,
        "max_unfinished": 5,
        "max_leased_per_key": 1,
    }

    async def tour(client: AsyncClient) -> None:
        made = await client.admin.create_queue("mail", **limits)
        assert {name: getattr(made, name) for name in limits} == limits
        assert await client.admin.list_queues() == [made]
        await client.enqueue_batch("mail", [1, 2, 3, 4, 5], keys=["a", "a", None, None, None])
        with pytest.raises(QueueFull):
            await client.enqueue("mail", 6)
        jobs = await client.claim_job("mail", max_jobs=9)
        assert [job.payload for job in jobs] == [1, 3, 4]
        [stats] = await client.monitor.queue_stats("mail")
        assert (stats.held_by, stats.is_full, stats.waiting) == ("max_leased", True, 1)

        altered = await client.admin.alter_queue(
            "mail", max_leased_per_key=2, no_limit=["max_leased"]
        )
        assert (altered.max_leased, altered.max_leased_per_key) == (None, 2)
        rest = await client.claim_job("mail", max_jobs=9)
        assert sorted(job.payload for job in rest) == [2, 5]
        with pytest.raises(QueueFull):
            await client.enqueue("mail", 6)
        await client.admin.alter_queue("mail", no_limit=["max_unfinished"])
        assert not (await client.enqueue("mail", 6)).duplicate

    with_client(dsn, tour)


def test_messages_that_fail(dsn: str) -> None:
    async def tour(client: AsyncClient) -> None:
        for topic in ("events", "dead"):
            await client.admin.create_topic(topic, partitions=1)
        group = await client.admin.create_group(
            "events", "g", max_attempts=3, dead_letter_topic="dead"
        )
        assert isinstance(group, Group)
        assert (group.max_attempts, group.dead_letter_topic) == (3, "dead")
        await client.publish_batch("events", [1, 2], keys=["a", "b"])

        [leased] = await client.poll("events", "g", max_messages=1)
        assert isinstance(leased, LeasedMessage)
        assert leased.attempt == 1
        place = ("events", "g", leased.partition)
        stranger = UUID(int=0)
        assert await client.nack_offsets(*place, lease_token=stranger) is False
        assert await client.nack_offsets(*place, lease_token=leased.lease_token, error="no")
        [lag] = await client.monitor.group_lag("events", "g")
        assert isinstance(lag, GroupLag)
        assert (lag.committed_offset, lag.attempt, lag.last_error) == (0, 1, "no")

        # what a transaction has read is named by its offsets, when it was rolled back
        async with client.connection.transaction(force_rollback=True):
            [message] = await client.consume("events", "g", max_messages=1)
        assert isinstance(message, Message)
        with pytest.raises(OffsetOutOfRange):
            await client.nack_offsets(*place, first_offset=1, last_offset=9)
        assert await client.nack_offsets(*place, first_offset=1, last_offset=1, delay=HOUR)
        assert await client.poll("events", "g") == []
        await client.admin.seek("events", "g", partition=0, log_offset=1)
        for _ in range(3):
            [leased] = await client.poll("events", "g", max_messages=1)
            assert await client.nack_offsets(*place, lease_token=leased.lease_token, error="never")
        [leased] = await client.poll("events", "g")
        assert leased.payload == 2
        [letter] = await client.bulk.fetch_range("dead", 0, 1, 1)
        assert (letter.payload, letter.key) == (1, "a")
        assert (letter.headers or {})["pgq_error"] == "never"

    with_client(dsn, tour)


def test_offsets_that_come_later(dsn: str) -> None:
    async def tour(client: AsyncClient) -> None:
        assert (await client.admin.create_topic("events", partitions=2, deferred=True)).deferred
        where = PublishResult(1, None, False)
        assert await client.publish("events", 1, partition=1) == where
        assert await client.publish_batch("events", [2, 3], partition=1) == [
            PublishBatchResult(1, None, None, False)
        ]
        assert await client.bulk.assign_offsets("events", 0) == []
        [given] = await client.bulk.assign_offsets("events")
        assert (given, len(given)) == (OffsetRange(1, 1, 3), 3)
        assert [m.payload for m in await client.bulk.fetch_range("events", 1, 1, 3)] == [1, 2, 3]
        assert await client.bulk.assign_offsets("events", partition=1) == []

    with_client(dsn, tour)


def test_effects(dsn: str, clock: Clock) -> None:
    async def tour(client: AsyncClient) -> None:
        await client.admin.create_queue("mail", backoff=timedelta(0))
        await client.enqueue("mail", 1)
        [job] = await client.claim_job("mail")
        place = (job.job_id, job.lease_token, "mail")
        begun = await client.begin_effect(*place)
        assert begun == EffectState("begun", None, 1, begun.begun_at)
        assert (await client.begin_effect(*place)).state == "interrupted"
        assert await client.jobs.effects("mail") == [
            Effect("mail", *place[::2], "begun", None, 1, begun.begun_at, None, job.lease_token)
        ]
        assert await client.finish_effect(job.job_id, UUID(int=0), "mail") is False
        assert await client.jobs.delete_effect(*place) is True
        assert await client.jobs.delete_effect(*place) is False
        assert await client.jobs.effects() == []

        calls: list[int] = []

        async def send() -> list[int]:
            await asyncio.sleep(0)
            calls.append(len(calls))
            if len(calls) == 1:
                raise OSError("timeout")
            return calls

        with pytest.raises(OSError, match="timeout"):
            await client.run_once(job, "mail", send)
        assert await client.nack(job.job_id, job.lease_token)
        [job] = await client.claim_job("mail")
        with pytest.raises(EffectInterrupted) as caught:
            await client.run_once(job, "mail", send)
        assert (caught.value.job_id, caught.value.attempt) == (job.job_id, 1)
        assert await client.run_once(job, "mail", send, at_least_once=True) == [0, 1]
        assert await client.run_once(job, "mail", send) == [0, 1]
        assert await client.finish_effect(job.job_id, job.lease_token, "mail", result=2) is True
        [effect] = await client.jobs.effects("mail")
        assert (effect.state, effect.result, effect.attempt) == ("finished", [0, 1], 2)
        clock.advance("1 minute")
        with pytest.raises(LeaseLost):
            await client.run_once(job, "other", send)
        assert calls == [0, 1]

    with_client(dsn, tour)
