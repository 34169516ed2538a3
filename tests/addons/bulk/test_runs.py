"""Long tasks of atomic writes: messages are stored once, and the commit says where they are."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.bulk import begin, contents_of, numbers, runs, stage, stage_long, staged
from support.log import new_topic, offsets
from support.queue import new_queue
from support.session import Connect, Session, row

LONG = 600
"""Enough messages for a run that is taken in, and not copied."""


def stored(session: Session, topic: str) -> int:
    """How many rows hold the messages of a topic, whether they are in the log or not."""
    (count,) = row(
        session,
        "select count(*) from pgq.message as m where m.partition_id in ("
        " select r.stored_partition_id from pgq.segment_range as r"
        " inner join pgq.partition as p on p.partition_id = r.partition_id where p.topic = %s)",
        [topic],
    )
    return int(count)


def written(session: Session, partitions: int = 1, tasks: int = 1, **more: Any) -> str:
    """A topic with a message in each partition, and behind it a committed write of long tasks."""
    topic = new_topic(session, partitions, messages=1)
    write_id = begin(session, topic=topic)
    for task in range(tasks):
        first = task * 1000
        stage_long(session, write_id, numbers(first, first + LONG - 1), task=task, **more)
    session.commit_write(write_id=write_id)
    return topic


def test_messages_are_stored_once(connection: Session) -> None:
    """Before the commit nobody sees them; it takes them in as they are, in the order of tasks."""
    topic = new_topic(connection, 2, messages=1)
    write_id = begin(connection, topic=topic)
    for task in (3, 0, 1):
        stage_long(connection, write_id, numbers(1000 * task, 1000 * task + LONG - 1), task=task)
    assert contents_of(connection, topic) == {0: [1], 1: [1]}
    at = row(connection, "select max(ctid::text || xmin::text) from pgq.message where key is null")
    state = connection.commit_write(write_id=write_id, expected_messages=3 * LONG)
    assert state.messages == 3 * LONG
    assert contents_of(connection, topic) == {
        0: [1, *numbers(0, LONG - 1)],
        1: [1, *numbers(1000, 1000 + LONG - 1), *numbers(3000, 3000 + LONG - 1)],
    }
    assert runs(connection, topic) == [(0, 2), (1, 2), (1, 2 + LONG)]
    assert staged(connection, write_id) == 0
    assert stored(connection, topic) == 2 + 3 * LONG
    assert at == row(
        connection, "select max(ctid::text || xmin::text) from pgq.message where key is null"
    )


def test_all_readers_see_them(connection: Session) -> None:
    """By every way, over the edges of runs, with what is published behind them."""
    topic = written(connection, tasks=2)
    for number in range(3):
        connection.publish(topic=topic, payload=number)
    connection.publish_batch(topic=topic, payloads=[3, 4], keys=["a", None])
    wanted = [1, *numbers(0, LONG - 1), *numbers(1000, 1000 + LONG - 1), 0, 1, 2, 3, 4]
    last = 6 + 2 * LONG

    def content(message: Any) -> Any:
        return message.payload if message.body is None else message.body

    assert [
        (part.first_offset, part.last_offset) for part in connection.list_offsets(topic=topic)
    ] == [(1, last)]
    for group in ("consumed", "polled", "claimed", "fetched"):
        connection.create_group(topic=topic, consumer_group=group, start="earliest")
    consumed: list[Any] = []
    while found := connection.consume(topic=topic, consumer_group="consumed", max_messages=173):
        consumed += found
    polled: list[Any] = []
    while found := connection.poll(topic=topic, consumer_group="polled", max_messages=311):
        polled += found
        assert connection.commit_offset(
            topic=topic,
            consumer_group="polled",
            partition=0,
            committed_offset=found[-1].log_offset,
            lease_token=found[-1].lease_token,
        )
    claimed: list[Any] = []
    while spans := connection.claim_offsets(
        topic=topic, consumer_group="claimed", max_messages=1000
    ):
        claimed += connection.fetch_range(
            topic=topic,
            partition=0,
            first_offset=spans[0].first_offset,
            last_offset=spans[0].last_offset,
        )
    fetched = connection.fetch(topic=topic, consumer_group="fetched", max_messages=10_000)
    viewed = connection.execute(
        "select m.log_offset, m.payload, m.body, m.published_at from pgq.messages as m"
        " where m.partition_id = (select pgq.check_range(%s, 0, 1, %s))"
        " and m.log_offset between 1 and %s order by m.log_offset",
        [topic, last, last],
    ).fetchall()
    for messages in (consumed, polled, claimed, fetched):
        assert offsets(messages) == list(range(1, last + 1))
        assert [content(message) for message in messages] == wanted
    assert [one[0] for one in viewed] == list(range(1, last + 1))
    assert [one[1] if one[2] is None else one[2] for one in viewed] == wanted
    times = [message.published_at for message in consumed]
    assert times == sorted(times) == [one[3] for one in viewed]
    assert row(
        connection,
        "select first_offset, last_offset, messages, published_last_minute from pgq.topic_stats"
        " where topic = %s",
        [topic],
    ) == (1, last, last, last)
    assert (
        connection.list_offsets(topic=topic, published_at=times[700])[0].log_offset
        == times.index(times[700]) + 1
    )


def test_a_view_reads_only_a_part(connection: Session) -> None:
    """By the offset at which a run begins, only that run is looked at."""
    topic = written(connection, tasks=2)
    found = connection.execute(
        "select min(m.log_offset), max(m.log_offset), count(*) from pgq.messages as m"
        " where m.partition_id = (select pgq.check_range(%s, 0, 1, 1 + %s))"
        " and m.extent_offset = %s",
        [topic, 2 * LONG, 2 + LONG],
    ).fetchone()
    assert found == (2 + LONG, 1 + 2 * LONG, LONG)


@pytest.mark.parametrize("json", [False, True], ids=["bytes", "json"])
def test_keys_go_to_their_partitions(connection: Session, json: bool) -> None:
    """Where a publish with the key would go, in order; those without one to that of the task."""
    topic = new_topic(connection, 4)
    keys: list[str | None] = [None if n % 7 == 0 else f"key {n % 13}" for n in range(4000)]
    contents = numbers(0, 3999)
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, contents, chunks=3, keys=keys, task=2, json=json)
    connection.commit_write(write_id=write_id)
    found = connection.execute(
        "select partition, key, coalesce(payload::text, convert_from(body, 'UTF8'))::int"
        " from pgq.messages where topic = %s order by partition, log_offset",
        [topic],
    ).fetchall()
    assert sorted(number for _, _, number in found) == list(range(4000))
    homes = {
        key: connection.publish(topic=topic, payload=0, key=key).partition
        for key in {*keys}
        if key is not None
    }
    for place, key, number in found:
        assert key == keys[number]
        assert place == (2 if key is None else homes[key])
    for partition in range(4):
        order = [number for place, _, number in found if place == partition]
        assert order == sorted(order)
    assert runs(connection, topic)


def test_more_partitions_before_the_commit(connection: Session) -> None:
    """What was divided among fewer partitions goes where its keys belong now."""
    topic = new_topic(connection, 2)
    keys = [f"key {n % 50}" for n in range(6000)]
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, numbers(0, 5999), keys=keys)
    connection.alter_topic(topic=topic, partitions=5)
    connection.commit_write(write_id=write_id)
    found = connection.execute(
        "select partition, key, convert_from(body, 'UTF8')::int from pgq.messages"
        " where topic = %s order by partition, log_offset",
        [topic],
    ).fetchall()
    assert sorted(number for _, _, number in found) == list(range(6000))
    assert {place for place, _, _ in found} == set(range(5))
    for key in {*keys}:
        mine = [(place, number) for place, found_key, number in found if found_key == key]
        assert [number for _, number in mine] == sorted(number for _, number in mine)
        place = connection.publish(topic=topic, payload=0, key=key).partition
        assert {found_place for found_place, _ in mine} == {place}


def test_short_runs_are_copied(connection: Session) -> None:
    """So that reading does not have to go from one to the next; order is kept between both."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, numbers(0, 49), task=0)
    stage_long(connection, write_id, numbers(1000, 999 + LONG), task=1)
    stage(connection, write_id, numbers(5000, 5009), task=2)
    stage_long(connection, write_id, numbers(6000, 6049), task=3)
    stage_long(connection, write_id, numbers(7000, 6999 + LONG), task=4)
    stage_long(connection, write_id, numbers(8000, 8049), task=5)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic)[0] == [
        *numbers(0, 49),
        *numbers(1000, 999 + LONG),
        *numbers(5000, 5009),
        *numbers(6000, 6049),
        *numbers(7000, 6999 + LONG),
        *numbers(8000, 8049),
    ]
    assert runs(connection, topic) == [(0, 51), (0, 51 + LONG + 60)]
    assert staged(connection, write_id) == 0


def test_many_writes_one_behind_the_other(connection: Session) -> None:
    """Each is taken in behind the one before, with ordinary messages between."""
    topic = new_topic(connection)
    wanted: list[Any] = []
    for number in range(5):
        write_id = begin(connection, topic=topic)
        contents = numbers(number * 1000, number * 1000 + LONG - 1)
        stage_long(connection, write_id, contents)
        connection.commit_write(write_id=write_id)
        wanted += contents
        if number % 2:
            connection.publish(topic=topic, payload=number)
            wanted.append(number)
    assert contents_of(connection, topic)[0] == wanted
    assert len(runs(connection, topic)) == 5


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_publisher_with_an_older_snapshot(
    connection: Session, connect: Connect, level: str
) -> None:
    """It conflicts, as with any message that came behind its snapshot."""
    topic = new_topic(connection, messages=1)
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, numbers(1, LONG))
    for publish in (
        lambda session: session.publish(topic=topic, payload=1),
        lambda session: session.publish_batch(topic=topic, payloads=[1, 2]),
    ):
        session = connect(isolation_level=level)
        session.list_offsets(topic=topic)
        if staged(connection, write_id):
            connection.commit_write(write_id=write_id)
        else:
            again = begin(connection, topic=topic)
            stage_long(connection, again, numbers(1, LONG))
            connection.commit_write(write_id=again)
        with pytest.raises(psycopg.errors.SerializationFailure):
            publish(session)
        session.rollback()
    assert len(contents_of(connection, topic)[0]) == 1 + 2 * LONG


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_reader_with_an_older_snapshot(connection: Session, connect: Connect, level: str) -> None:
    """It sees what was there then, without a gap."""
    topic = new_topic(connection, messages=3)
    session = connect(isolation_level=level)
    session.list_offsets(topic=topic)
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, numbers(1, LONG))
    connection.commit_write(write_id=write_id)
    connection.publish(topic=topic, payload=["behind"])
    assert offsets(session.fetch(topic=topic, consumer_group="readers", max_messages=5000)) == [
        1,
        2,
        3,
    ]
    session.rollback()
    assert len(connection.consume(topic=topic, consumer_group="readers", max_messages=5000)) == (
        LONG + 4
    )


def test_a_consumer_in_the_middle_of_its_transaction(connection: Session, connect: Connect) -> None:
    """What it takes before and behind the commit has no gap."""
    topic = new_topic(connection, messages=5)
    session = connect()
    taken = session.consume(topic=topic, consumer_group="readers", max_messages=3)
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, numbers(1, LONG))
    connection.commit_write(write_id=write_id)
    connection.publish(topic=topic, payload=["behind"])
    while found := session.consume(topic=topic, consumer_group="readers", max_messages=100):
        taken += found
    session.commit()
    assert offsets(taken) == list(range(1, LONG + 7))


def test_a_chunk_above_read_committed_is_no_run(connection: Session, connect: Connect) -> None:
    """Its snapshot may be older than the segment; so it is written to its place at the commit."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    session = connect(isolation_level="repeatable read")
    stage_long(session, write_id, numbers(1, LONG))
    session.commit()
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(1, LONG)}
    assert runs(connection, topic) == []


@pytest.mark.parametrize("ordered", [False, True], ids=["plain", "ordered"])
def test_a_subscription_before_the_commit(connection: Session, ordered: bool) -> None:
    """Jobs are made of all messages, as of any that are published."""
    topic = new_topic(connection)
    queue = new_queue(connection, ordered=ordered)
    write_id = begin(connection, topic=topic)
    keys = [f"key {n % 5}" for n in range(LONG)]
    stage_long(connection, write_id, numbers(0, LONG - 1), keys=keys)
    connection.subscribe(subscription=queue, topic=topic, queue=queue)
    connection.commit_write(write_id=write_id)
    found = []
    while jobs := connection.claim_job(queue=queue, max_jobs=1000):
        found += [job.body for job in jobs]
        for job in jobs:
            connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    assert sorted(found) == sorted(numbers(0, LONG - 1))
    if ordered:
        for rest in range(5):
            mine = [int(body) for body in found if int(body) % 5 == rest]
            assert mine == sorted(mine)
    assert contents_of(connection, topic) == {0: numbers(0, LONG - 1)}


def test_jobs_of_what_comes_behind_runs(connection: Session) -> None:
    """A subscription of a topic that has runs already gets what is published from then on."""
    topic = written(connection)
    queue = new_queue(connection)
    connection.subscribe(subscription=queue, topic=topic, queue=queue)
    connection.publish_batch(topic=topic, payloads=list(range(10)))
    connection.publish(topic=topic, payload=["one"])
    assert [job.payload for job in connection.claim_job(queue=queue, max_jobs=100)] == [
        *range(10),
        ["one"],
    ]


def test_a_deferred_topic(connection: Session) -> None:
    """What was published before the commit has the lower offsets."""
    topic = new_topic(connection, deferred=True)
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, numbers(1, LONG))
    connection.publish(topic=topic, payload=["before"])
    connection.commit_write(write_id=write_id)
    connection.publish(topic=topic, payload=["behind"])
    connection.assign_offsets(topic=topic)
    assert contents_of(connection, topic) == {0: [["before"], *numbers(1, LONG), ["behind"]]}
    assert len(runs(connection, topic)) == 1


def test_the_same_chunk_again(connection: Session) -> None:
    """It is left out; another one under its number is refused."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    assert stage(connection, write_id, numbers(1, 300), last_chunk=False)
    assert not stage(connection, write_id, numbers(1, 300), last_chunk=False)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="with other contents"):
        stage(connection, write_id, numbers(2, 301), last_chunk=False)
    assert stage(connection, write_id, numbers(301, LONG), chunk=1)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(1, LONG)}


def test_another_attempt_is_left_out(connection: Session, connect: Connect) -> None:
    """What an attempt stored that was rolled back, or came second, is not in the log."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    session = connect()
    stage_long(session, write_id, numbers(1, LONG), attempt="lost")
    session.rollback()
    stage_long(connection, write_id, numbers(1, LONG), attempt="second")
    stage_long(connection, write_id, numbers(1, LONG), attempt="third")
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(1, LONG)}
