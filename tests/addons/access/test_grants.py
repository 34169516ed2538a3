"""Giving access and taking it back."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from addons.access.conftest import acting
from support.session import Connect, Session, refused, row, unchanged

APP = "pgq_test_app"
OTHER = "pgq_test_other"


@pytest.fixture
def house(connection: Session) -> Iterator[Session]:
    """A fresh database, and two roles that may call everything in it."""
    for role in (APP, OTHER):
        try:
            connection.execute(f"create role {role}")
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the tests' user may not create roles")
        connection.execute(f"grant usage on schema pgq to {role}")
        connection.execute(f"grant execute on all functions in schema pgq to {role}")
        connection.execute(f"grant select on pgq.messages, pgq.topic_stats to {role}")
    connection.create_topic(topic="t", partitions=2)
    connection.create_queue(queue="t")
    try:
        yield connection
    finally:
        connection.rollback()
        for role in (APP, OTHER):
            connection.execute(f"drop owned by {role}")
            connection.execute(f"drop role {role}")


def may_publish(session: Session, role: str, topic: str = "t") -> bool:
    """Whether a publish of this role succeeds; nothing of it stays."""
    try:
        with acting(session, role):
            session.publish(topic=topic, payload=1)
    except psycopg.Error as error:
        if error.sqlstate not in ("MQ001", "42501"):
            raise
        return False
    return True


def listed(session: Session) -> set[tuple[str, str, str, str]]:
    """All grants."""
    return {(g.role, g.topic or "", g.queue or "", g.access) for g in session.list_access()}


def test_the_first_grant_closes(house: Session) -> None:
    """Until then EXECUTE decides; the last revoke opens nothing."""
    assert may_publish(house, APP)
    assert may_publish(house, OTHER)
    given = house.grant_access(role=APP, access="publish", topic="t")
    assert (given.role, given.topic, given.queue, given.access) == (APP, "t", None, "publish")
    assert given.granted_by == house.info.user
    assert may_publish(house, APP)
    assert not may_publish(house, OTHER)
    [topic] = house.list_topics()
    assert topic.restricted
    # the queue of that name is another thing
    with acting(house, OTHER):
        house.enqueue(queue="t", payload=1)

    assert house.grant_access(role=APP, access="publish", topic="t") == given
    assert house.revoke_access(role=APP, topic="t", access="consume") is False
    assert house.revoke_access(role=APP, topic="t") is True
    assert house.revoke_access(role=APP, topic="t") is False
    assert not may_publish(house, APP)
    assert not may_publish(house, OTHER)
    house.alter_topic(topic="t", restricted=False)
    assert may_publish(house, APP)
    assert may_publish(house, OTHER)
    assert listed(house) == set()


def test_what_is_opened_keeps_no_grants(house: Session) -> None:
    """So who had one has none when it is restricted again; others keep theirs."""
    for name in ({"topic": "t"}, {"queue": "t"}):
        house.grant_access(role=APP, access="publish", **name)
    house.alter_topic(topic="t", restricted=False)
    assert listed(house) == {(APP, "", "t", "publish")}
    house.alter_topic(topic="t", restricted=True)
    assert not may_publish(house, APP)
    house.alter_queue(queue="t", restricted=False)
    assert not [grant for grant in listed(house) if grant[2]]


def test_all_of_them(house: Session) -> None:
    """A grant on * closes nothing, and counts for what is closed, before and after."""
    house.grant_access(role=APP, access="publish", topic="*")
    assert may_publish(house, OTHER)
    house.grant_access(role=OTHER, access="monitor", topic="t")
    house.create_topic(topic="new", restricted=True)
    for topic in ("t", "new"):
        assert may_publish(house, APP, topic)
        assert not may_publish(house, OTHER, topic)
    house.revoke_access(role=APP, topic="*")
    for topic in ("t", "new"):
        assert not may_publish(house, APP, topic)


def test_every_role(house: Session) -> None:
    """The name public stands for all."""
    house.grant_access(role="public", access="publish", topic="t")
    assert may_publish(house, APP)
    assert may_publish(house, OTHER)
    with acting(house, OTHER):
        assert house.execute("select from pgq.messages").fetchall() == []
        assert len(house.execute("select from pgq.topic_stats").fetchall()) == 2


def test_who_restricts_keeps_access(house: Session) -> None:
    """Who is not the owner of pgq gets a grant of admin by it; he may give more, and take it."""
    with house.transaction():
        house.execute(f"set local role {APP}")
        house.create_topic(topic="mine", restricted=True)
        house.create_queue(queue="mine", restricted=True)
        house.create_topic(topic="open")
        house.grant_access(role=OTHER, access="consume", topic="open")
    assert listed(house) == {
        (APP, "mine", "", "admin"),
        (APP, "", "mine", "admin"),
        (APP, "open", "", "admin"),
        (OTHER, "open", "", "consume"),
    }
    with acting(house, OTHER):
        assert [(g.role, g.topic) for g in house.list_access()] == [(OTHER, "open")]
        with house.transaction(force_rollback=True):
            refused("42501", house.grant_access, role=OTHER, access="admin", topic="open")
        refused("MQ001", house.grant_access, role=OTHER, access="admin", topic="mine")
    for everything in ({"topic": "*"}, {"queue": "*"}):
        with acting(house, APP):
            refused("42501", house.grant_access, role=APP, access="admin", **everything)
        with acting(house, APP):
            refused("42501", house.revoke_access, role=APP, **everything)


def test_partitions_that_are_added(house: Session) -> None:
    """They are as closed as the others."""
    house.grant_access(role=APP, access="publish", topic="t")
    house.alter_topic(topic="t", partitions=4)
    for partition in range(4):
        for role, error in ((APP, None), (OTHER, "MQ001")):
            with acting(house, role):
                if error is None:
                    house.publish(topic="t", payload=1, partition=partition)
                else:
                    refused(error, house.publish, topic="t", payload=1, partition=partition)


def test_what_was_dropped(house: Session) -> None:
    """Grants go with a topic or queue; one of the same name starts open."""
    house.grant_access(role=APP, access="publish", topic="t")
    house.grant_access(role=APP, access="publish", queue="t")
    house.drop_topic(topic="t")
    house.drop_queue(queue="t")
    assert listed(house) == set()
    house.create_topic(topic="t")
    assert may_publish(house, OTHER)


def test_a_role_that_was_dropped(house: Session) -> None:
    """It stands in nobody's way."""
    house.execute("create role pgq_test_gone")
    house.grant_access(role="pgq_test_gone", access="publish", topic="t")
    house.grant_access(role=APP, access="publish", topic="t")
    house.execute("drop role pgq_test_gone")
    assert may_publish(house, APP)
    assert not may_publish(house, OTHER)
    assert house.revoke_access(role="pgq_test_gone", topic="t") is True


def test_what_others_set_up(house: Session) -> None:
    """Schedules and dead letters are written to where those who run them have no access."""
    house.create_topic(topic="letters", restricted=True)
    house.create_queue(queue="jobs", restricted=True)
    house.create_schedule(
        schedule="s", queue="jobs", payload=1, every="1 hour", starts_at="2020-01-01 00:00+00"
    )
    house.create_schedule(
        schedule="m", topic="letters", payload=1, every="1 hour", starts_at="2020-01-01 00:00+00"
    )
    house.create_group(topic="t", consumer_group="g", max_attempts=1, dead_letter_topic="letters")
    house.publish(topic="t", payload=1)
    with house.transaction():
        house.execute(f"set local role {APP}")
        house.run_schedules()
        [first] = house.poll(topic="t", consumer_group="g")
        house.nack_offsets(
            topic="t", consumer_group="g", partition=first.partition, lease_token=first.lease_token
        )
        with house.transaction(force_rollback=True):
            refused("MQ001", house.publish, topic="letters", payload=1)
        with house.transaction(force_rollback=True):
            refused("MQ002", house.enqueue, queue="jobs", payload=1)
    assert len(house.execute("select from pgq.messages where topic = 'letters'").fetchall()) == 2
    assert len(house.claim_job(queue="jobs", max_jobs=9)) == 1


def test_refusals(house: Session) -> None:
    """Each bad argument has its code, and nothing changes."""
    with unchanged(house):
        refused("42704", house.grant_access, role="nobody", access="publish", topic="t")
        refused("22023", house.grant_access, role=APP, access="write", topic="t")
        refused("22023", house.grant_access, role=APP, access="publish", topic="t", queue="t")
        refused("22004", house.grant_access, role=APP, access="publish")
        refused("22004", house.grant_access, role=APP, access=None, topic="t")
        refused("22004", house.grant_access, role=None, access="publish", topic="t")
        refused("MQ001", house.grant_access, role=APP, access="publish", topic="u")
        refused("MQ002", house.grant_access, role=APP, access="publish", queue="u")
        refused("MQ001", house.revoke_access, role=APP, topic="u")
        refused("MQ002", house.revoke_access, role=APP, queue="u")
        refused("22023", house.revoke_access, role=APP, topic="t", access="write")
        refused("MQ001", house.list_access, topic="u")
        refused("MQ002", house.list_access, queue="u")


def test_odd_names_of_roles(house: Session, connect: Connect) -> None:
    """Names that need quotes are names like others."""
    for name in ('Über "quoted"', "with space", "none_of_it", "UPPER"):
        quoted = '"' + name.replace('"', '""') + '"'
        house.execute(f"create role {quoted}".encode())
        try:
            house.execute(f"grant {APP} to {quoted}".encode())
            house.grant_access(role=name, access="publish", topic="t")
            house.execute("begin")
            house.execute(f"set local role {quoted}".encode())
            assert house.publish(topic="t", payload=1).duplicate is False
            house.execute("rollback")
            house.revoke_access(role=name, topic="t")
        finally:
            house.execute(f"drop role {quoted}".encode())


def test_who_has_it_of_its_own_comes_before_who_only_administers(house: Session) -> None:
    """Roles are asked one after the other: most callers are members of the first."""
    house.grant_access(role=APP, access="admin", topic="t")
    house.grant_access(role=OTHER, access="admin", topic="*")
    house.grant_access(role=OTHER, access="publish", topic="t")
    [target] = row(house, "select t.topic_id from pgq.topic as t where t.topic = 't'")
    found = row(house, "select pgq._granted('topic', %s, 'publish')", [target])
    assert found == ([OTHER, APP],)
