"""How many different retentions and topics with max_bytes there may be."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, new_name, refused, row
from support.storage import clean
from support.waiting import blocked, results


def _lengths(session: Session, number: int) -> None:
    """So many different ones, with the day of the idempotency window."""
    for n in range(1, number):
        session.create_topic(topic=f"t{n}", partitions=1, retention=f"{n} minutes")


@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_one_length_more_is_refused(connection: Session, clock: Clock, kind: str) -> None:
    """The lengths are told, and when what is out of use goes; one that is there will do."""
    _lengths(connection, 23)
    left = new_queue(connection, retention="50 minutes")
    enqueue(connection, left)
    assert ack(connection, claim_one(connection, left))
    connection.alter_queue(queue=left, retention="5 minutes")
    clean(connection)
    name = {kind: new_name(kind)}
    for given in (
        {"retention": "2 hours"},
        {"retention": "5 minutes", "idempotency_window": "2 days"},
    ):
        error = refused("54000", connection.call, f"create_{kind}", **name, **given)
        assert "24 different" in str(error)
        assert "00:05:00" in str(error.diag.message_detail)
        assert "1 day" in str(error.diag.message_detail)
        assert "00:50:00 goes after" in str(error.diag.message_hint)
    connection.call(f"create_{kind}", **name, retention="5 minutes")
    refused("54000", connection.call, f"alter_{kind}", **name, retention="2 hours")
    connection.call(f"alter_{kind}", **name, retention="6 minutes")
    for _ in range(4):
        clock.advance("40 minutes")
        clean(connection)
    connection.call(f"alter_{kind}", **name, retention="2 hours")


def test_windows_of_one_tier_are_one_length(connection: Session) -> None:
    for n in range(40):
        window = f"{n + 2} hours"
        connection.create_queue(queue=f"q{n}", idempotency_window=window, retention="1 day")
    assert row(connection, "select pgq._lengths()") == (["1 day", "7 days"],)


def test_one_topic_with_max_bytes_more_is_refused(connection: Session) -> None:
    """What has such a limit may change it; lifted, its place is free when nothing is stored."""
    connection.set_storage_bounds(max_sized_topics=2)
    sized: dict[str, Any] = {"partitions": 1, "max_bytes": 10**6}
    for name in ("a", "b"):
        connection.create_topic(topic=name, **sized)
    connection.create_topic(topic="c", partitions=1)
    for call in ("create_topic", "alter_topic"):
        name = "c" if call == "alter_topic" else "d"
        error = refused("54000", connection.call, call, topic=name, max_bytes=10**6)
        assert "set_storage_bounds" in str(error.diag.message_hint)
    connection.alter_topic(topic="a", max_bytes=10**7)
    connection.alter_topic(topic="a", no_limit=["max_bytes"])
    clean(connection)
    connection.alter_topic(topic="c", max_bytes=10**6)


def test_above_a_bound(connection: Session) -> None:
    """What is there goes on: it is altered in other ways, and written to."""
    _lengths(connection, 10)
    connection.set_storage_bounds(max_retentions=3)
    connection.alter_topic(topic="t1", notify=True)
    connection.alter_topic(topic="t1", retention="2 minutes")
    assert connection.publish(topic="t5", payload=1, idempotency_key="k").log_offset == 1
    refused("54000", connection.alter_topic, topic="t1", retention="2 hours")


def test_two_at_the_same_time(connect: Connect, connection: Session) -> None:
    """The second one waits, and counts the first."""
    _lengths(connection, 23)
    first, second = connect(), connect()
    first.create_topic(topic="first", retention="2 hours")
    answer = blocked(
        connection,
        second,
        lambda: refused("54000", second.create_topic, topic="second", retention="3 hours"),
    )
    first.commit()
    assert results(answer)


def test_bad_bounds(connection: Session) -> None:
    for bad in ({"max_retentions": 0}, {"max_sized_topics": 1001}):
        refused("22023", connection.set_storage_bounds, **bad)


def test_only_the_owner_sets_them(connect: Connect, connection: Session) -> None:
    """A right to call it is not enough."""
    role = "bounds_caller"
    connection.execute(f"create role {role}")
    connection.execute(f"grant usage on schema pgq to {role}")
    connection.execute(f"grant execute on function pgq.set_storage_bounds to {role}")
    session = connect()
    session.execute(f"set role {role}")
    refused("42501", session.set_storage_bounds, max_retentions=1000)
    session.rollback()
    session.close()
    connection.execute(f"drop owned by {role}")
    connection.execute(f"drop role {role}")
