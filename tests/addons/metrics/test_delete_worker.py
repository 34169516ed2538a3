"""delete_worker, and cleanup, which forgets those that were not seen for a day."""

from __future__ import annotations

from support.clock import Clock
from support.session import Connect, Session, refused


def names(connection: Session) -> list[str]:
    return [found.worker for found in connection.list_workers()]


def test_one_that_has_ended(connection: Session) -> None:
    connection.heartbeat(worker="a")
    connection.heartbeat(worker="b")
    assert connection.delete_worker(worker="a") is True
    assert connection.delete_worker(worker="a") is False
    assert names(connection) == ["b"]
    connection.heartbeat(worker="a")
    assert names(connection) == ["a", "b"]
    refused("22004", connection.delete_worker, worker=None)
    refused("22023", connection.delete_worker, worker="")


def test_twice_in_one_transaction(connect: Connect, connection: Session) -> None:
    connection.heartbeat(worker="a")
    with connect() as session:
        assert session.delete_worker(worker="a") is True
        assert session.delete_worker(worker="a") is False


def test_after_a_day(connection: Session, clock: Clock) -> None:
    connection.heartbeat(worker="old")
    clock.advance("23 hours")
    connection.heartbeat(worker="new")
    assert connection.cleanup() == []
    clock.advance("2 hours")
    assert connection.cleanup() == [("workers forgotten", "workers", 1)]
    assert names(connection) == ["new"]


def test_a_bounded_piece_of_work(connection: Session, clock: Clock) -> None:
    """And nobody is waited for."""
    connection.execute("select pgq.heartbeat('w' || n) from generate_series(1, 1001) as n")
    clock.advance("2 days")
    assert connection.cleanup() == [("workers forgotten", "workers", 1000), ("more", "workers", 1)]
    assert connection.cleanup() == [("workers forgotten", "workers", 1)]


def test_one_that_is_just_heard_of_again(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    connection.heartbeat(worker="w")
    clock.advance("2 days")
    with connect() as session:
        session.heartbeat(worker="w")
        assert connection.cleanup() == []
    assert names(connection) == ["w"]
