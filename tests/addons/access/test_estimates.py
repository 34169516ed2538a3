"""EXPLAIN of a role without access neither estimates nor counts what is hidden from it."""

from __future__ import annotations

import re

import pytest

from addons.access.conftest import STRANGER, VIEWS, acting, role_of
from support.session import Session

ABSENT = {
    "text": "'absent'",
    "integer": "-7",
    "bigint": "-7",
    "numeric": "-7",
    "boolean": "true",
    "timestamp with time zone": "'1999-09-09'",
    "uuid": "'00000000-0000-0000-0000-000000000007'",
    "bytea": r"'\x07'",
    "jsonb": "'7'",
}
INDEXED = {("messages", "log_offset"), ("messages", "partition_id")}
"""Plain columns: the index needs them. Their statistics are of all topics together."""


@pytest.fixture(scope="module")
def hidden(roles: Session) -> Session:
    """Hundreds of rows for each view, all of them restricted, and statistics of them."""
    roles.create_topic(topic="secret", partitions=2, restricted=True)
    roles.create_queue(queue="secret", max_attempts=1, restricted=True)
    for consumer_group in ("billing", "audit"):
        roles.create_group(topic="secret", consumer_group=consumer_group)
    given = "key => 'ann', headers => '{\"a\": 1}'"
    for content in ("payload => '7'", r"body => '\x61'"):
        for call in ("publish('secret', partition => 1,", "enqueue('secret', label => 'red',"):
            many(roles, f"pgq.{call} {content}, {given}) from generate_series(1, 150)")
    claimed = "pgq.claim_job('secret', max_jobs => 100)"
    many(
        roles,
        "pgq.begin_effect(job_id, lease_token, 'mail'),"
        f" pgq.nack(job_id, lease_token, error => 'broken') from {claimed}",
    )
    many(
        roles,
        f"pgq.archive_job(job_id, lease_token, 'shipped', result => '7') from {claimed}",
    )
    roles.grant_access(role=role_of("consume"), access="consume", topic="secret")
    roles.grant_access(role=role_of("consume"), access="consume", queue="secret")
    roles.execute("analyze")
    return roles


def many(session: Session, what: str) -> None:
    session.execute(f"select count(*) from (select {what}) as x".encode())


def told(session: Session, query: str) -> str:
    """What EXPLAIN tells a stranger, with the rows that were met and without the conditions."""
    with acting(session, STRANGER):
        rows = session.execute(
            f"explain (analyze, timing off, summary off, buffers off) {query}".encode()
        ).fetchall()
    return "\n".join(line for (line,) in rows if not re.search(r"(Cond|Filter): \D", line))


@pytest.mark.parametrize("view", VIEWS)
def test_a_frequent_value_and_an_absent_one(view: str, hidden: Session) -> None:
    """The plan and its figures are the same, for an equality and for a range."""
    columns = hidden.execute(
        "select attname, format_type(atttypid, null) from pg_attribute"
        " where attrelid = %s::regclass and attnum > 0",
        [f"pgq.{view}"],
    ).fetchall()
    assert columns
    differing = []
    looked_at = set()
    for column, kind in columns:
        query = f"select quote_literal(mode() within group (order by {column})) from pgq.{view}"
        [(frequent,)] = hidden.execute(query.encode()).fetchall()
        if frequent is None:
            continue
        looked_at.add(column)
        for operator in ("=", "<"):
            plans = {
                told(hidden, f"select * from pgq.{view} where {column} {operator} {value}")
                for value in (frequent, ABSENT[kind])
            }
            if len(plans) > 1 and (view, column) not in INDEXED:
                differing.append((column, operator))
    assert differing == []
    assert len(looked_at) > 4
