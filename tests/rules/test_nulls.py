"""Null means the default, for every argument that may be left out; the others refuse it.

A new function has to be added here, by what makes a call of it that succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from support.databases import Databases
from support.house import refuse
from support.session import Session

Arguments = dict[str, Any]

TOPIC: Arguments = {"topic": "t"}
GROUP: Arguments = {"topic": "t", "consumer_group": "g"}
PLACE: Arguments = {**GROUP, "partition": 0}
RANGE: Arguments = {"topic": "t", "partition": 0, "first_offset": 1, "last_offset": 2}
QUEUE: Arguments = {"queue": "q"}
SCHEDULE: Arguments = {"schedule": "s"}

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
    "archive_job": {"job_id": "$job", "lease_token": "$job_token"},
    "archive_job_batch": {"job_ids": "$jobs", "lease_token": "$job_token"},
    "begin_write": TOPIC,
    "check_range": RANGE,
    "claim_job": QUEUE,
    "claim_offsets": GROUP,
    "commit_offset": {**PLACE, "last_offset": 1},
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
    "fetch_range": RANGE,
    "finish_and_claim": QUEUE,
    "list_groups": {},
    "list_offsets": TOPIC,
    "list_schedules": {},
    "nack": {"job_id": "$job", "lease_token": "$job_token"},
    "nack_batch": {"job_ids": "$jobs", "lease_token": "$job_token"},
    "next_ticks": {"cron": "@daily"},
    "pause_queue": QUEUE,
    "pause_schedule": SCHEDULE,
    "poll": GROUP,
    "publish": {**TOPIC, "payload": Jsonb(1)},
    "publish_batch": {**TOPIC, "payloads": [Jsonb(1), Jsonb(2)]},
    "purge_queue": {**QUEUE, "all_jobs": True},
    "redrive": {**QUEUE, "all_jobs": True},
    "release_poll": {**PLACE, "consumer_group": "leased", "lease_token": "$poll_token"},
    "resume_queue": QUEUE,
    "resume_schedule": SCHEDULE,
    "run_schedules": {},
    "seek": {**GROUP, "start": "latest"},
    "write_chunk": {
        "write_id": "$write",
        "task": 0,
        "task_attempt": "a",
        "chunk": 0,
        "lengths": [1, 1],
        "packed_payloads": b"12",
    },
}

SIGNATURES = """
    select p.proname, p.proargnames[:p.pronargs], p.pronargs - p.pronargdefaults
    from pg_proc as p
    where p.pronamespace = 'pgq'::regnamespace
        and p.proname !~ '^_'
        and p.pronargs > 0
"""


@pytest.fixture(scope="module")
def session(databases: Databases) -> Iterator[Session]:
    """A database in which the clock stands still, with something of all that there is."""
    with (
        databases.copy("nulls") as dsn,
        Session.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(
            "create or replace function pgq._clock() returns timestamptz language sql volatile"
            " parallel safe as $$ select '2030-01-01 00:00+00'::timestamptz $$"
        )
        yield connection


@pytest.fixture(scope="module")
def known(session: Session) -> Arguments:
    """What the calls name."""
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
    jobs = session.claim_job(queue="q", max_jobs=2, lease="1 second")
    write = session.begin_write(topic="t")
    session.create_schedule(
        schedule="s",
        queue="q",
        payload=Jsonb(1),
        every="1 second",
        missed="all",
        starts_at="2029-12-31 23:00+00",
    )
    return {
        "$poll_token": leased[0],
        "$job": jobs[0][0],
        "$jobs": [job[0] for job in jobs],
        "$job_token": jobs[0][1],
        "$write": write[0],
    }


def given(function: str, known: Arguments) -> Arguments:
    """The arguments of a call that succeeds."""
    return {
        name: known.get(value, value) if isinstance(value, str) else value
        for name, value in GIVEN[function].items()
    }


def signature(session: Session, function: str) -> tuple[list[str], list[str]]:
    """The names of the arguments that are required, and of those that are not."""
    [(_, names, required)] = session.execute(
        f"{SIGNATURES} and p.proname = %s", [function]
    ).fetchall()
    return names[:required], names[required:]


# ----------------------------------------------------------------------------- two calls compared


@contextmanager
def rolled_back(session: Session, level: str) -> Iterator[None]:
    """A transaction that leaves nothing behind, not even in the sequences."""
    numbers = session.execute(
        "select format('pgq.%I', sequencename), last_value from pg_sequences"
        " where schemaname = 'pgq'"
    ).fetchall()
    with session.transaction(force_rollback=True):
        session.execute(f"set transaction isolation level {level}".encode())
        yield
    for name, last in numbers:
        session.execute("select setval(%s, %s, %s)", [name, last or 1, last is not None])


def stored(session: Session) -> dict[str, list[str]]:
    """All rows of all tables, but for what is drawn by lot, and numbers of transactions."""
    columns = session.execute(
        "select c.relname, array_agg(quote_ident(a.attname))"
        " from pg_class as c inner join pg_attribute as a on a.attrelid = c.oid"
        " where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and a.attnum > 0"
        " and not a.attisdropped and a.atttypid not in ('uuid'::regtype, 'xid8'::regtype)"
        " group by c.relname order by c.relname"
    ).fetchall()
    found = {}
    for table, names in columns:
        rows = session.execute(
            f"select row({', '.join(names)})::text from pgq.{table} order by 1".encode()
        ).fetchall()
        found[table] = [text for (text,) in rows]
    return found


def outcome(session: Session, level: str, function: str, arguments: Arguments) -> Any:
    """What a call answers and leaves behind, or its error; it is rolled back."""
    with rolled_back(session, level):
        try:
            with session.transaction():
                answer = session.call(function, **arguments)
        except psycopg.Error as error:
            return error.sqlstate
        if not isinstance(answer, list):
            answer = [answer if isinstance(answer, tuple) else (answer,)]
        told = [[None if isinstance(value, UUID) else value for value in row] for row in answer]
        return told, stored(session)


@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
@pytest.mark.parametrize("function", GIVEN)
def test_null_is_the_default(session: Session, known: Arguments, function: str, level: str) -> None:
    """All that may be left out given as null is the same call as without it."""
    arguments = given(function, known)
    _, optional = signature(session, function)
    nulls = dict.fromkeys(name for name in optional if name not in arguments)
    expected = outcome(session, level, function, arguments)
    if level == "read committed":
        assert not isinstance(expected, str), expected
    assert outcome(session, level, function, {**arguments, **nulls}) == expected


@pytest.mark.parametrize("function", GIVEN)
def test_null_for_what_is_required(session: Session, known: Arguments, function: str) -> None:
    """It is refused as such, never taken for nothing or for everything."""
    arguments = given(function, known)
    required, _ = signature(session, function)
    found = {
        name: outcome(session, "read committed", function, {**arguments, name: None})
        for name in required
    }
    refuse(f"{function}({name} => null): {told}" for name, told in found.items() if told != "22004")


def test_every_function_is_among_these(session: Session) -> None:
    """With what it requires."""
    rows = session.execute(SIGNATURES).fetchall()
    assert {name for name, _, _ in rows} == GIVEN.keys()
    refuse(
        f"{function}: {name}"
        for function, names, required in rows
        for name in names[:required]
        if name not in GIVEN[function]
    )
