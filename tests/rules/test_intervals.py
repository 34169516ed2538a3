"""Lengths of time: those that go back and forth are refused, wherever one can be given.

Their length depends on the day that they are added to, so that a comparison says nothing: a year
back and 360 days ahead equals zero and is five days less than nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.house import refuse
from support.queue import claim, claim_one, enqueue
from support.session import Session, refused, unchanged

MIXED = [
    "-12 months 360 days",
    "12 months -360 days",
    "1 day -1 hour",
    "-1 day 25 hours",
    "1 month -1 day",
    "-1 month 31 days",
    "1 month 1 day -1 microsecond",
]


def arguments(connection: Session) -> dict[tuple[str, str], dict[str, Any]]:
    """For each function and each of its lengths of time, what else makes a call that succeeds."""
    connection.create_topic(topic="t", partitions=1)
    connection.create_group(topic="t", consumer_group="g")
    connection.publish(topic="t", payload=Jsonb(1))
    connection.create_queue(queue="q", backoff_jitter=0, delay="0")
    lent = {"topic": "t", "consumer_group": "g", "partition": 0}
    token = connection.execute("select lease_token from pgq.poll('t', 'g')").fetchone()
    assert token is not None
    enqueue(connection, "q", 1)
    job = claim_one(connection, "q")
    enqueue(connection, "q", 2)
    single = {"job_id": job.job_id, "lease_token": job.lease_token}
    batch = {"job_ids": [job.job_id], "lease_token": job.lease_token}
    write_id = connection.begin_write(queue="q").write_id
    chunk = {
        "write_id": write_id,
        "task": 0,
        "task_attempt": "a",
        "chunk": 0,
        "lengths": [1],
        "packed_bodies": b"x",
    }
    found: dict[tuple[str, str], dict[str, Any]] = {
        ("create_topic", "retention"): {"topic": "new"},
        ("alter_topic", "retention"): {"topic": "t"},
        ("create_topic", "idempotency_window"): {"topic": "other"},
        ("alter_topic", "idempotency_window"): {"topic": "t"},
        ("poll", "lease"): {"topic": "t", "consumer_group": "g"},
        ("extend_poll", "lease"): {**lent, "lease_token": token[0]},
        ("nack_offsets", "delay"): {**lent, "lease_token": token[0]},
        ("enqueue", "delay"): {"queue": "q", "payload": Jsonb(1)},
        ("enqueue_batch", "delay"): {"queue": "q", "payloads": [Jsonb(1)]},
        ("claim_job", "lease"): {"queue": "q"},
        ("finish_and_claim", "lease"): {"queue": "q"},
        ("extend_lease", "lease"): single,
        ("extend_lease_batch", "lease"): batch,
        ("nack", "delay"): single,
        ("nack_batch", "delay"): batch,
        ("release_job", "delay"): single,
        ("begin_write", "timeout"): {"queue": "q"},
        ("write_chunk", "delay"): chunk,
        ("list_workers", "seen_within"): {},
        ("heartbeat", "beat"): {"worker": "w"},
        ("repair_clock", "longest_lease"): {},
    }
    connection.create_schedule(schedule="s", queue="q", payload=Jsonb(1), every="1 hour")
    found["create_schedule", "every"] = {"schedule": "new", "queue": "q", "payload": Jsonb(1)}
    found["alter_schedule", "every"] = {"schedule": "s"}
    for name in (
        *("lease", "delay", "job_ttl", "retention", "backoff", "backoff_max"),
        "idempotency_window",
    ):
        found["create_queue", name] = {"queue": "new"}
        found["alter_queue", name] = {"queue": "q"}
    debounced = {"unique_until": "claimed", "on_duplicate": "postpone"}
    connection.create_queue(queue="debounced", **debounced)
    found["create_queue", "debounce_max"] = {"queue": "new", **debounced}
    found["alter_queue", "debounce_max"] = {"queue": "debounced"}
    found["create_queue", "rate_interval"] = {"queue": "new", "rate_limit": 1}
    found["alter_queue", "rate_interval"] = {"queue": "q", "rate_limit": 1}
    return found


def test_every_length_of_time_is_among_these(connection: Session) -> None:
    """A new argument that is an interval has to be added to these tests."""
    rows = connection.execute(
        "select p.proname, a.name from pg_proc as p"
        " cross join unnest(p.proargtypes::oid[], p.proargnames) as a (type, name)"
        " where p.pronamespace = 'pgq'::regnamespace and not starts_with(p.proname, '_')"
        " and a.type = 'interval'::regtype"
    ).fetchall()
    assert set(rows) == set(arguments(connection))


@pytest.mark.parametrize("length", MIXED)
def test_mixed_signs_are_refused(connection: Session, length: str) -> None:
    """With 22023, and nothing is changed."""
    accepted = []
    for (function, name), others in arguments(connection).items():
        try:
            with unchanged(connection):
                refused("22023", connection.call, function, **others, **{name: length})
        except BaseException as error:
            accepted.append(f"{function}({name}): {str(error).splitlines()[0]}")
    refuse(accepted)


def test_one_sign_is_accepted(connection: Session) -> None:
    """Months, days and hours together, all of them ahead."""
    for (function, name), others in arguments(connection).items():
        # a delay is shorter than a job lives, and a schedule has no months
        length = "1 day 3 hours" if name in ("delay", "every") else "1 month 2 days 3 hours"
        if function == "create_queue":
            others["queue"] = f"new-{name}"
        connection.call(function, **others, **{name: length})


def test_hours_and_days_agree(connection: Session) -> None:
    """What exists with 36 hours is found by a day and 12 hours, as Python says it, and back."""
    same = ("36 hours", "1 day 12 hours", timedelta(hours=36), "2160 minutes")
    found = []
    for number, ((function, name), others) in enumerate(arguments(connection).items()):
        if not function.startswith("create_"):
            continue
        for first in same:
            names = {
                **others,
                function.removeprefix("create_"): f"{name}-{number}-{same.index(first)}",
            }
            made = connection.call(function, **names, **{name: first})
            for again in same:
                assert connection.call(function, **names, **{name: again}) == made
            refused("MQ005", connection.call, function, **names, **{name: "1 day 11:59:59"})
        found.append(name)
    assert len(found) == 12


@pytest.mark.parametrize(("has", "given"), [("30 days", "1 month"), ("1 month", "30 days")])
def test_a_month_does_not_agree_with_thirty_days(connection: Session, has: str, given: str) -> None:
    """They are two settings: one of them is longer, most of the time."""
    connection.create_topic(topic="t", retention=has)
    connection.create_queue(queue="q", retention=has)
    refused("MQ005", connection.create_topic, topic="t", retention=given)
    refused("MQ005", connection.create_queue, queue="q", retention=given)


@pytest.mark.parametrize("other", ["1 mon", "30 days 00:00:00.000001", "4 weeks 2 days"])
def test_a_month_is_not_thirty_days(connection: Session, other: str) -> None:
    """Each topic keeps what it was promised, a month or thirty days; equal lengths share."""
    connection.create_topic(topic="days", retention="30 days")
    connection.create_topic(topic="other", retention=other)
    rows = connection.execute(
        "select topic, retention::text from pgq.list_topics() order by topic"
    ).fetchall()
    [text] = connection.execute("select %s::interval::text", [other]).fetchall()
    assert rows == [("days", "30 days"), ("other", *text)]
    [(open_segments,)] = connection.execute("select count(*) from pgq.segment").fetchall()
    assert open_segments == (1 if other == "4 weeks 2 days" else 2)


def test_a_month_is_not_thirty_days_for_queues(connection: Session) -> None:
    """Nor when a queue is altered from one to the other."""
    connection.create_queue(queue="days", retention="30 days")
    connection.create_queue(queue="month", retention="1 year")
    connection.alter_queue(queue="month", retention="1 month")
    for queue in ("days", "month"):
        enqueue(connection, queue, queue)
    [(leaves,)] = connection.execute(
        "select count(distinct segment) from pgq.message where partition_id > 0"
    ).fetchall()
    assert leaves == 2
    assert [job.payload for job in claim(connection, "month", 9)] == ["month"]
