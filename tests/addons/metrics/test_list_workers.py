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


def test_one_that_beats_more_seldom(connection: Session, clock: Clock) -> None:
    """Stale is one whose next heartbeat is late; the metrics count it so."""
    for session_worker in connection.list_workers():
        connection.delete_worker(worker=session_worker.worker)
    connection.heartbeat(worker="slow", beat="2 minutes")
    connection.heartbeat(worker="plain")

    def stale() -> set[str]:
        found = {one.worker for one in connection.list_workers() if one.stale}
        silent = sum(
            metric.value
            for metric in connection.metrics()
            if metric.name == "pgq_workers" and metric.labels.get("state") == "silent"
        )
        assert silent == len(found)
        return found

    clock.advance("61 seconds")
    assert stale() == {"plain"}
    clock.advance("118 seconds")
    assert stale() == {"plain"}
    clock.advance("2 seconds")
    assert stale() == {"plain", "slow"}
    connection.heartbeat(worker="slow")
    clock.advance("61 seconds")
    assert stale() == {"plain", "slow"}, "the last heartbeat counts"
    for wrong in ("0", "-1 minute"):
        refused("22023", connection.heartbeat, worker="slow", beat=wrong)


def test_reading_is_enough_for_it(connect: Connect, connection: Session) -> None:
    connection.heartbeat(worker="w")
    session = connect()
    session.execute("set transaction read only")
    assert [found.worker for found in session.list_workers()] == ["w"]
