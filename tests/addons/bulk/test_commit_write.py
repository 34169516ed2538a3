"""commit_write: what was staged is seen all at once, in order, and only once."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from support.bulk import MODES, NOBODY, begin, contents_of, numbers, stage, staged, waiting
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, refused

# ---------------------------------------------------------------------------- topics


def test_nothing_before_everything_after(connection: Session) -> None:
    """Messages of all tasks appear together, and nothing of the staging is left."""
    topic = new_topic(connection, partitions=2)
    write_id = begin(connection, topic=topic)
    for task in range(4):
        stage(connection, write_id, numbers(10 * task, 10 * task + 2), task=task)
    assert contents_of(connection, topic) == {}
    assert staged(connection, write_id) == 1 + 4 + 4
    state = connection.commit_write(write_id=write_id)
    assert (state.write_id, state.messages, state.duplicate) == (write_id, 12, False)
    assert state.committed_at is not None
    assert contents_of(connection, topic) == {
        0: numbers(0, 2) + numbers(20, 22),
        1: numbers(10, 12) + numbers(30, 32),
    }
    assert staged(connection, write_id) == 0


def test_a_rollback_leaves_it_as_it_was(connection: Session, connect: Connect) -> None:
    """The commit of the caller's transaction is the one that counts."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, numbers(1, 3))
    session = connect()
    assert not session.commit_write(write_id=write_id).duplicate
    assert contents_of(connection, topic) == {}
    session.rollback()
    assert contents_of(connection, topic) == {}
    assert not connection.commit_write(write_id=write_id).duplicate
    assert contents_of(connection, topic) == {0: numbers(1, 3)}


def test_repeated(connection: Session, connect: Connect) -> None:
    """Called again it tells what it did, and does nothing; in one transaction too."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, numbers(1, 3))
    with connect() as session:
        first, second = (
            session.commit_write(write_id=write_id),
            session.commit_write(write_id=write_id, expected_messages=3),
        )
    assert (first.duplicate, second.duplicate) == (False, True)
    assert (second.messages, second.committed_at) == (3, first.committed_at)
    assert connection.commit_write(write_id=write_id, expected_messages=7) == second
    assert contents_of(connection, topic) == {0: numbers(1, 3)}


def test_order_is_by_task_and_chunk(connection: Session) -> None:
    """Whatever the order in which they came."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    for task in (10, 2):
        for chunk in (10, 2, 0):
            contents = [f"{task}.{chunk}.{n}".encode() for n in range(3)]
            stage(connection, write_id, contents, task=task, chunk=chunk, last_chunk=chunk == 0)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic)[0] == [
        f"{task}.{chunk}.{n}".encode() for task in (2, 10) for chunk in (0, 2, 10) for n in range(3)
    ]


@pytest.mark.parametrize("partitions", [4, 40])
def test_each_message_goes_where_publish_batch_sends_it(
    connection: Session, partitions: int
) -> None:
    """By key; without a key by task; by name where a partition is named."""
    topic, other = new_topic(connection, partitions), new_topic(connection, partitions)
    keys = [f"key {n % 100}" for n in range(400)]
    contents = numbers(1, 400)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, contents, task=1, keys=keys)
    connection.commit_write(write_id=write_id)
    connection.publish_batch(topic=other, bodies=contents, keys=keys)
    assert contents_of(connection, topic) == contents_of(connection, other)
    assert len(contents_of(connection, topic)) > partitions / 2

    topic = new_topic(connection, partitions=4)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, [b"named"], task=0, partition=3)
    stage(connection, write_id, [b"named, keyed"], task=3, partition=2, keys=["a"])
    stage(connection, write_id, [b"by task"], task=5)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {1: [b"by task"], 2: [b"named, keyed"], 3: [b"named"]}


def test_messages_without_a_key_among_those_with_keys(connection: Session) -> None:
    """They go to the partition of their task, and keep their order there; chunks may be empty."""
    topic = new_topic(connection, partitions=4)
    write_id = begin(connection, topic=topic)
    for chunk, keys in enumerate([[None, "abc"], [None, "xyz1"], [None, None], []]):
        contents = [f"{chunk}.{key}".encode() for key in keys]
        stage(connection, write_id, contents, task=5, chunk=chunk, keys=keys, last_chunk=False)
    stage(connection, write_id, [b"4.None"], task=5, chunk=4)
    connection.commit_write(write_id=write_id)
    stored = contents_of(connection, topic)
    keyless = [content for content in stored[1] if content.endswith(b"None")]
    assert keyless == [b"0.None", b"1.None", b"2.None", b"2.None", b"4.None"]
    assert sum(len(contents) for contents in stored.values()) == 7


def test_keys_and_headers_arrive(connection: Session) -> None:
    """Those of some messages and none of others; JSON and bytes in one write."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(
        connection,
        write_id,
        [b"1", b"2"],
        keys=["k", None],
        headers=[None, {"h": "ä"}],
        last_chunk=False,
    )
    stage(connection, write_id, [b'"3"'], chunk=1, json=True)
    connection.commit_write(write_id=write_id)
    found = connection.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=3)
    assert [(m.key, m.headers, m.payload, m.body) for m in found] == [
        ("k", None, None, b"1"),
        (None, {"h": "ä"}, None, b"2"),
        (None, None, "3", None),
    ]


def test_offsets_and_times_go_on(connection: Session) -> None:
    """Behind what is there, and before what comes."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, [b"2", b"3"], last_chunk=False)
    stage(connection, write_id, [b"4"], chunk=1)
    connection.publish(topic=topic, body=b"1")
    connection.commit_write(write_id=write_id)
    connection.publish(topic=topic, body=b"5")
    found = connection.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=5)
    assert [m.body for m in found] == numbers(1, 5)
    assert [m.published_at for m in found] == sorted(m.published_at for m in found)


def test_partitions_that_were_added_meanwhile(connection: Session) -> None:
    """The number of partitions is that of the commit."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, [b"x"], task=1)
    connection.alter_topic(topic=topic, partitions=2)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {1: [b"x"]}


# ---------------------------------------------------------------------------- queues


def test_jobs(connection: Session) -> None:
    """With their labels, keys, headers and priorities, in the order of task and chunk."""
    queue = new_queue(connection)
    write_id = begin(connection, queue=queue)
    stage(connection, write_id, numbers(5, 6), task=1, priority=1)
    stage(connection, write_id, numbers(3, 4), chunk=1)
    stage(
        connection,
        write_id,
        numbers(1, 2),
        labels=["a", None],
        keys=[None, "k"],
        headers=[{"h": 1}, None],
        last_chunk=False,
    )
    stage(connection, write_id, [b"7"], task=2, priority=9, json=True)
    assert waiting(connection, queue) == []
    with pytest.raises(psycopg.Error) as caught:
        connection.commit_write(write_id=write_id)
    assert caught.value.sqlstate == "MQ008"
    # chunk 1 said that it was the last one, before chunk 0 came
    stage(connection, write_id, [], chunk=2)
    assert connection.commit_write(write_id=write_id).messages == 7
    jobs = connection.claim_job(queue=queue, max_jobs=100)
    assert [7 if job.body is None else job.body for job in jobs] == [*numbers(1, 6), 7]
    assert [job.priority for job in jobs] == [0, 0, 0, 0, 1, 1, 9]
    assert [(job.label, job.key, job.headers) for job in jobs[:3]] == [
        ("a", None, {"h": 1}),
        (None, "k", None),
        (None, None, None),
    ]


def test_delays(connection: Session) -> None:
    """Each chunk has its own, or the queue's."""
    queue = new_queue(connection)
    connection.alter_queue(queue=queue, delay=timedelta(hours=1))
    write_id = begin(connection, queue=queue)
    stage(connection, write_id, numbers(1, 2), delay=timedelta(0))
    stage(connection, write_id, numbers(3, 4), task=1)
    connection.commit_write(write_id=write_id)
    assert waiting(connection, queue) == numbers(1, 2)


# ---------------------------------------------------------------------------- refusals


def test_a_task_without_its_last_chunk(connection: Session) -> None:
    """MQ008, and nothing is published; started again it works."""
    target = {"topic": new_topic(connection), "producer": "job", "seq": 1}
    write_id = begin(connection, **target)
    stage(connection, write_id, numbers(1, 2))
    stage(connection, write_id, numbers(3, 4), task=1, last_chunk=False)
    error = refused("MQ008", connection.commit_write, write_id=write_id)
    assert "Task 1 staged 2 of unknown messages" in str(error.diag.message_detail)
    assert contents_of(connection, target["topic"]) == {}
    write_id = begin(connection, **target)
    stage(connection, write_id, numbers(1, 2))
    assert connection.commit_write(write_id=write_id).messages == 2


def test_chunks_in_several_transactions(connection: Session, connect: Connect) -> None:
    """A chunk whose transaction was rolled back is missed, or what came after the last one."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    session = connect()
    stage(connection, write_id, numbers(1, 2), last_chunk=False)
    stage(session, write_id, numbers(3, 4), chunk=1)
    session.rollback()
    refused("MQ008", connection.commit_write, write_id=write_id)
    stage(connection, write_id, numbers(3, 4), chunk=1)
    stage(connection, write_id, numbers(5, 6), chunk=2, last_chunk=False)
    error = refused("MQ008", connection.commit_write, write_id=write_id)
    assert "6 of 4" in str(error.diag.message_detail)
    assert contents_of(connection, topic) == {}


@MODES
def test_another_number_than_expected(connection: Session, atomic: bool) -> None:
    """22023 and nothing is changed: the right number is taken afterwards."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    stage(connection, write_id, numbers(1, 3))
    for number in (0, 2, 4, -1):
        error = refused(
            "22023", connection.commit_write, write_id=write_id, expected_messages=number
        )
        assert error.diag.message_detail == f"Expected: {number}; written: 3."
    assert contents_of(connection, topic) == ({} if atomic else {0: numbers(1, 3)})
    state = connection.commit_write(write_id=write_id, expected_messages=3)
    assert (state.messages, state.duplicate) == (3, False)
    assert contents_of(connection, topic) == {0: numbers(1, 3)}


def test_unknown_writes(connection: Session) -> None:
    """No id, that of nobody, and that of a write that was aborted."""
    refused("22004", connection.commit_write, write_id=None)
    refused("MQ008", connection.commit_write, write_id=NOBODY)
    write_id = begin(connection, topic=new_topic(connection))
    connection.abort_write(write_id=write_id)
    refused("MQ008", connection.commit_write, write_id=write_id)


@MODES
def test_dropped_targets(connection: Session, atomic: bool) -> None:
    """Also when there is another of the same name."""
    topic, queue = new_topic(connection), new_queue(connection)
    for target in ({"topic": topic}, {"queue": queue}):
        write_id = begin(connection, **target, atomic=atomic)
        stage(connection, write_id, numbers(1, 3))
        if "topic" in target:
            connection.drop_topic(topic=topic)
            connection.create_topic(topic=topic)
        else:
            connection.drop_queue(queue=queue)
            connection.create_queue(queue=queue)
        error = refused("MQ008", connection.commit_write, write_id=write_id)
        assert "dropped" in str(error.diag.message_detail)
    assert contents_of(connection, topic) == {}
    assert waiting(connection, queue) == []


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@MODES
def test_an_old_snapshot_would_lose_messages(
    connection: Session, connect: Connect, level: str, atomic: bool
) -> None:
    """So those isolation levels are refused: 25001."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    session = connect(isolation_level=level)
    session.execute("select from pgq.topic")
    stage(connection, write_id, numbers(1, 3))
    refused("25001", session.commit_write, write_id=write_id)
    session.rollback()
    refused("25001", session.commit_write, write_id=NOBODY)
    assert connection.commit_write(write_id=write_id).messages == 3


def test_read_uncommitted_is_read_committed(connection: Session, connect: Connect) -> None:
    """PostgreSQL makes no difference."""
    topic = new_topic(connection)
    session = connect(isolation_level="read uncommitted")
    write_id = begin(session, topic=topic)
    session.commit()
    stage(session, write_id, numbers(1, 3))
    stage(connection, write_id, numbers(4, 6), task=1)
    assert session.commit_write(write_id=write_id).messages == 6
    session.commit()
    assert contents_of(connection, topic) == {0: numbers(1, 6)}


def test_ten_thousand_chunks(connection: Session) -> None:
    """They take a second or two, not a minute, also in a session that made its plans with few."""
    topic = new_topic(connection, partitions=2)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, [])
    connection.commit_write(write_id=write_id)
    write_id = begin(connection, topic=topic)
    connection.execute(
        """
        with task as (
            insert into pgq.staged_task (write_id, task, task_attempt, staged_at, messages)
            select %(write_id)s, n, 'a', now(), 1000 from generate_series(0, 9) as n
            returning write_id, task
        )

        insert into pgq.staged_chunk
            (write_id, task, chunk, messages, lengths, starts, packed_bodies)
        select write_id, task, n, 1, array[length(n::text)], '{1}', convert_to(n::text, 'UTF8')
        from task, generate_series(0, 999) as n
        """,
        {"write_id": write_id},
    )
    connection.execute("set statement_timeout = '20s'")
    assert connection.commit_write(write_id=write_id).messages == 10000
    assert [found[:1000] for found in contents_of(connection, topic).values()] == [
        numbers(0, 999)
    ] * 2


def test_a_write_of_nothing(connection: Session) -> None:
    """Is committed like any other."""
    for target in ({"topic": new_topic(connection)}, {"queue": new_queue(connection)}):
        for atomic in (True, False):
            write_id = begin(connection, **target, atomic=atomic)
            assert connection.commit_write(write_id=write_id, expected_messages=0).messages == 0


def test_begin_stage_and_commit_in_one_transaction(connection: Session, connect: Connect) -> None:
    """One session alone may do it all at once, for several targets."""
    topic, queue = new_topic(connection), new_queue(connection)
    with connect() as session:
        for target in ({"topic": topic}, {"queue": queue}, {"topic": topic}):
            write_id = begin(session, **target)
            stage(session, write_id, numbers(1, 2))
            session.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(1, 2) * 2}
    assert waiting(connection, queue) == numbers(1, 2)


def test_a_repeated_write_with_other_tasks_is_told(connection: Session) -> None:
    """Chunks of the attempt before that do not come again stand in the topic beside new ones."""
    topic = new_topic(connection)
    first = begin(connection, topic=topic, producer="p", seq=1, atomic=False)
    stage(connection, first, numbers(1, 10), task=0)
    stage(connection, first, numbers(11, 20), task=1)
    again = begin(connection, topic=topic, producer="p", seq=1, atomic=False)
    stage(connection, again, numbers(1, 10), task=0)
    stage(connection, again, numbers(11, 20), task=0, chunk=1)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="in another way") as caught:
        connection.commit_write(write_id=again)
    assert "task 1" in str(caught.value.diag.message_detail)
    # with the same tasks it can still be committed
    stage(connection, again, numbers(11, 20), task=1)
    assert connection.commit_write(write_id=again).messages == 30
