"""Access per topic and queue behind a pooler, whose connections serve many roles in turn."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from support.pooler import PgBouncer
from support.session import Session, refused

ROLES = ("pgq_test_pooled_one", "pgq_test_pooled_two")


@pytest.fixture
def roles(connection: Session) -> Iterator[None]:
    """The first one may publish to t, the second one may not."""
    for role in ROLES:
        try:
            connection.execute(f"create role {role}")
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the tests' user may not create roles")
        connection.execute(f"grant usage on schema pgq to {role}")
        connection.execute(f"grant execute on all functions in schema pgq to {role}")
    connection.create_topic(topic="t", partitions=1)
    connection.grant_access(role=ROLES[0], access="publish", topic="t")
    try:
        yield
    finally:
        for role in ROLES:
            connection.execute(f"drop owned by {role}")
            connection.execute(f"drop role {role}")


def test_the_role_of_each_transaction(
    connection: Session, pgbouncer: PgBouncer, roles: None
) -> None:
    """What one transaction was allowed says nothing for the next on the same connection."""
    with Session.connect(pgbouncer.dsn, prepare_threshold=None) as session:
        for _ in range(6):
            with session.transaction():
                session.execute(f"set local role {ROLES[0]}")
                assert session.publish(topic="t", payload=1).duplicate is False
            with session.transaction(force_rollback=True):
                session.execute(f"set local role {ROLES[1]}")
                refused("MQ001", session.publish, topic="t", payload=2)
    [stats] = connection.execute("select last_offset from pgq.topic_stats").fetchall()
    assert stats == (6,)
