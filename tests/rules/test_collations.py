"""A text may come with any collation of its own, as that of a column of the caller's.

PL/pgSQL gives the collation of a call to all texts of the function. It must never meet the one of
a column of pgq, nor decide what is equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from support.calls import GIVEN, Arguments, given, prepare
from support.databases import Databases
from support.house import refuse
from support.session import Session, row

# For each argument that is a text, or an array of texts, one that all functions take with the
# others of their call; of those that only some take, see below.
TEXTS: dict[str, Any] = {
    "digest": "d",
    "error": "e",
    "error_contains": "e",
    "idempotency_key": "i",
    "idempotency_keys": ["i", "j"],
    "key": "k",
    "keys": ["k", "l"],
    "label": "l",
    "labels": ["l", "m"],
    "no_limit": ["retention"],
    "on_duplicate": "replace",
    "out_of_range": "skip",
    "outcome": "done",
    "routing_key": "a.*",
    "unique_key": "k",
    "unique_keys": ["k", "l"],
    "unique_until": "claimed",
    "after_dead_letter": "stop",
    "host": "h",
    "kind": "consumer",
    "sources": ["a", "b"],
    "state": "ready",
    "worker": "w",
}

MINUTELY: Arguments = {"schedule": "* * * * *"}

DAILY: Arguments = {"cron": "@daily", "time_zone": "UTC"}

FILTER: Arguments = {"key": "k", "label": "l", "error_contains": "e"}

LIMIT: Arguments = {"max_attempts": 2, "dead_letter_topic": "other"}

# Calls of other texts, or with more than one of them.
MORE: list[tuple[str, Arguments]] = [
    ("alter_group", {"topic": "t", "consumer_group": "g", **LIMIT}),
    ("alter_schedule", {"schedule": "s", "queue": "q"}),
    ("alter_schedule", {"schedule": "s", "topic": "t", "missed": "one", **DAILY}),
    ("begin_write", {"queue": "q"}),
    ("delete_worker", {"worker": "w", "role": "r"}),
    ("schedule_cleanup", MINUTELY),
    ("begin_write", {"topic": "t", "producer": "p", "seq": 1}),
    ("begin_write", {"topic": "t", "owner": "o", "seq": 1}),
    ("abort_write", {"owner": "o", "seq": 1}),
    ("begin_write", {"topic": "t", "producer": "p", "seq": 1, "atomic": False}),
    ("create_group", {"topic": "t", "consumer_group": "new", "start": "latest"}),
    ("create_group", {"topic": "t", "consumer_group": "g", "out_of_range": "error"}),
    ("create_group", {"topic": "t", "consumer_group": "new", **LIMIT}),
    ("create_group", {"topic": "t", "consumer_group": "limited", **LIMIT}),
    ("create_queue", {"queue": "q", "lease": "1 minute"}),
    (
        "create_schedule",
        {"schedule": "new", "topic": "t", "payload": Jsonb(1), "missed": "all", **DAILY},
    ),
    ("create_topic", {"topic": "t", "partitions": 1}),
    ("grant_access", {"role": "public", "access": "consume", "queue": "q"}),
    ("list_access", {"topic": "t"}),
    ("list_access", {"queue": "q"}),
    ("list_groups", {"topic": "t"}),
    ("list_schedules", {"schedule": "s"}),
    ("next_ticks", DAILY),
    ("revoke_access", {"role": "public", "access": "consume", "queue": "q"}),
    ("subscribe", {"subscription": "b", "topic": "t", "queue": "followers"}),
    ("search_jobs", {"queue": "ordered", "state": "ready", **FILTER}),
    *(
        (function, {"queue": "ordered", **FILTER})
        for function in ("cancel_jobs", "purge_queue", "redrive", "retry_jobs")
    ),
]

BUILT_IN = ("C", "POSIX", "ucs_basic")

ICU = "create collation public.same (provider = icu, locale = 'und', deterministic = false)"


@pytest.fixture(scope="module")
def session(databases: Databases) -> Iterator[Session]:
    """A database with something of all that there is."""
    with (
        databases.copy("collations") as dsn,
        Session.connect(dsn, autocommit=True) as connection,
    ):
        yield connection


@pytest.fixture(scope="module")
def known(session: Session) -> Arguments:
    """What the calls name."""
    session.create_topic(topic="other")
    session.create_queue(queue="ordered", ordered=True)
    known = prepare(session)
    session.create_group(topic="t", consumer_group="limited", **LIMIT)
    return known


@pytest.fixture(scope="module")
def collations(session: Session) -> list[str]:
    """What every server has; and where there is ICU, one by which different texts are equal."""
    try:
        session.execute(ICU)
    except psycopg.errors.FeatureNotSupported:
        return list(BUILT_IN)
    return [*BUILT_IN, "same"]


def types(session: Session, function: str) -> dict[str, str]:
    """The arguments of a function."""
    return dict(
        session.execute(
            "select a.name, a.type::regtype::text from pg_proc as p"
            " cross join unnest(p.proargnames[:p.pronargs], p.proargtypes::oid[]) as a (name, type)"
            " where p.pronamespace = 'pgq'::regnamespace and p.proname = %s",
            [function],
        ).fetchall()
    )


def complaint(
    session: Session, function: str, arguments: Arguments, collated: dict[str, str]
) -> str | None:
    """What a call says of these collations of its arguments; it is rolled back."""
    kinds = types(session, function)
    columns = [
        sql.SQL("{}::{} {} as {}").format(
            sql.Placeholder(name),
            sql.SQL(kinds[name]),
            sql.SQL(f'collate "{collated[name]}"' if name in collated else ""),
            sql.Identifier(name),
        )
        for name in arguments
    ]
    call = sql.SQL("select from (select {}) as a, pgq.{}({})").format(
        sql.SQL(", ").join(columns),
        sql.Identifier(function),
        sql.SQL(", ").join(sql.SQL("{0} => a.{0}").format(sql.Identifier(n)) for n in arguments),
    )
    try:
        with session.transaction(force_rollback=True):
            session.execute(call, arguments)
    except psycopg.Error as error:
        return f"{function}: {collated}: {error.sqlstate} {error}"
    return None


def calls(session: Session, known: Arguments) -> Iterator[tuple[str, Arguments]]:
    """Calls that succeed, with every text that there is."""
    for function in GIVEN:
        arguments = given(function, known)
        yield function, arguments
        if function == "write_chunk":
            arguments["write_id"] = known["$queue_write"]  # topics know no labels
        texts = {name: TEXTS[name] for name in types(session, function) if name in TEXTS}
        if "error_contains" in texts:
            continue  # see MORE
        if function == "alter_group":
            texts["no_limit"] = ["max_attempts"]
        yield function, {**arguments, **texts}
    yield from MORE


def test_no_collation_is_in_the_way(
    session: Session, known: Arguments, collations: list[str]
) -> None:
    """Each text with each collation, and all of them with one, and each with another one."""
    found: list[str | None] = []
    asked: set[tuple[str, str]] = set()
    for function, arguments in calls(session, known):
        kinds = types(session, function)
        texts = [name for name in arguments if kinds[name] in ("text", "text[]")]
        asked.update((function, name) for name in texts)
        for collation in collations:
            for some in (texts, *([name] for name in texts)):
                found.append(
                    complaint(session, function, arguments, dict.fromkeys(some, collation))
                )
        mixed = {name: collations[place % len(collations)] for place, name in enumerate(texts)}
        found.append(complaint(session, function, arguments, mixed))
    refuse(entry for entry in found if entry)
    refuse(
        f"{function}({name}) was not asked"
        for function in GIVEN
        for name, kind in types(session, function).items()
        if kind in ("text", "text[]") and (function, name) not in asked
    )


@pytest.mark.parametrize(
    "insert",
    [
        "publish_rows (topic, payload, key) select t, '1', k",
        "enqueue_rows (queue, payload, key, label) select q, '1', k, k",
        "write_chunks (write_id, task, task_attempt, chunk, lengths, packed_payloads, keys)"
        " select w, 0, k, 0, '{1}', '1', array[k]",
    ],
)
def test_rows_of_the_views(
    session: Session, known: Arguments, collations: list[str], insert: str
) -> None:
    for collation in collations:
        with session.transaction(force_rollback=True):
            columns = ", ".join(f'{name} text collate "{collation}"' for name in "tqkw")
            session.execute(f"create table public.mine ({columns})".encode())
            session.execute("insert into public.mine values ('t', 'q', 'k', %s)", [known["$write"]])
            session.execute(f"insert into pgq.{insert} from public.mine".encode())


def test_a_key_has_its_partition(session: Session, collations: list[str]) -> None:
    """The same one, whatever the collation; texts that count as equal there are still two."""
    session.create_topic(topic="many", partitions=64)
    for key in ("k", "K", "é", "e\u0301", "日本"):
        found = {
            row(session, f"select partition from pgq.{call}", [key])[0]
            for collate in ("", *(f'collate "{name}"' for name in collations))
            for call in (
                f"publish('many', '1', key => %s::text {collate})",
                f"publish_batch('many', array['1']::jsonb[], array[%s::text {collate}])",
            )
        }
        assert len(found) == 1


def test_names_are_compared_byte_by_byte(session: Session, collations: list[str]) -> None:
    """Where "E" with an accent in one character and in two is the same, for pgq it is not."""
    if "same" not in collations:
        return
    same = 'collate "same"'
    assert row(session, f"select 'é' {same} = E'e\\u0301' {same}") == (True,)
    session.create_queue(queue="labels")
    session.enqueue(queue="labels", payload=1, label="é")
    for label, jobs in (("e\u0301", 0), ("é", 1)):
        claimed = session.execute(
            f"select from pgq.claim_job('labels', label => %s::text {same})".encode(), [label]
        ).fetchall()
        assert len(claimed) == jobs
        made = session.execute(
            f"select duplicate from pgq.enqueue('labels', '1', unique_key => %s::text {same})"
            f" union all select duplicate from pgq.enqueue_batch('labels', '{{1}}',"
            f" unique_keys => array[%s::text {same}])".encode(),
            [label, label],
        ).fetchall()
        assert made == [(False,), (True,)]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="must be a valid name"):
        session.execute(f"select pgq.create_topic('é' {same})")
