"""Bulk writes from several connections: attempts, commits and publishers that meet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from bulk_support import (
    MODES,
    begin,
    blocked,
    contents_of,
    new_queue,
    new_topic,
    numbers,
    stage,
    waiting,
)
from log_support import PATIENCE, aside
from pgq import Client, WriteLost

AnyConnection = psycopg.Connection[Any]
Connect = Callable[..., AnyConnection]


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.fixture
def client(connection: AnyConnection) -> Client:
    """A client on an autocommit connection."""
    return Client(connection)


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@MODES
def test_two_attempts_at_a_task(
    client: Client, connect: Connect, atomic: bool, commits: bool
) -> None:
    """The second one waits; its rows are left out, or count if the first one rolls back."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    first, second = connect(), connect()
    assert stage(Client(first), write_id, numbers(1, 3), attempt="first")
    waiter = Client(second)
    late = blocked(client, waiter, lambda: stage(waiter, write_id, numbers(1, 3), attempt="second"))
    if commits:
        first.commit()
    else:
        first.rollback()
    assert late.result(PATIENCE) is not commits
    second.commit()
    assert client.commit_write(write_id).messages == 3
    assert contents_of(client, topic) == {0: numbers(1, 3)}


def test_attempts_at_other_tasks_do_not_wait(client: Client, connect: Connect) -> None:
    """Nor do publishers wait for what is staged."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic)
    sessions = [connect() for _ in range(3)]
    for task, session in enumerate(sessions):
        session.execute("set lock_timeout = '1s'")
        stage(Client(session), write_id, numbers(task, task), task=task)
    client.publish(topic, body=b"before")
    for session in sessions:
        session.commit()
    client.commit_write(write_id)
    assert contents_of(client, topic) == {0: [b"before", *numbers(0, 2)]}


@MODES
def test_two_commits_of_one_write(client: Client, connect: Connect, atomic: bool) -> None:
    """The second one waits and repeats what the first one says, or does it if that rolls back."""
    topic = new_topic(client)
    for commits in (True, False):
        write_id = begin(client, topic=topic, atomic=atomic)
        stage(client, write_id, numbers(1, 3))
        first, second = connect(), connect()
        assert not Client(first).commit_write(write_id).repeated
        waiter = Client(second)
        late = blocked(client, waiter, lambda: waiter.commit_write(write_id))  # noqa: B023
        if commits:
            first.commit()
        else:
            first.rollback()
        assert late.result(PATIENCE).repeated is commits
        second.commit()
    assert contents_of(client, topic) == {0: numbers(1, 3) * 2}


@MODES
def test_starting_again_waits_for_a_commit(client: Client, connect: Connect, atomic: bool) -> None:
    """It learns that the write was committed, or takes it over if that is rolled back."""
    for commits in (True, False):
        topic = new_topic(client)
        target = {"topic": topic, "producer": "job", "seq": 1, "atomic": atomic}
        write_id = begin(client, **target)
        stage(client, write_id, numbers(1, 3))
        first, second = connect(), connect()
        Client(first).commit_write(write_id)
        waiter = Client(second)
        late = blocked(client, waiter, lambda: waiter.begin_write(**target))  # noqa: B023
        if commits:
            first.commit()
        else:
            first.rollback()
        state = late.result(PATIENCE)
        second.commit()
        assert state.repeated is commits
        assert (state.write_id == write_id) is commits
        if not commits:
            with pytest.raises(WriteLost):
                client.commit_write(write_id)


def test_two_begins_of_one_number(client: Client, connect: Connect) -> None:
    """The second one waits, and takes over: one of the two ids is good."""
    target = {"topic": new_topic(client), "producer": "job", "seq": 1}
    first, second = connect(), connect()
    old = begin(Client(first), **target)
    waiter = Client(second)
    late = blocked(client, waiter, lambda: begin(waiter, **target))
    first.commit()
    new = late.result(PATIENCE)
    second.commit()
    assert new != old
    with pytest.raises(WriteLost):
        stage(client, old, numbers(1, 3))
    assert stage(client, new, numbers(1, 3))


def test_a_commit_waits_for_a_chunk_in_flight(client: Client, connect: Connect) -> None:
    """When chunks are published as they come; that chunk is counted, and a later one refused."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=False)
    stage(client, write_id, numbers(1, 2))
    first, second = connect(), connect()
    stage(Client(first), write_id, numbers(3, 5), task=1)
    waiter = Client(second)
    late = blocked(client, waiter, lambda: waiter.commit_write(write_id, expected_messages=5))
    first.commit()
    assert late.result(PATIENCE).messages == 5
    third = connect()
    writer = Client(third)
    refused = blocked(client, writer, lambda: stage(writer, write_id, numbers(6, 6), task=2))
    second.commit()
    with pytest.raises(WriteLost):
        refused.result(PATIENCE)
    assert contents_of(client, topic) == {0: numbers(1, 5)}


@pytest.mark.parametrize("how", ["anew", "aborted"])
@MODES
def test_a_chunk_beside_the_end_of_its_attempt(
    client: Client, connect: Connect, atomic: bool, how: str
) -> None:
    """It comes before that, as long as that is not committed, and after it it is refused."""
    topic = new_topic(client)
    target = {"topic": topic, "producer": "job", "seq": 1, "atomic": atomic}
    write_id = begin(client, **target)
    first, second = connect(), connect()
    stage(Client(second), write_id, numbers(1, 2))
    if how == "anew":
        begin(Client(first), **target)
    else:
        assert Client(first).abort_write(write_id)
    stage(Client(second), write_id, numbers(3, 4), task=1)
    first.commit()
    second.commit()
    with pytest.raises(WriteLost):
        stage(client, write_id, numbers(5, 6), task=2)
    # published before, or left behind
    assert contents_of(client, topic) == ({} if atomic else {0: numbers(1, 4)})
    again = begin(client, **target)
    for task in (0, 1):
        contents = numbers(1 + 2 * task, 2 + 2 * task)
        assert stage(client, again, contents, task=task) is atomic
    assert client.commit_write(again).messages == 4
    assert contents_of(client, topic) == {0: numbers(1, 4)}


def test_an_attempt_in_flight_when_its_write_is_committed(client: Client, connect: Connect) -> None:
    """Atomic: the commit sees it, and does not publish half of it."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic)
    stage(client, write_id, numbers(1, 2))
    session, committing = connect(), connect()
    stage(Client(session), write_id, numbers(3, 4), task=1, last_chunk=False)
    committer = Client(committing)
    done = blocked(client, committer, lambda: committer.commit_write(write_id))
    session.commit()
    with pytest.raises(WriteLost) as caught:
        done.result(PATIENCE)
    assert "Task 1" in str(caught.value.detail)
    committing.rollback()
    stage(Client(session), write_id, numbers(5, 6), task=1, chunk=1)
    session.commit()
    assert client.commit_write(write_id).messages == 6
    with pytest.raises(WriteLost):
        stage(client, write_id, numbers(7, 8), task=2)
    assert contents_of(client, topic) == {0: numbers(1, 6)}


def test_publishers_wait_for_the_commit_of_a_write(client: Client, connect: Connect) -> None:
    """Those of its partitions only: offsets stand in the order of commits."""
    topic = new_topic(client, partitions=2)
    write_id = begin(client, topic=topic)
    stage(client, write_id, numbers(1, 2), partition=1)
    first, second = connect(), connect(autocommit=True)
    Client(first).commit_write(write_id)
    client.publish(topic, body=b"free", partition=0)
    publisher = Client(second)
    late = blocked(client, publisher, lambda: publisher.publish(topic, body=b"3", partition=1))
    first.commit()
    assert late.result(PATIENCE).log_offset == 3
    assert contents_of(client, topic) == {0: [b"free"], 1: numbers(1, 3)}


@pytest.mark.parametrize("keyed", [False, True], ids=["by task", "by key"])
def test_commits_over_all_partitions_do_not_deadlock(
    client: Client, connect: Connect, keyed: bool
) -> None:
    """Whatever the order of their tasks, and beside publishers of many keys."""
    topic = new_topic(client, partitions=4)
    keys = [f"key {n}" for n in range(40)]
    rounds, sessions = 15, [connect(autocommit=True) for _ in range(3)]
    gate = threading.Barrier(len(sessions))

    def commits(session: AnyConnection, order: list[int]) -> int:
        writer, total = Client(session), 0
        for _ in range(rounds):
            write_id = begin(writer, topic=topic)
            for task, home in enumerate(order):
                more = {"keys": keys} if keyed else {"partition": home}
                stage(writer, write_id, numbers(1, 40), task=task, **more)
            gate.wait(PATIENCE)
            total += writer.commit_write(write_id).messages or 0
        return total

    def publishes(session: AnyConnection) -> int:
        publisher, total = Client(session), 0
        for _ in range(rounds):
            gate.wait(PATIENCE)
            places = publisher.publish_batch(topic, bodies=numbers(1, 40), keys=keys)
            total += sum((p.last_offset or 0) - (p.first_offset or 0) + 1 for p in places)
        return total

    working = [
        aside(lambda: commits(sessions[0], [0, 1, 2, 3])),
        aside(lambda: commits(sessions[1], [3, 2, 1, 0])),
        aside(lambda: publishes(sessions[2])),
    ]
    assert [work.result(PATIENCE) for work in working] == [160 * rounds, 160 * rounds, 40 * rounds]
    assert sum(map(len, contents_of(client, topic).values())) == 360 * rounds


@MODES
def test_dropping_a_topic_that_is_written_to(
    client: Client, connect: Connect, atomic: bool
) -> None:
    """No deadlock: the drop waits for the writer, or the writer is refused."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    if atomic:
        stage(client, write_id, numbers(1, 2))
    first, second = connect(), connect()
    Client(first).drop_topic(topic)
    writer = Client(second)
    work: Callable[[], Any] = (
        (lambda: writer.commit_write(write_id))
        if atomic
        else (lambda: stage(writer, write_id, numbers(1, 2)))
    )
    late = blocked(client, writer, work)
    first.commit()
    with pytest.raises(psycopg.Error) as caught:
        late.result(PATIENCE)
    assert caught.value.sqlstate in ("MQ001", "MQ008")

    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    if atomic:
        stage(client, write_id, numbers(1, 2))
        Client(first).commit_write(write_id)
    else:
        stage(Client(first), write_id, numbers(1, 2))
    second.rollback()
    dropping = blocked(client, writer, lambda: writer.drop_topic(topic))
    first.commit()
    dropping.result(PATIENCE)
    second.commit()


def test_a_drop_and_a_commit_that_wait_for_the_same_partition(
    client: Client, connect: Connect
) -> None:
    """The one holds the topic's partitions, the other its write: neither needs what is held."""
    topic = new_topic(client, partitions=2)
    write_id = begin(client, topic=topic)
    stage(client, write_id, numbers(1, 2), task=1)
    holder, committer, dropper = connect(), connect(), connect()
    Client(holder).publish(topic, body=b"x", partition=1)
    writer, other = Client(committer), Client(dropper)
    committing = blocked(client, writer, lambda: writer.commit_write(write_id))
    dropping = blocked(client, other, lambda: other.drop_topic(topic))
    holder.commit()
    assert committing.result(PATIENCE).messages == 2
    committer.commit()
    dropping.result(PATIENCE)
    dropper.commit()


def test_many_writers_one_commit(client: Client, connect: Connect) -> None:
    """Each task is tried by two, and each message is there once."""
    queue = new_queue(client)
    write_id = begin(client, queue=queue)

    def attempt(name: str, tasks: list[int]) -> None:
        session = connect()
        writer = Client(session)
        for task in tasks:
            for chunk in range(3):
                first = 10 * task + 3 * chunk
                contents = numbers(first, first + 2)
                place = {"task": task, "attempt": name, "chunk": chunk, "last_chunk": chunk == 2}
                stage(writer, write_id, contents, **place)
            session.commit()

    tasks = list(range(10))
    working = [
        aside(lambda: attempt("one", tasks)),
        aside(lambda: attempt("two", tasks[::-1])),
        aside(lambda: attempt("three", tasks)),
    ]
    for work in working:
        work.result(PATIENCE)
    assert client.commit_write(write_id, expected_messages=90).messages == 90
    expected = [str(10 * task + n).encode() for task in tasks for n in range(9)]
    assert waiting(client, queue) == expected
