"""Calls from wherever PostgreSQL calls functions, and what others can see of them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.types.json import Jsonb

from addons.access.conftest import STRANGER, acting, role_of
from addons.access.test_ways_round import kept_out
from support.calls import Arguments
from support.session import Session, refused, row, unchanged

PUBLISHER = role_of("publish")
PUBLISH = "select log_offset from pgq.publish('t', '1')"


@pytest.fixture
def lair(roles: Session, known: Arguments) -> Iterator[Session]:
    """A transaction with a schema in which the stranger and the publisher may make things."""
    with roles.transaction(force_rollback=True):
        roles.execute("create schema lair")
        roles.execute(f"grant create, usage on schema lair to {STRANGER}, {PUBLISHER}")
        yield roles


def test_copy(lair: Session) -> None:
    """COPY reads and writes as the one who calls it."""
    for statement in (
        f"copy ({PUBLISH}) to stdout",
        "copy (select * from pgq.fetch_range('t', 0, 1, 9)) to stdout",
    ):
        with acting(lair, STRANGER):
            kept_out_of_copy(lair, statement)
    with acting(lair, STRANGER):
        with lair.cursor().copy("copy (select * from pgq.messages) to stdout") as copy:
            assert list(copy) == []
        for target in ("message", "message_0", "access_grant", "view_key"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), lair.transaction():
                lair.execute(f"copy pgq.{target} to stdout".encode())
    for view, columns, values, code in (
        ("publish_rows", "topic, payload", b"t\t1\n", "MQ001"),
        ("enqueue_rows", "queue, payload", b"q\t1\n", "MQ002"),
    ):
        with (
            unchanged(lair),
            acting(lair, STRANGER),
            pytest.raises(psycopg.Error) as caught,
            lair.transaction(),
            lair.cursor().copy(f"copy pgq.{view} ({columns}) from stdin".encode()) as copy,
        ):
            copy.write(values)
        assert caught.value.sqlstate == code


def kept_out_of_copy(session: Session, statement: str) -> None:
    with (
        pytest.raises(psycopg.Error) as caught,
        session.transaction(),
        session.cursor().copy(statement.encode()) as copy,
    ):
        list(copy)
    assert caught.value.sqlstate == "MQ001"


@pytest.mark.parametrize("option", ["", "with (security_invoker)", "with (security_barrier)"])
def test_views_of_others(option: str, lair: Session) -> None:
    """A view over a function gives its reader nothing that he has not himself, whoever owns it."""
    if "invoker" in option and lair.info.server_version < 150000:
        option = ""
    lair.execute(f"set local role {PUBLISHER}")
    lair.execute(f"create view lair.v {option} as {PUBLISH}".encode())
    lair.execute(f"grant select on lair.v to {STRANGER}")
    lair.execute(f"set local role {STRANGER}")
    kept_out(lair, "select * from lair.v")
    lair.execute("reset role")
    reader = role_of("consume")
    lair.execute(f"grant create, usage on schema lair to {reader}")
    lair.execute(f"set local role {reader}")
    lair.execute(f"create view lair.m {option} as select * from pgq.messages".encode())
    lair.execute(f"grant select on lair.m to {STRANGER}")
    assert row(lair, "select count(*) from lair.m") == (150,)
    lair.execute(f"set local role {STRANGER}")
    assert row(lair, "select count(*) from lair.m") == (0,)


@pytest.mark.parametrize(
    "made",
    [
        "alter table lair.t alter n set default lair.call()",
        "alter table lair.t add check (lair.call() > 0)",
        "alter table lair.t enable row level security;"
        " create policy p on lair.t with check (lair.call() > 0)",
        "create function lair.fire() returns trigger language plpgsql as"
        " $$ begin perform lair.call(); return null; end $$;"
        " create constraint trigger c after insert on lair.t deferrable initially immediate"
        " for each row execute function lair.fire()",
        "create rule r as on insert to lair.t do also select lair.call()",
        "create function lair.lie(n bigint) returns bigint language plpgsql immutable as"
        " $$ begin return lair.call(); end $$;"
        " create index on lair.t (lair.lie(n));"
        " alter table lair.t add m bigint generated always as (lair.lie(n)) stored",
    ],
    ids=["default", "check", "policy", "trigger", "rule", "generated"],
)
def test_what_tables_call(made: str, lair: Session) -> None:
    """It is the one who writes to the table that calls, not its owner."""
    lair.execute(f"set local role {PUBLISHER}")
    lair.execute(
        f"create function lair.call() returns bigint language sql volatile as $$ {PUBLISH} $$"
    )
    lair.execute("create table lair.t (n bigint)")
    lair.execute(f"grant insert on lair.t to {STRANGER}")
    lair.execute(made.encode())
    insert = "insert into lair.t (n) values (default)"
    if "row level" in made:
        lair.execute("alter table lair.t force row level security")
    with lair.transaction(force_rollback=True):
        lair.execute(insert)
    lair.execute("reset role")
    with unchanged(lair), acting(lair, STRANGER):
        kept_out(lair, insert)


def test_a_deferred_trigger(roles: Session, known: Arguments) -> None:
    """At the end of the transaction the role counts that is set then."""
    roles.create_topic(topic="spare", restricted=True)
    roles.grant_access(role=PUBLISHER, access="publish", topic="spare")
    with psycopg.connect(roles.info.dsn, autocommit=True) as session:
        session.execute("create schema later")
        try:
            session.execute(f"grant usage on schema later to {PUBLISHER}, {STRANGER}")
            session.execute("create table later.t (n integer)")
            session.execute(f"grant insert on later.t to {PUBLISHER}, {STRANGER}")
            session.execute(
                "create function later.fire() returns trigger language plpgsql as"
                " $$ begin perform pgq.publish('spare', '1'); return null; end $$"
            )
            session.execute(
                "create constraint trigger c after insert on later.t deferrable initially"
                " deferred for each row execute function later.fire()"
            )

            def insert(first: str, last: str) -> None:
                session.execute("begin")
                session.execute(f"set local role {first}")
                session.execute("insert into later.t values (1)")
                session.execute(f"set local role {last}")
                session.execute("commit")

            for first in (STRANGER, PUBLISHER):
                with unchanged(roles):
                    refused("MQ001", insert, first, STRANGER)
            insert(PUBLISHER, PUBLISHER)
            published = "select count(*) from pgq.messages where topic = 'spare'"
            assert row(roles, published) == (1,)
        finally:
            session.execute("rollback")
            roles.drop_topic(topic="spare")
            session.execute("drop schema later cascade")


def test_what_strangers_may_not_make(lair: Session) -> None:
    """Event triggers, slots of logical decoding and publications are not for everybody."""
    lair.execute(f"set local role {STRANGER}")
    lair.execute(
        "create function lair.fire() returns event_trigger language plpgsql as"
        " $$ begin perform 1; end $$"
    )
    for statement in (
        "create event trigger e on ddl_command_end execute function lair.fire()",
        "select pg_create_logical_replication_slot('pgq_test', 'test_decoding')",
        "create publication p for table pgq.message",
        "create trigger t before insert on pgq.message execute function lair.fire()",
        "create statistics s on topic, partition from pgq.partition",
        "alter view pgq.messages set (security_invoker = true)",
        "create rule r as on insert to pgq.messages do instead nothing",
        "lock table pgq.topic in access share mode",
        "select * from pgq.messages for update",
    ):
        with pytest.raises(psycopg.Error) as caught, lair.transaction():
            lair.execute(statement.encode())
        assert caught.value.sqlstate in ("42501", "42809", "0A000"), (statement, caught.value)


def test_large_arguments_that_others_see(lair: Session, known: Arguments) -> None:
    """What runs and what it is given is shown to nobody but members of its role."""
    payload = Jsonb("classified " * 5000)
    with psycopg.connect(lair.info.dsn, autocommit=True) as busy:
        busy.execute(f"set role {PUBLISHER}")
        busy.execute("begin")
        psycopg.ClientCursor(busy).execute("select pgq.publish('t', %s)", [payload])
        query = "select query from pg_stat_activity where pid = %s"
        shown = lair.execute(query, [busy.info.backend_pid]).fetchall()
        assert "classified" in shown[0][0]
        with acting(lair, STRANGER):
            assert lair.execute(query, [busy.info.backend_pid]).fetchall() == [
                ("<insufficient privilege>",)
            ]
        busy.execute("rollback")


def test_errors_in_the_middle_of_arrays(lair: Session, known: Arguments) -> None:
    """A batch with a bad element is refused whole; a stranger hears what he hears of any name."""
    calls = (
        ("publish_batch", {"topic": "t", "payloads": [Jsonb(1), None]}),
        ("publish_batch", {"topic": "t", "payloads": [Jsonb(1), Jsonb(2)], "keys": ["k"]}),
        (
            "publish_batch",
            {"topic": "t", "payloads": [Jsonb(1), Jsonb(2)], "headers": [None, Jsonb(1)]},
        ),
        ("enqueue_batch", {"queue": "q", "payloads": [Jsonb(1), None]}),
        (
            "enqueue_batch",
            {"queue": "q", "payloads": [Jsonb(1), Jsonb(2)], "idempotency_keys": ["i", ""]},
        ),
        (
            "enqueue_batch",
            {"queue": "q", "payloads": [Jsonb(1), Jsonb(2)], "labels": ["l", "m", "n"]},
        ),
    )
    with unchanged(lair):
        for function, arguments in calls:
            heard = []
            absent = {"topic": "u"} if "topic" in arguments else {"queue": "v"}
            for role, given in (
                (PUBLISHER, arguments),
                (STRANGER, arguments),
                (STRANGER, {**arguments, **absent}),
            ):
                with pytest.raises(psycopg.Error) as caught, acting(lair, role):
                    lair.call(function, **given)
                heard.append((caught.value.sqlstate, caught.value.diag.message_primary))
            assert heard[0] == heard[1] == heard[2], function
            assert heard[0][0] in ("22004", "22023"), heard[0]


def test_job_ids_of_others_in_an_array(lair: Session, known: Arguments) -> None:
    """Beside jobs of one's own they are left out, as those that are not there."""
    lair.create_queue(queue="own")
    lair.enqueue_batch(queue="own", payloads=[Jsonb(1), Jsonb(2)])
    others = known["$jobs"]
    with acting(lair, STRANGER):
        jobs = lair.claim_job(queue="own", max_jobs=2)
        ids = [jobs[0].job_id, *others, 999_999_999, jobs[1].job_id]
        for function in ("extend_lease_batch", "ack_batch"):
            answer = lair.call(function, job_ids=ids, lease_token=jobs[0].lease_token)
            assert sorted(found[0] for found in answer) == sorted(job.job_id for job in jobs)
    with acting(lair, role_of("consume")):
        assert {lair.get_job(job_id=job).state for job in others} == {"leased"}


def test_a_guess_can_be_confirmed(lair: Session) -> None:
    """What PostgreSQL counts shows whether a call has found something: that is documented."""
    read = (
        "select sum(pg_stat_get_xact_tuples_fetched(oid)) from pg_class"
        " where relnamespace = 'pgq'::regnamespace"
    )
    fetched = []
    for name in ("t", "nowhere"):
        with acting(lair, STRANGER):
            [before] = row(lair, read)
            with lair.transaction(force_rollback=True):
                refused("MQ001", lair.publish, topic=name, payload=1)
            [after] = row(lair, read)
            fetched.append(after - before)
    assert fetched[0] > fetched[1]
