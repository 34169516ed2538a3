"""Bulk writes from several connections: attempts, commits and publishers that meet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.bulk import MODES, begin, contents_of, numbers, stage, waiting
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, refused
from support.waiting import PATIENCE, aside, blocked


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@MODES
def test_two_attempts_at_a_task(
    connection: Session, connect: Connect, atomic: bool, commits: bool
) -> None:
    """The second one waits; its rows are left out, or count if the first one rolls back."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    first, second = connect(), connect()
    assert stage(first, write_id, numbers(1, 3), attempt="first")
    late = blocked(
        connection, second, lambda: stage(second, write_id, numbers(1, 3), attempt="second")
    )
    if commits:
        first.commit()
    else:
        first.rollback()
    assert late.result(PATIENCE) is not commits
    second.commit()
    assert connection.commit_write(write_id=write_id).messages == 3
    assert contents_of(connection, topic) == {0: numbers(1, 3)}


def test_attempts_at_other_tasks_do_not_wait(connection: Session, connect: Connect) -> None:
    """Nor do publishers wait for what is staged."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    sessions = [connect() for _ in range(3)]
    for task, session in enumerate(sessions):
        session.execute("set lock_timeout = '1s'")
        stage(session, write_id, numbers(task, task), task=task)
    connection.publish(topic=topic, body=b"before")
    for session in sessions:
        session.commit()
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: [b"before", *numbers(0, 2)]}


@MODES
def test_two_commits_of_one_write(connection: Session, connect: Connect, atomic: bool) -> None:
    """The second one waits and repeats what the first one says, or does it if that rolls back."""
    topic = new_topic(connection)
    for commits in (True, False):
        write_id = begin(connection, topic=topic, atomic=atomic)
        stage(connection, write_id, numbers(1, 3))
        first, second = connect(), connect()
        assert not first.commit_write(write_id=write_id).duplicate
        late = blocked(connection, second, lambda: second.commit_write(write_id=write_id))  # noqa: B023
        if commits:
            first.commit()
        else:
            first.rollback()
        assert late.result(PATIENCE).duplicate is commits
        second.commit()
    assert contents_of(connection, topic) == {0: numbers(1, 3) * 2}


@MODES
def test_starting_again_waits_for_a_commit(
    connection: Session, connect: Connect, atomic: bool
) -> None:
    """It learns that the write was committed, or takes it over if that is rolled back."""
    for commits in (True, False):
        topic = new_topic(connection)
        target = {"topic": topic, "producer": "job", "seq": 1, "atomic": atomic}
        write_id = begin(connection, **target)
        stage(connection, write_id, numbers(1, 3))
        first, second = connect(), connect()
        first.commit_write(write_id=write_id)
        late = blocked(connection, second, lambda: second.begin_write(**target))  # noqa: B023
        if commits:
            first.commit()
        else:
            first.rollback()
        state = late.result(PATIENCE)
        second.commit()
        assert state.duplicate is commits
        assert (state.write_id == write_id) is commits
        if not commits:
            refused("MQ008", connection.commit_write, write_id=write_id)


def test_two_begins_of_one_number(connection: Session, connect: Connect) -> None:
    """The second one waits, and takes over: one of the two ids is good."""
    target = {"topic": new_topic(connection), "producer": "job", "seq": 1}
    first, second = connect(), connect()
    old = begin(first, **target)
    late = blocked(connection, second, lambda: begin(second, **target))
    first.commit()
    new = late.result(PATIENCE)
    second.commit()
    assert new != old
    refused("MQ008", lambda: stage(connection, old, numbers(1, 3)))
    assert stage(connection, new, numbers(1, 3))


def test_a_commit_waits_for_a_chunk_in_flight(connection: Session, connect: Connect) -> None:
    """When chunks are published as they come; that chunk is counted, and a later one refused."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=False)
    stage(connection, write_id, numbers(1, 2))
    first, second = connect(), connect()
    stage(first, write_id, numbers(3, 5), task=1)
    late = blocked(
        connection, second, lambda: second.commit_write(write_id=write_id, expected_messages=5)
    )
    first.commit()
    assert late.result(PATIENCE).messages == 5
    third = connect()
    late = blocked(connection, third, lambda: stage(third, write_id, numbers(6, 6), task=2))
    second.commit()
    refused("MQ008", lambda: late.result(PATIENCE))
    assert contents_of(connection, topic) == {0: numbers(1, 5)}


@pytest.mark.parametrize("how", ["anew", "aborted"])
@MODES
def test_a_chunk_beside_the_end_of_its_attempt(
    connection: Session, connect: Connect, atomic: bool, how: str
) -> None:
    """It comes before that, as long as that is not committed, and after it it is refused."""
    topic = new_topic(connection)
    target = {"topic": topic, "producer": "job", "seq": 1, "atomic": atomic}
    write_id = begin(connection, **target)
    first, second = connect(), connect()
    stage(second, write_id, numbers(1, 2))
    if how == "anew":
        begin(first, **target)
    else:
        assert first.abort_write(write_id=write_id)
    stage(second, write_id, numbers(3, 4), task=1)
    first.commit()
    second.commit()
    refused("MQ008", lambda: stage(connection, write_id, numbers(5, 6), task=2))
    # published before, or left behind
    assert contents_of(connection, topic) == ({} if atomic else {0: numbers(1, 4)})
    again = begin(connection, **target)
    for task in (0, 1):
        contents = numbers(1 + 2 * task, 2 + 2 * task)
        assert stage(connection, again, contents, task=task) is atomic
    assert connection.commit_write(write_id=again).messages == 4
    assert contents_of(connection, topic) == {0: numbers(1, 4)}


@MODES
def test_an_abort_beside_the_commit_of_the_write(
    connection: Session, connect: Connect, atomic: bool
) -> None:
    """It waits for it, and then there is nothing to give up."""
    topic = new_topic(connection)
    target = {"topic": topic, "producer": "job", "seq": 1, "atomic": atomic}
    write_id = begin(connection, **target)
    stage(connection, write_id, numbers(1, 2))
    first, second = connect(), connect(autocommit=True)
    first.commit_write(write_id=write_id)
    late = blocked(connection, second, lambda: second.abort_write(write_id=write_id))
    first.commit()
    assert late.result(PATIENCE) is False
    assert connection.begin_write(**target).duplicate
    assert contents_of(connection, topic) == {0: numbers(1, 2)}


def test_an_attempt_in_flight_when_its_write_is_committed(
    connection: Session, connect: Connect
) -> None:
    """Atomic: the commit sees it, and does not publish half of it."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, numbers(1, 2))
    session, committing = connect(), connect()
    stage(session, write_id, numbers(3, 4), task=1, last_chunk=False)
    done = blocked(connection, committing, lambda: committing.commit_write(write_id=write_id))
    session.commit()
    caught = refused("MQ008", lambda: done.result(PATIENCE))
    assert "Task 1" in str(caught.diag.message_detail)
    committing.rollback()
    stage(session, write_id, numbers(5, 6), task=1, chunk=1)
    session.commit()
    assert connection.commit_write(write_id=write_id).messages == 6
    refused("MQ008", lambda: stage(connection, write_id, numbers(7, 8), task=2))
    assert contents_of(connection, topic) == {0: numbers(1, 6)}


def test_publishers_wait_for_the_commit_of_a_write(connection: Session, connect: Connect) -> None:
    """Those of its partitions only: offsets stand in the order of commits."""
    topic = new_topic(connection, partitions=2)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, numbers(1, 2), partition=1)
    first, second = connect(), connect(autocommit=True)
    first.commit_write(write_id=write_id)
    connection.publish(topic=topic, body=b"free", partition=0)
    late = blocked(connection, second, lambda: second.publish(topic=topic, body=b"3", partition=1))
    first.commit()
    assert late.result(PATIENCE).log_offset == 3
    assert contents_of(connection, topic) == {0: [b"free"], 1: numbers(1, 3)}


@pytest.mark.parametrize("keyed", [False, True], ids=["by task", "by key"])
def test_commits_over_all_partitions_do_not_deadlock(
    connection: Session, connect: Connect, keyed: bool
) -> None:
    """Whatever the order of their tasks, and beside publishers of many keys."""
    topic = new_topic(connection, partitions=4)
    keys = [f"key {n}" for n in range(40)]
    rounds, sessions = 15, [connect(autocommit=True) for _ in range(3)]
    gate = threading.Barrier(len(sessions))

    def commits(session: Session, order: list[int]) -> int:
        writer, total = session, 0
        for _ in range(rounds):
            write_id = begin(writer, topic=topic)
            for task, home in enumerate(order):
                more = {"keys": keys} if keyed else {"partition": home}
                stage(writer, write_id, numbers(1, 40), task=task, **more)
            gate.wait(PATIENCE)
            total += writer.commit_write(write_id=write_id).messages or 0
        return total

    def publishes(session: Session) -> int:
        publisher, total = session, 0
        for _ in range(rounds):
            gate.wait(PATIENCE)
            places = publisher.publish_batch(topic=topic, bodies=numbers(1, 40), keys=keys)
            total += sum((p.last_offset or 0) - (p.first_offset or 0) + 1 for p in places)
        return total

    working = [
        aside(lambda: commits(sessions[0], [0, 1, 2, 3])),
        aside(lambda: commits(sessions[1], [3, 2, 1, 0])),
        aside(lambda: publishes(sessions[2])),
    ]
    assert [work.result(PATIENCE) for work in working] == [160 * rounds, 160 * rounds, 40 * rounds]
    assert sum(map(len, contents_of(connection, topic).values())) == 360 * rounds


@MODES
def test_dropping_a_topic_that_is_written_to(
    connection: Session, connect: Connect, atomic: bool
) -> None:
    """No deadlock: the drop waits for the second, or the second is refused."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    if atomic:
        stage(connection, write_id, numbers(1, 2))
    first, second = connect(), connect()
    first.drop_topic(topic=topic)
    work: Callable[[], Any] = (
        (lambda: second.commit_write(write_id=write_id))
        if atomic
        else (lambda: stage(second, write_id, numbers(1, 2)))
    )
    late = blocked(connection, second, work)
    first.commit()
    with pytest.raises(psycopg.Error) as caught:
        late.result(PATIENCE)
    assert caught.value.sqlstate in ("MQ001", "MQ008")

    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    if atomic:
        stage(connection, write_id, numbers(1, 2))
        first.commit_write(write_id=write_id)
    else:
        stage(first, write_id, numbers(1, 2))
    second.rollback()
    dropping = blocked(connection, second, lambda: second.drop_topic(topic=topic))
    first.commit()
    dropping.result(PATIENCE)
    second.commit()


def test_a_drop_and_a_commit_that_wait_for_the_same_partition(
    connection: Session, connect: Connect
) -> None:
    """The one holds the topic's partitions, the other its write: neither needs what is held."""
    topic = new_topic(connection, partitions=2)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, numbers(1, 2), task=1)
    holder, committer, dropper = connect(), connect(), connect()
    holder.publish(topic=topic, body=b"x", partition=1)
    committing = blocked(connection, committer, lambda: committer.commit_write(write_id=write_id))
    dropping = blocked(connection, dropper, lambda: dropper.drop_topic(topic=topic))
    holder.commit()
    assert committing.result(PATIENCE).messages == 2
    committer.commit()
    dropping.result(PATIENCE)
    dropper.commit()


def test_many_writers_one_commit(connection: Session, connect: Connect) -> None:
    """Each task is tried by two, and each message is there once."""
    queue = new_queue(connection)
    write_id = begin(connection, queue=queue)

    def attempt(name: str, tasks: list[int]) -> None:
        session = connect()
        for task in tasks:
            for chunk in range(3):
                first = 10 * task + 3 * chunk
                contents = numbers(first, first + 2)
                place = {"task": task, "attempt": name, "chunk": chunk, "last_chunk": chunk == 2}
                stage(session, write_id, contents, **place)
            session.commit()

    tasks = list(range(10))
    working = [
        aside(lambda: attempt("one", tasks)),
        aside(lambda: attempt("two", tasks[::-1])),
        aside(lambda: attempt("three", tasks)),
    ]
    for work in working:
        work.result(PATIENCE)
    assert connection.commit_write(write_id=write_id, expected_messages=90).messages == 90
    expected = [str(10 * task + n).encode() for task in tasks for n in range(9)]
    assert waiting(connection, queue) == expected
