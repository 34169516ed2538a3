"""Digests of bulk writes: a number that comes again with other messages is refused."""

from __future__ import annotations

from support.bulk import MODES, begin, numbers, stage
from support.log import new_topic
from support.session import Session, refused


@MODES
def test_the_digest(connection: Session, atomic: bool) -> None:
    """Repeated with another one it is refused, with the same or none it is a duplicate."""
    target = {"topic": new_topic(connection), "producer": "p", "seq": 1, "atomic": atomic}
    write_id = begin(connection, **target)
    stage(connection, write_id, numbers(1, 3))
    assert not connection.commit_write(write_id=write_id, digest="one").duplicate
    again = connection.begin_write(**target)
    assert again.duplicate
    assert connection.commit_write(write_id=again.write_id, digest="one").duplicate
    assert connection.commit_write(write_id=again.write_id).duplicate
    error = refused("22023", connection.commit_write, write_id=again.write_id, digest="two")
    assert "with other messages" in str(error)
    assert 'Write 1 of producer "p"' in str(error.diag.message_detail)


def test_no_digest_at_the_commit(connection: Session) -> None:
    """Then a later one has nothing to be compared with."""
    write_id = begin(connection, topic=new_topic(connection), producer="p", seq=1)
    connection.commit_write(write_id=write_id)
    assert connection.commit_write(write_id=write_id, digest="two").duplicate
