"""list_queues: all of them, by name, with what was set."""

from __future__ import annotations

from support.session import Connect, Session, new_name


def test_they_come_by_name(connection: Session) -> None:
    stem = new_name("queue")
    for letter in "bca":
        connection.create_queue(queue=f"{stem}.{letter}")
    names = [found[0] for found in connection.list_queues()]
    assert [name for name in names if name.startswith(f"{stem}.")] == [
        f"{stem}.{letter}" for letter in "abc"
    ]
    assert len(names) == len(set(names))
    connection.execute("select pgq.drop_queue(%s)", [f"{stem}.b"])
    names = [found[0] for found in connection.list_queues()]
    assert f"{stem}.b" not in names
    assert f"{stem}.c" in names


def test_reading_is_enough_for_it(connect: Connect, queue: str) -> None:
    """Also twice in one transaction."""
    connection = connect()
    connection.execute("set transaction read only")
    first = connection.list_queues()
    assert queue in [found[0] for found in first]
    assert connection.list_queues() == first
