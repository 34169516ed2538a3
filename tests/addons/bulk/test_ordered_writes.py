"""Bulk writes to an ordered queue: jobs of a key follow each other by task and chunk."""

from __future__ import annotations

import pytest

from support.bulk import begin, stage
from support.ordered import add, broken, ordered_queue, taken_keys
from support.queue import ack, claim, claim_one, stats
from support.session import Connect, Session
from support.waiting import blocked


def given(connection: Session, queue: str) -> list[str]:
    """Work off a queue one by one, and return the keys and contents."""
    found = []
    while jobs := claim(connection, queue):
        found.append(f"{jobs[0].key} {bytes(jobs[0].body or b'').decode()}")
        assert ack(connection, jobs[0])
    assert broken(connection) == []
    assert taken_keys(connection, queue) == []
    return found


@pytest.mark.parametrize("atomic", [True, False])
def test_the_order_of_a_key(connection: Session, atomic: bool) -> None:
    queue = ordered_queue(connection)
    write_id = begin(connection, queue=queue, atomic=atomic)
    for task in (0, 1):
        for chunk in (0, 1):
            stage(
                connection,
                write_id,
                [f"{task}.{chunk}.{n}".encode() for n in range(3)],
                task=task,
                chunk=chunk,
                keys=["b", "a", "b"],
                last_chunk=chunk == 1,
            )
    connection.commit_write(write_id=write_id)
    assert broken(connection) == []
    assert stats(connection, queue) == {"ready": 2, "waiting": 10}
    found = given(connection, queue)
    for key in ("a", "b"):
        contents = [each for each in found if each.startswith(key)]
        assert contents == sorted(contents)
    assert len(found) == 12


def test_a_commit_behind_an_open_enqueue(connect: Connect, connection: Session) -> None:
    """It waits for the key, and takes all keys in one order, whatever the chunks say."""
    queue = ordered_queue(connection)
    first = add(connection, queue, "a")
    write_id = begin(connection, queue=queue)
    stage(connection, write_id, [b"z"], chunk=0, keys=["z"], last_chunk=False)
    stage(connection, write_id, [b"a"], chunk=1, keys=["a"])
    one, other = connect(), connect(autocommit=True)
    second = add(one, queue, "a")
    future = blocked(connection, other, lambda: other.commit_write(write_id=write_id))
    add(one, queue, "z")
    one.commit()
    assert future.result(30).messages == 2
    for number in (first, second):
        job = next(job for job in claim(connection, queue, 9) if job.key == "a")
        assert job.job_id == number
        assert ack(connection, job)
    assert bytes(claim_one(connection, queue).body or b"") == b"a"
    assert broken(connection) == []
