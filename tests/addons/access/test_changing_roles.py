"""Roles that are dropped, renamed, made anew, or come with settings of their own."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from addons.access.conftest import acting
from support.session import Connect, Session, refused

APP = "pgq_test_changing"
NEW = "pgq_test_changed"
LOGIN = "pgq_test_with_settings"


@pytest.fixture
def house(connection: Session) -> Iterator[Session]:
    """A restricted topic to which one role may publish."""
    try:
        admit(connection, APP)
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    connection.create_topic(topic="t")
    connection.create_queue(queue="q", restricted=True)
    connection.grant_access(role=APP, access="publish", topic="t")
    try:
        yield connection
    finally:
        connection.rollback()
        for role in (APP, NEW, LOGIN):
            if connection.execute("select to_regrole(%s)", [role]).fetchone() != (None,):
                connection.execute(f"drop owned by {role}")
                connection.execute(f"drop role {role}")


def admit(session: Session, role: str) -> None:
    """A role that may call everything."""
    session.execute(f"create role {role}")
    session.execute(f"grant usage on schema pgq to {role}")
    session.execute(f"grant execute on all functions in schema pgq to {role}")


def may_publish(session: Session, role: str) -> bool:
    """Whether it may, or is told that there is no such topic."""
    with acting(session, role):
        try:
            session.publish(topic="t", payload=1)
        except psycopg.Error as error:
            if error.sqlstate != "MQ001":
                raise
            return False
    return True


def test_a_name_that_is_given_anew(house: Session) -> None:
    """Grants are by name: who gets the name gets them, unless they were revoked before."""
    house.execute(f"drop owned by {APP}")
    house.execute(f"drop role {APP}")
    assert [grant.role for grant in house.list_access(topic="t")] == [APP]
    admit(house, APP)
    assert may_publish(house, APP)
    house.revoke_access(role=APP, topic="t")
    house.execute(f"drop owned by {APP}")
    house.execute(f"drop role {APP}")
    admit(house, APP)
    assert not may_publish(house, APP)


def test_a_role_that_is_renamed(house: Session) -> None:
    """Its grants stay with the old name; so does whoever inherits by it, until it is granted."""
    house.execute(f"create role {LOGIN} in role {APP}")
    house.execute(f"grant usage on schema pgq to {LOGIN}")
    assert may_publish(house, LOGIN)
    house.execute(f"alter role {APP} rename to {NEW}")
    for role in (NEW, LOGIN):
        assert not may_publish(house, role)
    house.grant_access(role=NEW, access="publish", topic="t")
    for role in (NEW, LOGIN):
        assert may_publish(house, role)


def test_a_session_whose_role_is_renamed(house: Session, connect: Connect) -> None:
    """PostgreSQL tells the name by which it was set: that is nobody, and no error of its own."""
    session = connect(autocommit=True)
    session.execute(f"set role {APP}")
    session.publish(topic="t", payload=1)
    house.execute(f"alter role {APP} rename to {NEW}")
    house.grant_access(role=NEW, access="admin", topic="t")
    house.revoke_access(role=APP, topic="t")
    refused("MQ001", session.publish, topic="t", payload=1)
    refused("MQ002", session.enqueue, queue="q", payload=1)
    assert session.list_topics() == []
    assert session.execute("select from pgq.list_access()").fetchall() == []
    session.execute(f"set role {NEW}")
    session.publish(topic="t", payload=1)


def test_a_session_whose_role_is_dropped(house: Session, connect: Connect) -> None:
    """It has no privilege of PostgreSQL any more, nor of a new role of that name."""
    session = connect(autocommit=True)
    session.execute(f"set role {APP}")
    session.publish(topic="t", payload=1)
    house.execute(f"drop owned by {APP}")
    house.execute(f"drop role {APP}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.publish(topic="t", payload=1)
    admit(house, APP)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.publish(topic="t", payload=1)
    session.execute("reset role")
    session.execute(f"set role {APP}")
    session.publish(topic="t", payload=1)


def test_settings_of_a_role(house: Session, connect: Connect) -> None:
    """What comes with a login opens nothing: not pgq's own settings, not those of PostgreSQL."""
    house.execute(f"create role {LOGIN} login")
    house.execute(f"grant usage on schema pgq to {LOGIN}")
    house.execute(f"grant execute on all functions in schema pgq to {LOGIN}")
    [(key,)] = house.execute("select key::text from pgq.view_key").fetchall()
    for name, value in (
        ("pgq.acts_for_owner", key),
        ("plpgsql.variable_conflict", "use_variable"),
        ("default_transaction_isolation", "serializable"),
        ("row_security", "off"),
        ("search_path", "pg_temp"),
        ("transform_null_equals", "on"),
        ("role", APP),
    ):
        house.execute(f"alter role {LOGIN} set {name} = '{value}'")
    with connect(autocommit=True, user=LOGIN) as session:
        # who is no member of that role is not it either
        assert session.execute("select current_user, session_user").fetchone() == (LOGIN, LOGIN)
        refused("MQ001", session.publish, topic="t", payload=1)
        refused("MQ001", session.publish, topic="t", payload=1, key="k")
        refused("MQ002", session.enqueue, queue="q", payload=1)
        assert session.list_topics() == []
    house.execute(f"grant {APP} to {LOGIN}")
    with connect(autocommit=True, user=LOGIN) as session:
        session.publish(topic="t", payload=1)


def test_reading_all_tables_is_not_more(house: Session) -> None:
    """Who may read everything learns no secret by which he could write."""
    admit(house, NEW)
    house.execute(f"grant select on all tables in schema pgq to {NEW}")
    house.execute(f"grant pg_read_all_data to {NEW}")
    with acting(house, NEW):
        [(key,)] = house.execute("select key::text from pgq.view_key").fetchall()
        house.execute("select set_config('pgq.acts_for_owner', %s, true)", [key])
        for call, code in (
            ("select pgq.publish('t', '1')", "MQ001"),
            ("select pgq.drop_topic('t')", "MQ001"),
            ("select pgq.grant_access('public', 'admin', topic => 't')", "MQ001"),
            ("insert into pgq.acting values (txid_current())", "42501"),
            ("insert into pgq.access_grant default values", "42501"),
        ):
            with pytest.raises(psycopg.Error) as caught, house.transaction():
                house.execute(call.encode())
            assert caught.value.sqlstate == code, call
        shown = "select * from pgq._visible_topics(%s, 'postgres', 'consume')"
        assert house.execute(shown, [key]).fetchall() == []


def test_nobody_acts_when_a_schedule_has_failed(house: Session) -> None:
    """What lets a schedule write goes with it, whatever comes in between."""
    house.create_schedule(
        schedule="s", queue="q", payload=1, every="1 hour", starts_at="2020-01-01 00:00+00"
    )
    house.alter_queue(queue="q", max_unfinished=1)
    house.enqueue(queue="q", payload=1)
    with acting(house, APP):
        house.run_schedules()
        refused("MQ002", house.enqueue, queue="q", payload=1)
    house.alter_queue(queue="q", no_limit=["max_unfinished"])
    with acting(house, APP):
        house.run_schedules()
        with house.transaction(force_rollback=True):
            refused("MQ002", house.enqueue, queue="q", payload=1)
    assert house.execute("select from pgq.acting").fetchall() == []


def test_a_name_that_is_too_long(house: Session) -> None:
    """PostgreSQL would cut it off, and then it is not the name of that role."""
    house.execute(f"create role {'x' * 63}")
    try:
        refused("42704", house.grant_access, role="x" * 64, access="publish", topic="t")
    finally:
        house.execute(f"drop role {'x' * 63}")
