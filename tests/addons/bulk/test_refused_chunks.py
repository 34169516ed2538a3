"""write_chunk refuses what could never be committed, and chunks that are not the same again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.bulk import MODES, begin, contents_of, numbers, stage, waiting
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, refused


@pytest.mark.parametrize(
    "more",
    [
        {"priority": 99},
        {"priority": 10},
        {"priority": -1},
        {"labels": ["a" * 255, "a" * 256]},
        {"delay": timedelta(seconds=-1)},
        {"delay": timedelta(days=7)},
        {"delay": timedelta(days=40000)},
    ],
    ids=lambda more: next(iter(more)) + str(next(iter(more.values())))[-12:],
)
@MODES
def test_jobs_that_enqueue_batch_would_refuse(
    connection: Session, atomic: bool, more: dict[str, Any]
) -> None:
    """By the call that brings them, in a chunk without jobs too; the write goes on."""
    queue = new_queue(connection)
    connection.alter_queue(queue=queue, job_ttl=timedelta(days=7))
    write_id = begin(connection, queue=queue, atomic=atomic)
    refused("22023", lambda: stage(connection, write_id, numbers(1, 2), **more))
    if "labels" not in more:
        refused("22023", lambda: stage(connection, write_id, [], **more))
    assert stage(
        connection,
        write_id,
        numbers(1, 2),
        priority=9,
        labels=["a" * 255, None],
        delay=timedelta(0),
    )
    assert connection.commit_write(write_id=write_id).messages == 2
    assert waiting(connection, queue) == numbers(1, 2)


@MODES
def test_a_delay_where_jobs_do_not_expire(connection: Session, atomic: bool) -> None:
    """Any that an interval may have."""
    queue = new_queue(connection)
    connection.alter_queue(queue=queue, no_limit=["job_ttl"])
    write_id = begin(connection, queue=queue, atomic=atomic)
    assert stage(connection, write_id, numbers(1, 2), delay=timedelta(days=36500))
    assert connection.commit_write(write_id=write_id).messages == 2


@pytest.mark.parametrize("starts", [None, [1, 2147483647]], ids=["lengths", "starts"])
@MODES
def test_lengths_beyond_all_bounds(
    connection: Session, atomic: bool, starts: list[int] | None
) -> None:
    """They do not add up, however large: 22023, never an overflow."""
    write_id = begin(connection, topic=new_topic(connection), atomic=atomic)
    for lengths in ([2147483647, 2147483647], [1, 2147483647], [2147483647, 1]):
        refused(
            "22023",
            connection.write_chunk,
            write_id=write_id,
            task=0,
            task_attempt="first",
            chunk=0,
            lengths=lengths,
            starts=starts,
            packed_bodies=b"ab",
        )


@MODES
def test_starts_in_a_grid(connection: Session, atomic: bool) -> None:
    """One dimension, as elsewhere, and bounds of any kind."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    query = (
        "select pgq.write_chunk(%s, 0, 'a', 0, {}::integer[], starts => {}::integer[],"
        " last_chunk => true, packed_bodies => 'abc')"
    )
    for lengths, starts in (
        ("'{{1,2}}'", "'{{1,2}}'"),
        ("'{1,2}'", "'{{1,2}}'"),
        ("'[0:1]={1,2}'", "'[0:1]={2,3}'"),
        ("'[0:1]={1,2}'", "'[5:6]={1,3}'"),
    ):
        refused(
            "22023", connection.execute, query=query.format(lengths, starts),
            params=[write_id],
        )  # fmt: skip
    connection.execute(query.format("'[0:1]={1,2}'", "'[5:6]={1,2}'"), [write_id])
    assert connection.commit_write(write_id=write_id).messages == 2
    assert contents_of(connection, topic) == {0: [b"a", b"bc"]}


@pytest.mark.parametrize("kind", ["packed_payloads", "packed_bodies"])
@pytest.mark.parametrize("target", ["topic", "queue"])
@MODES
def test_starts_that_do_not_fit(connection: Session, atomic: bool, target: str, kind: str) -> None:
    """Refused everywhere, also where nothing is found by them."""
    name = new_topic(connection) if target == "topic" else new_queue(connection)
    write_id = begin(connection, atomic=atomic, **{target: name})
    query = (
        "select pgq.write_chunk(%s, 0, 'a', 0, '{1,1}', last_chunk => true,"
        f" {kind} => '12', starts => '{{}}')"
    )
    for code, starts in (
        ("22023", "{1}"),
        ("22023", "{1,3}"),
        ("22023", "{0,1}"),
        ("22023", "{{1,2}}"),
        ("22004", "{1,null}"),
    ):
        refused(
            code, connection.execute, query=query.replace("{}", starts).encode(),
            params=[write_id],
        )  # fmt: skip
    connection.execute(query.replace("{}", "{1,2}").encode(), [write_id])
    assert connection.commit_write(write_id=write_id).messages == 2


@MODES
def test_lengths_in_a_grid_with_a_null(connection: Session, atomic: bool) -> None:
    write_id = begin(connection, topic=new_topic(connection), atomic=atomic)
    query = "select pgq.write_chunk(%s, 0, 'a', 0, '{{1,null}}', packed_bodies => 'a')"
    refused("22023", connection.execute, query=query.encode(), params=[write_id])


# ---------------------------------------------------------------------------- the same again


@pytest.mark.parametrize(
    "other",
    [
        {"priority": 2},
        {},
        {"delay": timedelta(hours=2)},
        {"labels": ["b", "a"]},
        {"labels": None, "keys": ["a", "b"]},
    ],
    ids=str,
)
@MODES
def test_a_repeated_chunk_of_other_jobs(
    connection: Session, connect: Connect, atomic: bool, other: dict[str, Any]
) -> None:
    """Priority and delay count like the contents."""
    queue = new_queue(connection)
    write_id = begin(connection, queue=queue, atomic=atomic)
    jobs = {"priority": 1, "delay": timedelta(0), "labels": ["a", "b"]}
    with connect() as session:
        assert stage(session, write_id, numbers(1, 2), **jobs)
        assert not stage(session, write_id, numbers(1, 2), **jobs)
        session.execute("savepoint before")
        changed = {**jobs, **other} if other else {**jobs, "delay": None}
        refused("22023", lambda: stage(session, write_id, numbers(1, 2), **changed))
        session.execute("rollback to savepoint before")
    assert connection.commit_write(write_id=write_id).messages == 2
    assert waiting(connection, queue) == numbers(1, 2)


@MODES
def test_a_repeated_chunk_that_says_the_default(connection: Session, atomic: bool) -> None:
    """Priority 0 is what no priority means."""
    write_id = begin(connection, queue=new_queue(connection), atomic=atomic)
    assert stage(connection, write_id, numbers(1, 2))
    assert not stage(connection, write_id, numbers(1, 2), priority=0)
    refused("22023", lambda: stage(connection, write_id, numbers(1, 2), priority=1))
    assert connection.commit_write(write_id=write_id).messages == 2


@pytest.mark.parametrize("starts_first", [True, False])
@MODES
def test_a_repeated_chunk_with_starts_and_without(
    connection: Session, atomic: bool, starts_first: bool
) -> None:
    """How it is stored is no matter of the writer's."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    forms: list[dict[str, Any]] = [{"starts": [1, 2, 3]}, {}]
    first, second = forms if starts_first else forms[::-1]
    assert stage(connection, write_id, numbers(1, 3), **first)
    assert not stage(connection, write_id, numbers(1, 3), **second)
    refused("22023", lambda: stage(connection, write_id, numbers(2, 4), **second))
    assert connection.commit_write(write_id=write_id).messages == 3
    assert contents_of(connection, topic) == {0: numbers(1, 3)}


# ---------------------------------------------------------------------------- what changes later


def test_a_job_ttl_that_became_shorter_than_a_delay(connection: Session) -> None:
    """The commit names the chunk, publishes nothing, and works once it is long enough again."""
    queue = new_queue(connection)
    connection.alter_queue(queue=queue, job_ttl=timedelta(days=7))
    write_id = begin(connection, queue=queue)
    stage(connection, write_id, numbers(1, 2))
    stage(connection, write_id, numbers(3, 4), task=3, delay=timedelta(days=3))
    connection.alter_queue(queue=queue, job_ttl=timedelta(days=2))
    error = refused("22023", connection.commit_write, write_id=write_id)
    assert "chunk 0 of task 3" in str(error.diag.message_primary)
    assert "3 days" in str(error.diag.message_detail)
    assert "2 days" in str(error.diag.message_detail)
    assert "alter_queue" in str(error.diag.message_hint)
    assert waiting(connection, queue) == []
    connection.alter_queue(queue=queue, job_ttl=timedelta(days=4))
    assert connection.commit_write(write_id=write_id).messages == 4
    assert waiting(connection, queue) == numbers(1, 2)


@MODES
def test_a_delay_of_the_queue_that_became_longer(connection: Session, atomic: bool) -> None:
    """Chunks without a delay of their own take that of the moment when they are enqueued."""
    queue = new_queue(connection)
    write_id = begin(connection, queue=queue, atomic=atomic)
    stage(connection, write_id, numbers(1, 2))
    connection.alter_queue(queue=queue, delay=timedelta(days=1))
    connection.pause_queue(queue=queue)
    assert connection.commit_write(write_id=write_id).messages == 2
    connection.resume_queue(queue=queue)
    assert waiting(connection, queue) == ([] if atomic else numbers(1, 2))


@MODES
def test_partitions_and_retention_that_changed(connection: Session, atomic: bool) -> None:
    """Keyed messages go where publish_batch sends them now."""
    topic = new_topic(connection)
    keys = [str(number) for number in range(40)]
    write_id = begin(connection, topic=topic, atomic=atomic)
    stage(connection, write_id, numbers(0, 39), keys=keys)
    connection.alter_topic(topic=topic, partitions=3, retention=timedelta(hours=1), notify=True)
    stage(connection, write_id, numbers(40, 79), task=1, keys=keys)
    assert connection.commit_write(write_id=write_id).messages == 80
    other = new_topic(connection, partitions=3)
    connection.publish_batch(topic=other, bodies=numbers(0, 39), keys=keys)
    found, expected = contents_of(connection, topic), contents_of(connection, other)
    shift = {number: str(40 + int(number)).encode() for number in numbers(0, 39)}
    for partition, contents in expected.items():
        later = [shift[content] for content in contents]
        assert found[partition][-len(later) :] == later
        if atomic:
            assert found[partition] == contents + later
