"""doctor: each check finds what was really made wrong, and says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgq import Client
from pgq.migrate import migrate
from support.clock import Clock
from support.command import Run
from support.databases import Databases
from support.session import Connect, Session
from support.waiting import PATIENCE, aside, wait_until


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """A database that is empty, and in which cleanup may be called."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    return emptied_clock


def found(pgq: Run, check: str, *arguments: str, older_than: str = "0s") -> list[dict[str, Any]]:
    """The findings of a check."""
    done = pgq("doctor", "--json", "--older-than", older_than, *arguments)
    assert done.err == ""
    report = done.json
    looked = {*report["checked"], "retention", "leases", "lag", "dead letters"}
    assert check in looked or "installation" in looked
    assert done.status == (1 if report["errors"] else 0)
    return [one for one in report["findings"] if one["check"] == check]


def about(findings: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """The one finding that says this."""
    [one] = [one for one in findings if text in one["what"]]
    assert one["why"]
    return one


def test_a_held_snapshot(pgq: Run, connect: Connect, connection: Session) -> None:
    holder = connect(isolation_level="repeatable read", application_name="report")
    holder.execute("select 1")
    one = about(found(pgq, "sessions"), f"process {holder.pid} ")
    assert one["severity"] == "warning"
    assert one["what"].startswith("idle in transaction since ")
    assert "(report)" in one["what"]
    assert f"pg_terminate_backend({holder.pid})" in one["fix"]
    assert one["since"]
    # what is open for so short a time is nobody's business
    assert not [f for f in found(pgq, "sessions", older_than="1h") if str(holder.pid) in f["what"]]

    sleeping = aside(lambda: holder.execute("select pg_sleep(60)"))
    wait_until(
        lambda: (
            connection.execute(
                "select state = 'active' from pg_stat_activity where pid = %s", [holder.pid]
            ).fetchone()
            == (True,)
        )
    )
    one = about(found(pgq, "sessions"), f"process {holder.pid} ")
    assert one["what"].startswith("a snapshot is held since ")
    connection.execute(b"select pg_terminate_backend(%d)" % holder.pid)
    with pytest.raises(psycopg.OperationalError):
        sleeping.result(PATIENCE)
    wait_until(lambda: not [f for f in found(pgq, "sessions") if str(holder.pid) in f["what"]])


def test_a_prepared_transaction(pgq: Run, connection: Session) -> None:
    if connection.execute("show max_prepared_transactions").fetchone() == ("0",):
        pytest.skip("the server has no prepared transactions (max_prepared_transactions)")
    connection.execute("begin")
    connection.execute("select pg_current_xact_id()")
    connection.execute("prepare transaction 'it''s left over'")
    try:
        one = about(found(pgq, "prepared transactions"), "it's left over")
        assert one["severity"] == "error"
        assert "rollback prepared 'it''s left over';" in one["fix"]
    finally:
        connection.execute("rollback prepared 'it''s left over'")
    assert found(pgq, "prepared transactions") == []


def test_a_slot_that_nobody_uses(pgq: Run, connection: Session) -> None:
    connection.execute("select pg_create_physical_replication_slot('left_over', true)")
    try:
        one = about(found(pgq, "replication slots"), "physical replication slot left_over")
        assert one["severity"] == "warning"
        assert "pg_drop_replication_slot('left_over')" in one["fix"]
    finally:
        connection.execute("select pg_drop_replication_slot('left_over')")
    assert found(pgq, "replication slots") == []


def test_settings_of_the_session(pgq: Run, dsn: str) -> None:
    wrong = {
        "default_transaction_isolation": "serializable",
        "statement_timeout": "1200",
        "default_transaction_read_only": "on",
        "synchronous_commit": "off",
        "idle_in_transaction_session_timeout": "0",
    }
    options = " ".join(f"-c {name}={value}" for name, value in wrong.items())
    findings = found(pgq, "settings", "--database", make_conninfo(dsn, options=options))
    for name in wrong:
        one = about(findings, name)
        assert name in one["fix"]
    right = {
        "default_transaction_isolation": "read\\ committed",
        "statement_timeout": "0",
        "default_transaction_read_only": "off",
        "synchronous_commit": "on",
        "idle_in_transaction_session_timeout": "60000",
    }
    options = " ".join(f"-c {name}={value}" for name, value in right.items())
    findings = found(pgq, "settings", "--database", make_conninfo(dsn, options=options))
    assert not [one for one in findings if any(name in one["what"] for name in wrong)]


def test_cleanup_that_nobody_calls(
    pgq: Run, client: Client, connection: Session, clock: Clock
) -> None:
    client.admin.create_topic("orders", partitions=1, retention=timedelta(hours=3))
    client.admin.create_group("orders", "billing")
    client.publish_batch("orders", list(range(1200)))
    connection.execute(
        "select pgq.commit_offset('orders', 'billing', 0, n) from generate_series(1, 1200) as n"
    )
    assert found(pgq, "cleanup") == []
    clock.advance("2 hours")
    findings = found(pgq, "cleanup")
    sealing = about(findings, "segments to seal")
    assert sealing["severity"] == "warning"
    assert "pgq cleanup" in sealing["fix"]
    about(findings, "journals of positions to trim")
    assert pgq("cleanup").status == 0
    assert found(pgq, "cleanup") == []
    # what was sealed is to be closed by the next call, which does not come
    clock.advance("1 hour")
    about(found(pgq, "cleanup"), "segments to close")
    wait_until(lambda: pgq("cleanup") and "closed" in _states(connection))
    assert found(pgq, "retention") == []
    clock.advance("40 hours")
    late = about(found(pgq, "retention"), "segments to empty")
    assert late["severity"] == "error"
    wait_until(lambda: pgq("cleanup") and not found(pgq, "retention"))


def _states(connection: Session) -> set[str]:
    return {state for (state,) in connection.execute("select state from pgq.segment").fetchall()}


def test_a_schedule_that_nobody_runs(pgq: Run, client: Client, clock: Clock) -> None:
    client.admin.create_queue("mail")
    client.schedules.create_schedule("tick", queue="mail", payload=1, every=timedelta(minutes=1))
    assert found(pgq, "schedules") == []
    clock.advance("1 hour")
    assert "pgq housekeeping" in about(found(pgq, "schedules"), "schedule tick was due")["fix"]
    client.schedules.pause_schedule("tick")
    assert found(pgq, "schedules") == []


def test_a_schedule_that_fails(pgq: Run, client: Client, clock: Clock) -> None:
    """Its queue does not take what the tick brings; when it does, nothing is told any more."""
    client.admin.create_queue("mail", max_unfinished=1)
    client.schedules.create_schedule("tick", queue="mail", payload=1, every=timedelta(minutes=1))
    client.enqueue("mail", 1)
    clock.advance("2 minutes")
    client.schedules.run_schedules()
    [one] = found(pgq, "schedules")
    assert one["severity"] == "warning"
    [error] = [row.last_error for row in client.schedules.list_schedules()]
    assert error
    assert one["what"] == f"schedule tick failed: {error}"
    assert one["fix"] == "pgq schedules show tick"
    shown = pgq(*one["fix"].split()[1:])
    assert (shown.status, error in shown.out) == (0, True)
    [job] = client.claim_job("mail")
    client.ack(job.job_id, job.lease_token)
    clock.advance("2 minutes")
    client.schedules.run_schedules()
    assert found(pgq, "schedules") == []


def test_leases(pgq: Run, client: Client, clock: Clock) -> None:
    client.admin.create_topic("orders", partitions=1)
    client.admin.create_group("orders", "billing")
    client.publish("orders", 1)
    client.admin.create_queue("mail")
    client.enqueue_batch("mail", ["long", "lost"])
    [long] = client.claim_job("mail", lease=timedelta(days=1))
    client.claim_job("mail", lease=timedelta(minutes=1))
    client.poll("orders", "billing", lease=timedelta(days=1))
    findings = found(pgq, "leases", older_than="5m")
    assert len(findings) == 2
    assert f"pgq cancel {long.job_id}" in about(findings, f"job {long.job_id} of queue")["fix"]
    seek = about(findings, "group billing of topic orders, partition 0")["fix"]
    clock.advance("10 minutes")
    about(found(pgq, "leases", older_than="5m"), "1 jobs of queue mail had a worker")
    # what it says does it
    assert pgq(*seek.split()[1:]).status == 0
    assert not [f for f in found(pgq, "leases") if "billing" in f["what"]]
    assert client.poll("orders", "billing")
    assert pgq("cancel", str(long.job_id)).status == 0


def test_dead_letters_that_grow(pgq: Run, client: Client, clock: Clock) -> None:
    client.admin.create_queue("mail", max_attempts=1)
    client.enqueue("mail", 1)
    [job] = client.claim_job("mail")
    client.nack(job.job_id, job.lease_token)
    one = about(found(pgq, "dead letters"), "1 dead letters, 1 of the last hour")
    assert one["severity"] == "warning"
    clock.advance("2 hours")
    assert about(found(pgq, "dead letters"), "1 dead letters")["severity"] == "note"


def test_a_group_that_retention_may_overtake(pgq: Run, client: Client, clock: Clock) -> None:
    client.admin.create_topic("orders", partitions=1, retention=timedelta(hours=10))
    client.admin.create_group("orders", "billing")
    client.publish("orders", 1)
    clock.advance("4 hours")
    assert found(pgq, "lag") == []
    clock.advance("2 hours")
    assert about(found(pgq, "lag"), "group billing of topic orders")["severity"] == "warning"
    clock.advance("3 hours 30 minutes")
    assert about(found(pgq, "lag"), "group billing of topic orders")["severity"] == "error"


@pytest.mark.slow
def test_dead_rows(pgq: Run, client: Client, connection: Session) -> None:
    client.admin.create_queue("mail", archive=False)
    client.enqueue_batch("mail", [1] * 12000)
    client.jobs.purge_queue("mail", all_jobs=True)

    def told() -> bool:
        connection.execute("select pg_stat_clear_snapshot()")
        return any("pgq.job has" in one["what"] for one in found(pgq, "bloat"))

    wait_until(told, PATIENCE)
    assert "vacuum pgq.job;" in about(found(pgq, "bloat"), "pgq.job has")["fix"]
    connection.execute("vacuum pgq.job")
    wait_until(lambda: not told(), PATIENCE)


def test_a_clock_that_is_wrong(pgq: Run, clock: Clock) -> None:
    assert found(pgq, "clock") == []
    clock.advance("1 minute")
    assert "ahead of" in about(found(pgq, "clock"), "the clock of the database")["what"]
    clock.advance("-2 minutes")
    assert "behind" in about(found(pgq, "clock"), "the clock of the database")["what"]


@pytest.fixture
def role(connection: Session) -> Iterator[str]:
    """A role without any right, in place of the superuser: as SET ROLE does."""
    name = "pgq_test_cli"
    connection.execute(f"create role {name}".encode())
    yield name
    connection.execute(f"drop owned by {name}; drop role {name}".encode())


def test_grants(pgq: Run, connection: Session, connect: Connect, dsn: str, role: str) -> None:
    place = make_conninfo(dsn, options=f"-c role={role}")
    one = about(found(pgq, "grants", "--database", place), "has no right to the schema pgq")
    connection.execute(one["fix"].encode())
    one = about(found(pgq, "grants", "--role", role), "may call none of pgq's functions")
    connection.execute(f"grant execute on function pgq.publish to {role}".encode())
    findings = found(pgq, "grants", "--role", role)
    half = about(findings, "may publish by half: it lacks publish_batch")
    connection.execute(half["fix"].encode())
    # which consumers and pgq status call: it does not watch for that
    connection.execute(f"grant execute on function pgq.list_topics to {role}".encode())
    [left] = found(pgq, "grants", "--role", role)
    assert left["severity"] == "note"
    assert "may not consume" in left["what"]
    grants = dict(reversed(line.split("; -- to ")) for line in left["fix"].splitlines())
    assert grants["enqueue"] == (
        f'grant execute on function pgq.enqueue, pgq.enqueue_batch to "{role}"'
    )
    connection.execute(grants.pop("watch").encode())
    [left] = found(pgq, "grants", "--role", role)
    assert [line.split("; -- to ")[1] for line in left["fix"].splitlines()] == [*grants]
    # it sees what it may, and says what it cannot
    connect(isolation_level="repeatable read").execute("select 1")
    report = pgq("doctor", "--json", "--older-than", "0s", "--database", place).json
    unseen = [f for f in report["findings"] if f["what"].startswith("not looked at: ")]
    assert {f["check"] for f in unseen} >= {"sessions", "cleanup", "queues", "groups"}
    assert "grant pg_read_all_stats" in about(unseen, "sessions of other roles")["fix"]
    assert pgq("doctor", "--role", "nobody_at_all").err.startswith("pgq: role ")


@pytest.fixture
def other(databases: Databases, connection: Session) -> Iterator[str]:
    """A database without pgq."""
    name = databases.name("cli_other")
    connection.execute(
        sql.SQL("create database {} template template0").format(sql.Identifier(name))
    )
    yield databases.dsn_of(name)
    connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def test_a_role_that_may_not_install(pgq: Run, connection: Session, other: str, role: str) -> None:
    """What `pgq migrate` is refused for leads to a grant, after which it works."""
    place = make_conninfo(other, options=f"-c role={role}")
    assert "'pgq doctor' says what this role lacks" in pgq("migrate", "--database", place).err
    one = about(found(pgq, "installation", "--database", place), "may not create a schema")
    connection.execute(one["fix"].partition(": ")[2].encode())
    assert about(found(pgq, "installation", "--database", place), "is not installed")
    assert pgq("migrate", "--database", place).status == 0
    assert found(pgq, "installation", "--database", place) == []
    with psycopg.connect(other) as owner:
        owner.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))


@pytest.mark.slow
def test_installations(pgq: Run, other: str) -> None:
    def only() -> tuple[str, str]:
        [one] = found(pgq, "installation", "--database", other)
        return one["severity"], one["what"] + one["fix"]

    severity, told = only()
    assert severity == "error"
    assert "not installed" in told
    assert "pgq migrate" in told
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("create schema pgq")
        severity, told = only()
        assert severity == "error"
        assert "was not made by this package" in told
        connection.execute("drop schema pgq")
        migrate(other)
        assert found(pgq, "installation", "--database", other) == []
        connection.execute("drop function pgq.ack_batch")
        severity, told = only()
        assert severity == "error"
        assert "1 functions are missing or have other arguments: ack_batch" in told


def test_it_is_shown_to_people(pgq: Run, client: Client, connect: Connect) -> None:
    connect(isolation_level="repeatable read").execute("select 1")
    done = pgq("doctor", "--older-than", "0s")
    lines = done.lines
    at = next(n for n, line in enumerate(lines) if line.startswith("warning: idle in transaction"))
    assert lines[at].endswith("[sessions]")
    assert lines[at + 1].startswith("    why: ")
    assert lines[at + 2].startswith("    do:  select pg_terminate_backend(")
    assert lines[-1].startswith("database ")
    assert pgq("doctor", "--strict", "--older-than", "0s").status == 1
    assert json.loads(pgq("doctor", "--json").out)["version"] == client.version()
