"""What a role may do that is neither owner nor superuser."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from support.log import new_topic, offsets
from support.session import Connect, Session, refused, unchanged

ROLE = "pgq_test_reader"


@pytest.fixture
def guest(shared_connect: Connect, log: Session) -> Iterator[Session]:
    """The log as a role that has been granted nothing but the use of the schema."""
    try:
        log.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    session = shared_connect(autocommit=True)
    try:
        log.execute(f"grant usage on schema pgq to {ROLE}")
        session.execute(f"set role {ROLE}")
        yield session
    finally:
        session.close()
        log.execute(f"drop owned by {ROLE}")
        log.execute(f"drop role {ROLE}")


def test_nothing_without_a_grant(guest: Session, log: Session) -> None:
    """Every function and every table is closed: 42501."""
    topic = new_topic(log, messages=1)
    names = {"topic": topic, "consumer_group": "readers"}
    with unchanged(log):
        refused("42501", guest.create_topic, topic="x")
        refused("42501", guest.alter_topic, topic=topic)
        refused("42501", guest.drop_topic, topic=topic)
        refused("42501", guest.list_topics)
        refused("42501", guest.publish, topic=topic, payload=1)
        refused("42501", guest.publish_batch, topic=topic, payloads=[1])
        refused("42501", guest.create_group, **names)
        refused("42501", guest.drop_group, **names)
        refused("42501", guest.list_groups)
        for function in ("claim_offsets", "consume", "fetch", "poll"):
            refused("42501", guest.call, function, **names)
        refused("42501", guest.seek, start="latest", **names)
        refused("42501", guest.commit_offset, partition=0, committed_offset=1, **names)
        range_ = {"partition": 0, "first_offset": 1, "last_offset": 1}
        refused("42501", guest.fetch_range, topic=topic, **range_)
        for table in ("message", "message_0", "topic", "partition", "group_position"):
            refused("42501", lambda table=table: guest.execute(f"select from pgq.{table}"))


def test_a_granted_function_needs_no_table(guest: Session, log: Session) -> None:
    """EXECUTE on a function is enough to call it, and gives nothing besides."""
    topic = new_topic(log, messages=1)
    for function in ("publish", "publish_batch", "consume"):
        log.execute(
            f"do $$ begin execute format('grant execute on function %s to {ROLE}',"
            f" 'pgq.{function}'::regproc::regprocedure); end $$"
        )
    assert guest.publish(topic=topic, payload=2) == (0, 2, False)
    assert guest.publish_batch(topic=topic, payloads=[3], keys=["k"]) == [(0, 3, 3, False)]
    assert offsets(guest.consume(topic=topic, consumer_group="readers")) == [1, 2, 3]
    refused("MQ001", guest.publish, topic="no-such-topic", payload=1)
    refused("42501", lambda: guest.execute("select from pgq.message"))
    refused("42501", guest.drop_topic, topic=topic)


def test_objects_of_the_caller_do_not_come_in_between(guest: Session, log: Session) -> None:
    """Tables and functions in the caller's temporary schema are never used by ours."""
    topic = new_topic(log)
    log.execute(
        f"do $$ begin execute format('grant execute on function %s to {ROLE}',"
        " 'pgq.publish'::regproc::regprocedure); end $$"
    )
    guest.execute(
        "create function pg_temp.hashtextextended(text, bigint) returns bigint language sql"
        " as $$ select 1 / 0 $$"
    )
    guest.execute("create temporary table message (payload jsonb)")
    guest.execute("set search_path = pg_temp, pgq")
    assert guest.publish(topic=topic, payload=1, key="k") == (0, 1, False)
