"""list_workers: who is there, and who may be gone."""

from __future__ import annotations

from support.clock import Clock
from support.session import Connect, Session, refused


def test_by_name_and_stale_after_a_minute(connection: Session, clock: Clock) -> None:
    assert connection.list_workers() == []
    for name in ("b", "a", "C"):
        connection.heartbeat(worker=name)
    clock.advance("40 seconds")
    connection.heartbeat(worker="a")

    def stale(**how: str) -> list[tuple[str, bool]]:
        return [(found.worker, found.stale) for found in connection.list_workers(**how)]

    assert stale() == [("C", False), ("a", False), ("b", False)]
    assert stale(seen_within="30 seconds") == [("C", True), ("a", False), ("b", True)]
    clock.advance("30 seconds")
    assert stale() == [("C", True), ("a", False), ("b", True)]
    refused("22023", connection.list_workers, seen_within="0")


def test_reading_is_enough_for_it(connect: Connect, connection: Session) -> None:
    connection.heartbeat(worker="w")
    session = connect()
    session.execute("set transaction read only")
    assert [found.worker for found in session.list_workers()] == ["w"]
