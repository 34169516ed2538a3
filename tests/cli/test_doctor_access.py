"""doctor: rights on tables of pgq, and grants of roles that are not there."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from cli.test_doctor import about, clock, dsn, found
from support.command import Run
from support.session import Session

__all__ = ["clock", "dsn"]

ROLES = ("pgq_test_onlooker", "pgq_test_o'gone")


@pytest.fixture
def house(connection: Session) -> Iterator[Session]:
    for role in ROLES:
        try:
            connection.execute(f'create role "{role}"'.encode())
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the tests' user may not create roles")
    yield connection
    for role in ROLES:
        if connection.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone():
            connection.execute(f'drop owned by "{role}"'.encode())
            connection.execute(f'drop role "{role}"'.encode())


def test_rights_on_tables(pgq: Run, house: Session) -> None:
    """On whole tables, sequences and single columns; what views show is what they are for."""
    house.execute("grant select on pgq.messages to pgq_test_onlooker")
    assert found(pgq, "access") == []
    house.execute("grant select on pgq.message_3 to pgq_test_onlooker with grant option")
    house.execute("grant select (topic) on pgq.topic to pgq_test_onlooker")
    house.execute("grant usage on sequence pgq.partition_id to pgq_test_onlooker")
    house.execute("grant select on pgq.job to public")
    findings = found(pgq, "access")
    assert [one["severity"] for one in findings] == ["warning", "warning"]
    one = about(findings, "pgq_test_onlooker")
    assert one["what"].endswith("message_3, partition_id, topic")
    for finding in findings:
        house.execute(finding["fix"].encode())
    assert found(pgq, "access") == []
    assert house.execute(
        "select has_table_privilege('pgq_test_onlooker', 'pgq.messages', 'select')"
    ).fetchone() == (True,)


def test_grants_of_a_role_that_is_gone(pgq: Run, house: Session) -> None:
    gone = ROLES[1]
    house.create_topic(topic="news")
    house.create_queue(queue="jobs")
    for level in ("publish", "consume"):
        house.grant_access(role=gone, access=level, topic="news")
    house.grant_access(role=gone, access="consume", queue="jobs")
    house.grant_access(role="public", access="monitor", topic="*")
    house.grant_access(role=gone, access="monitor", topic="*")
    assert found(pgq, "access") == []
    house.execute(f'drop role "{gone}"'.encode())
    one = about(found(pgq, "access"), gone)
    assert "topic *, topic news, queue jobs" in one["what"]
    house.execute(one["fix"].encode())
    assert found(pgq, "access") == []
