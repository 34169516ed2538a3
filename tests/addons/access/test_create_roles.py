"""The roles that pgq makes: what each may call, and which roles of their names are refused."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from addons.access.conftest import VIEWS, acting
from addons.access.test_every_function import BY_TOKEN, NEEDS
from pgq._signatures import SIGNATURES
from pgq.consumer import _grants as consuming
from pgq.worker._grants import EXECUTE
from support.session import Connect, Session, refused, row, unchanged

ROLES = ("pgq_admin", "pgq_monitor", "pgq_publisher", "pgq_consumer")
OTHER = "pgq_test_other"
MAKER = "pgq_test_maker"

ALL = {"version", "list_topics", "list_queues"}
WATCH = {"list_cleanup_failures", "list_groups", "list_subscriptions", "list_workers"}
BESIDE = {
    "pgq_monitor": ALL | WATCH | {"metrics", "metrics_text"},
    "pgq_publisher": ALL | {"create_schedule", "list_schedules", "next_ticks"},
    "pgq_consumer": ALL | WATCH | BY_TOKEN | {"heartbeat", "run_schedules", "next_run", "cleanup"},
}
"""What they may call beside the functions that need the access they are named after."""
ONLY_ADMIN = {
    "create_queue", "create_roles", "create_topic", "delete_worker", "list_access",
    "repair_clock", "schedule_cleanup", "set_storage_bounds", "unschedule_cleanup",
    *(name for name, level in NEEDS.items() if level in ("admin", "publish and consume")),
}  # fmt: skip
"""A new function is sorted in here, in BESIDE or in NEEDS, and granted by create_roles."""
INSERTED = {"publish_rows", "enqueue_rows", "write_chunks"}
FIGURES = {"topic_stats", "group_lag", "queue_stats"}
READ = {
    "pgq_admin": {*VIEWS},
    "pgq_monitor": FIGURES,
    "pgq_publisher": FIGURES,
    "pgq_consumer": {*VIEWS},
}


@pytest.fixture
def house(connection: Session) -> Iterator[Session]:
    """A fresh database, without these roles before and after."""
    for name in (OTHER, MAKER):
        try:
            connection.execute(f"create role {name}")
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the tests' user may not create roles")
    yield connection
    connection.rollback()
    connection.execute("reset role")
    for name in (*ROLES, OTHER, MAKER):
        if row(connection, "select to_regrole(%s) is not null", [name]) == (True,):
            connection.execute(f"drop owned by {name}")
            connection.execute(f"drop role {name}")


def levels(role: str) -> set[str]:
    """The functions that need what a role is named after, or monitor."""
    named = {"pgq_publisher": {"publish"}, "pgq_consumer": {"consume", "monitor"}}
    found = named.get(role, {"monitor"})
    return {name for name, level in NEEDS.items() if found & {*level.split(" or ")}}


def test_what_each_may_call(house: Session) -> None:
    """pgq_admin every function; the others what their access is for; each has its views."""
    # another test of this server may have made them in a database of its own
    before = {name for [name] in house.execute("select rolname from pg_roles").fetchall()}
    assert dict(house.create_roles()) == {role: role not in before for role in ROLES}
    expected = {role: BESIDE[role] | levels(role) for role in BESIDE}
    expected["pgq_admin"] = {*SIGNATURES}
    assert {*EXECUTE, *consuming.EXECUTE} <= expected["pgq_consumer"]
    for role in ROLES:
        callable_ = {
            name
            for (name,) in house.execute(
                "select proname from pg_proc where pronamespace = 'pgq'::regnamespace"
                " and proname !~ '^_' and has_function_privilege(%s, oid, 'execute')",
                [role],
            )
        }
        assert callable_ == expected[role], role
        for privilege, names in (
            ("select", READ[role]),
            ("insert", INSERTED if role in ("pgq_admin", "pgq_publisher") else set()),
        ):
            granted = house.execute(
                "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
                " and relkind <> 'c' and relkind <> 'i' and relkind <> 'I'"
                " and has_table_privilege(%s, oid, %s)",
                [role, privilege],
            )
            assert {name for (name,) in granted} == names, (role, privilege)
    assert {*SIGNATURES} == ONLY_ADMIN.union(*(expected[role] for role in BESIDE))
    assert not ONLY_ADMIN.intersection(*(expected[role] for role in BESIDE))


def test_what_they_see(house: Session) -> None:
    """pgq_admin may do everything, pgq_monitor sees figures, the others what is open or given."""
    house.create_roles()
    assert {created for _, created in house.create_roles()} == {False}
    house.create_topic(topic="open")
    house.create_topic(topic="closed", restricted=True)
    house.publish(topic="closed", payload=1)
    with acting(house, "pgq_monitor"):
        assert [topic.topic for topic in house.list_topics()] == ["closed", "open"]
        assert house.execute("select from pgq.topic_stats").fetchall()
        with pytest.raises(psycopg.errors.InsufficientPrivilege), house.transaction():
            house.execute("select from pgq.messages")
        with house.transaction(force_rollback=True):
            refused("42501", house.publish, topic="closed", payload=1)
        refused(
            "42501",
            house.fetch_range,
            topic="closed",
            partition=0,
            first_offset=1,
            last_offset=1,
        )
    with acting(house, "pgq_admin"):
        house.publish(topic="closed", payload=1)
        house.alter_topic(topic="closed", restricted=False)
        house.drop_topic(topic="closed")
        house.create_topic(topic="closed", restricted=True)
    house.create_group(topic="open", consumer_group="g")
    with acting(house, "pgq_publisher"):
        house.publish(topic="open", payload=1)
        refused("MQ001", house.publish, topic="closed", payload=1)
    house.publish(topic="open", payload=1)
    with acting(house, "pgq_consumer"):
        assert house.consume(topic="open", consumer_group="g")
        assert len(house.execute("select from pgq.messages").fetchall()) == 1
        refused("42501", house.publish, topic="open", payload=1)


def kept_out(house: Session, told: str) -> None:
    with unchanged(house):
        error = refused("42501", house.create_roles, adopt=None)
        assert error.diag.message_primary
        assert "exists already" in error.diag.message_primary
        assert error.diag.message_detail == told
        assert "adopt => true" in str(error.diag.message_hint)


def test_a_role_that_others_have(house: Session) -> None:
    """Its members would administer everything; nothing is granted or created before they are
    told."""
    house.execute("create role pgq_admin")
    house.execute(f"grant pgq_admin to {OTHER}")
    house.execute(f"grant pgq_admin to {MAKER}")
    kept_out(house, f'Its members: "{MAKER}", "{OTHER}".')
    assert row(house, "select to_regrole('pgq_monitor') is null") == (True,)
    house.execute(f"revoke pgq_admin from {MAKER}, {OTHER}")
    house.execute("alter role pgq_admin login")
    kept_out(house, "It has no members. It may log in.")
    made = dict(house.create_roles(adopt=True))
    assert made == {**dict.fromkeys(ROLES, True), "pgq_admin": False}
    # one that has its rights here is nobody else's, whatever members it was given
    house.execute(f"grant pgq_admin to {OTHER}")
    assert {created for _, created in house.create_roles()} == {False}


def test_a_role_that_nobody_has(house: Session) -> None:
    """A superuser administers it: it is taken."""
    house.execute("create role pgq_consumer")
    assert dict(house.create_roles())["pgq_consumer"] is False


def test_a_role_that_the_owner_does_not_administer(house: Session, connect: Connect) -> None:
    """From PostgreSQL 16 on; what he has made himself he administers, and is a member of it."""
    house.execute(f"alter role {MAKER} createrole")
    house.execute("create role pgq_monitor")
    version = house.info.server_version
    try:
        with house.transaction(force_rollback=True):
            house.execute(f"alter schema pgq owner to {MAKER}")
            for kind, name in house.execute(
                "select case when relkind = 'v' then 'view' else 'table' end, relname"
                " from pg_class where relnamespace = 'pgq'::regnamespace"
                " and relkind in ('r', 'p', 'v')"
            ).fetchall():
                house.execute(f"alter {kind} pgq.{name} owner to {MAKER}".encode())
            for (name,) in house.execute(
                "select oid::regprocedure::text from pg_proc"
                " where pronamespace = 'pgq'::regnamespace"
            ).fetchall():
                house.execute(f"alter function {name} owner to {MAKER}".encode())
            house.execute(f"set local role {MAKER}")
            if version < 160000:
                assert house.create_roles()
                return
            with house.transaction(force_rollback=True):
                refused("42501", house.create_roles)
            assert house.create_roles(adopt=True)
            house.execute("create role pgq_test_made")
            house.execute("select pgq._check_roles(array['pgq_test_made'])")
    finally:
        house.execute("drop role pgq_monitor")
