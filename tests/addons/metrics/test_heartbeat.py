"""heartbeat: what it notes, what it refuses, what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.session import Connect, Session, refused, unchanged
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session
from support.waiting import blocked

MAY = "2026-05-01 12:00:00+00"


def only(connection: Session) -> Any:
    [worker] = connection.list_workers()
    return worker


def test_what_it_notes(connection: Session, clock: Clock) -> None:
    clock.set_to(MAY)
    connection.heartbeat(
        worker="mill:1:ü",
        kind="press",
        host="mill",
        pid=1,
        sources=["b", "a"],
        running=2,
        started_at="2026-05-01 11:00+00",
    )
    found = only(connection)
    assert found[:6] == ("mill:1:ü", "press", "mill", 1, ["b", "a"], 2)
    assert (found.details, found.stale) == (None, False)
    assert found.started_at.isoformat().startswith("2026-05-01T11:00:00")
    assert found.last_seen_at.isoformat().startswith("2026-05-01T12:00:0")


def test_the_next_one_replaces_it(connection: Session, clock: Clock) -> None:
    """What is not said again is gone, but for when it began."""
    connection.heartbeat(worker="w", kind="press", host="mill", pid=7, sources=["a"], running=9)
    first = only(connection)
    assert first.started_at == first.last_seen_at
    clock.advance("10 seconds")
    connection.heartbeat(worker="w")
    second = only(connection)
    assert second[:6] == ("w", "worker", None, None, [], 0)
    assert second.started_at == first.started_at
    assert (second.last_seen_at - first.last_seen_at).total_seconds() >= 10
    connection.heartbeat(worker="w", started_at=MAY)
    assert only(connection).started_at.isoformat().startswith("2026-05-01T12:00:00")


def test_twice_in_one_transaction(connect: Connect, connection: Session) -> None:
    with connect() as session:
        session.heartbeat(worker="w", running=1)
        session.heartbeat(worker="w", running=2)
    assert only(connection).running == 2


@pytest.mark.parametrize("name", ["", "a\nb", "\x7f", "x" * 201])
def test_bad_names(connection: Session, name: str) -> None:
    with unchanged(connection):
        refused("22023", connection.heartbeat, worker=name)


def test_refusals(connection: Session) -> None:
    with unchanged(connection):
        refused("22004", connection.heartbeat, worker=None)
        refused("22023", connection.heartbeat, worker="w", kind="two words")
        refused("22023", connection.heartbeat, worker="w", running=-1)
        refused("22004", connection.heartbeat, worker="w", sources=["a", None])
        refused("22023", connection.heartbeat, worker="w", sources=[["a", "b"], ["c", "d"]])
    connection.heartbeat(worker="x" * 200)


def test_it_waits_no_longer_than_a_second(connect: Connect, connection: Session) -> None:
    """For another one of the same name, or an upgrade of the table."""
    connection.heartbeat(worker="w")
    holder, waiter = connect(), connect(autocommit=True)
    holder.heartbeat(worker="w")
    waiting = blocked(connection, waiter, lambda: refused("55P03", waiter.heartbeat, worker="w"))
    waiting.result(10)
    holder.rollback()


def test_it_leaves_no_bloat(connect: Connect, connection: Session) -> None:
    """Each new version stands on the page of the old one, and no index grows."""
    beat = "select pgq.heartbeat('w' || n, sources => array_fill('a'::text, array[20]))"
    connection.execute(f"{beat} from generate_series(1, 200) as n")
    with connect() as session:
        session.execute(f"{beat} from generate_series(1, 200) as n")
        [(updated, hot)] = session.execute(
            "select pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)"
            " from (select 'pgq.worker'::regclass::oid as c) as t"
        ).fetchall()
    assert (updated, hot) == (200, 200)


@pytest.mark.parametrize("level", LEVELS)
def test_one_that_came_after_the_snapshot(
    connect: Connect, connection: Session, level: str
) -> None:
    """It is not replaced unseen: try again, and then the later heartbeat counts."""
    session = old_session(connect, level)
    connection.heartbeat(worker="mill", running=1)

    def beat() -> str:
        session.heartbeat(worker="mill", running=2)
        return "noted"

    assert answer_of(session, beat) == TRY_AGAIN
    assert only(connection).running == 1
    assert answer_of(session, beat) == "noted"
    assert only(connection).running == 2
