"""Deferred topics: what is published gets its offset when somebody consumes."""

from __future__ import annotations

from typing import Any

import pytest

from support.log import newest, offsets
from support.session import Connect, Session, new_name, refused, row


def deferred_topic(log: Session, partitions: int = 1, **settings: Any) -> str:
    """A deferred topic with a group."""
    topic = new_name("deferred")
    log.create_topic(topic=topic, partitions=partitions, deferred=True, **settings)
    log.create_group(topic=topic, consumer_group="readers")
    return topic


def consumed(log: Session, topic: str, **options: Any) -> list[Any]:
    """The payloads that the group gets, in order."""
    rows = log.consume(topic=topic, consumer_group="readers", **options)
    return [message.payload for message in rows]


def test_it_is_a_setting(log: Session) -> None:
    """It is shown and compared like the others; by default it is off."""
    topic = deferred_topic(log)
    assert log.create_topic(topic=topic).deferred is True
    refused("MQ005", log.create_topic, topic=topic, deferred=False)
    assert log.create_topic(topic=new_name("topic")).deferred is False
    assert log.alter_topic(topic=topic, notify=True).deferred is True


def test_an_offset_comes_when_somebody_consumes(log: Session) -> None:
    """Until then the message cannot be read and has no offset."""
    topic = deferred_topic(log)
    for n in (1, 2):
        assert log.publish(topic=topic, payload=n, key="k", headers={"n": n}) == (0, None, False)
    assert log.fetch(topic=topic, consumer_group="readers") == []
    assert newest(log, topic) == 0
    messages = log.consume(topic=topic, consumer_group="readers")
    assert [(m.log_offset, m.payload, m.key, m.headers) for m in messages] == [
        (1, 1, "k", {"n": 1}),
        (2, 2, "k", {"n": 2}),
    ]
    assert newest(log, topic) == 2
    again = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=2)
    assert again == messages


def test_one_publisher_fills_all_partitions(log: Session) -> None:
    """Each transaction begins elsewhere."""
    topic = deferred_topic(log, partitions=4)
    places = [log.publish(topic=topic, payload=n).partition for n in range(64)]
    assert {places.count(partition) for partition in range(4)} <= set(range(8, 25))


@pytest.mark.parametrize("letters", [{}, {"max_attempts": 3, "dead_letter_topic": "dead"}])
def test_a_full_partition_holds_up_no_other(connection: Session, letters: dict[str, Any]) -> None:
    """Where there is always something to read, what is published elsewhere gets offsets too."""
    connection.execute(
        "create or replace function pgq._hash_position() returns integer language sql stable"
        " as 'select 1023'"
    )
    topic = new_name("deferred")
    connection.create_topic(topic=topic, partitions=3, deferred=True)
    connection.create_topic(topic="dead")
    connection.create_group(topic=topic, consumer_group="readers", **letters)
    (first,) = row(
        connection,
        "select partition from pgq.partition where deferred order by hash_position desc limit 1",
    )
    connection.publish_batch(topic=topic, payloads=list(range(10)), partition=(first + 1) % 3)
    assert consumed(connection, topic, max_messages=1) == [0]
    connection.publish(topic=topic, payload=-1, partition=first)
    found = [n for _ in range(4) for n in consumed(connection, topic, max_messages=1)]
    assert -1 in found


@pytest.mark.parametrize("way", ["consume", "claim_offsets", "poll"])
@pytest.mark.parametrize("partition", [None, 0])
def test_all_who_consume_give_offsets(log: Session, way: str, partition: int | None) -> None:
    """With a partition named, and without; then there is nothing more."""
    topic = deferred_topic(log)
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    found = log.call(way, topic=topic, consumer_group="readers", partition=partition)
    assert len(found) == (1 if way == "claim_offsets" else 3)
    if way == "poll":
        log.commit_offset(
            topic=topic,
            consumer_group="readers",
            partition=0,
            committed_offset=3,
            lease_token=found[0].lease_token,
        )
    assert log.call(way, topic=topic, consumer_group="readers", partition=partition) == []
    log.publish(topic=topic, payload=4)
    assert len(log.call(way, topic=topic, consumer_group="readers", partition=partition)) == 1


def test_assign_offsets(log: Session) -> None:
    """It answers what it gave, once; named partitions are checked."""
    topic = deferred_topic(log, partitions=2)
    log.publish_batch(topic=topic, payloads=[1, 2], partition=0)
    log.publish(topic=topic, payload=3, partition=1)
    assert log.assign_offsets(topic=topic, partition=1) == [(1, 1, 1)]
    assert log.assign_offsets(topic=topic) == [(0, 1, 2)]
    assert log.assign_offsets(topic=topic) == []
    refused("MQ001", log.assign_offsets, topic="nowhere")
    refused("MQ007", log.assign_offsets, topic=topic, partition=2)
    refused("22004", log.assign_offsets, topic=None)
    ordinary = new_name("topic")
    log.create_topic(topic=ordinary)
    log.publish(topic=ordinary, payload=1)
    assert log.assign_offsets(topic=ordinary) == []


def test_keys_find_their_partitions(log: Session) -> None:
    """As in other topics, whether published one by one or in a batch."""
    deferred = deferred_topic(log, partitions=8)
    ordinary = new_name("topic")
    log.create_topic(topic=ordinary, partitions=8)
    keys = ["a", "b", "c", "N725MQ", "Köln", "0"]
    for key in keys:
        expected = log.publish(topic=ordinary, payload=1, key=key).partition
        assert log.publish(topic=deferred, payload=1, key=key).partition == expected
    there = log.publish_batch(topic=ordinary, payloads=[1] * 6, keys=keys)
    here = log.publish_batch(topic=deferred, payloads=[2] * 6, keys=keys)
    assert [r.partition for r in here] == [r.partition for r in there]
    assert {(r.first_offset, r.last_offset) for r in here} == {(None, None)}
    assert sum(r.last_offset for r in log.assign_offsets(topic=deferred)) == 12


def test_wrong_arguments(log: Session) -> None:
    """They are refused as in other topics, also when the session knows the topic."""
    topic = deferred_topic(log)
    for _ in range(2):
        refused("22004", log.publish, topic=topic)
        refused("22023", log.publish, topic=topic, payload=1, body=b"1")
        refused("22023", log.publish, topic=topic, payload=1, headers="[1]")
        refused("MQ007", log.publish, topic=topic, payload=1, partition=1)
        refused("MQ007", log.publish_batch, topic=topic, payloads=[1], partition=1)
        refused("22023", log.publish_batch, topic=topic, payloads=[1], keys=["a", "b"])
        log.publish(topic=topic, payload=1)
    assert log.publish_batch(topic=topic, payloads=[]) == []


def test_what_is_rolled_back_is_nowhere(shared_connect: Connect, log: Session) -> None:
    """Neither a message nor a gap; a savepoint takes back what is behind it."""
    topic = deferred_topic(log)
    writer = shared_connect()
    writer.publish(topic=topic, payload=-1)
    writer.rollback()
    writer.publish(topic=topic, payload=1)
    writer.execute("savepoint s")
    writer.publish(topic=topic, payload=-2)
    writer.execute("rollback to s")
    writer.publish(topic=topic, payload=2)
    writer.commit()
    assert consumed(log, topic) == [1, 2]


def test_offsets_that_are_rolled_back_are_given_again(
    shared_connect: Connect, log: Session
) -> None:
    """The next one gives them anew."""
    topic = deferred_topic(log)
    log.publish(topic=topic, payload=1)
    reader = shared_connect()
    assert consumed(reader, topic) == [1]
    reader.rollback()
    log.publish(topic=topic, payload=2)
    assert offsets(log.consume(topic=topic, consumer_group="readers")) == [1, 2]


def test_a_transaction_that_publishes_and_consumes(shared_connect: Connect, log: Session) -> None:
    """It reads what it published itself; what it publishes behind that comes later, not never."""
    topic = deferred_topic(log)
    both = shared_connect()
    both.publish(topic=topic, payload=1)
    # a later transaction, so that the next snapshot has the id of the first among its own
    log.publish(topic=topic, payload=2)
    assert consumed(both, topic) == [1, 2]
    both.publish(topic=topic, payload=3)
    assert consumed(both, topic) == [3]
    both.publish(topic=topic, payload=4)
    both.commit()
    assert consumed(log, topic) == [4]
    assert consumed(log, topic) == []


def test_time_rises_with_the_offset(log: Session) -> None:
    """It is when the offset was given, so a group can seek by it."""
    topic = deferred_topic(log)
    for n in range(3):
        log.publish(topic=topic, payload=n)
        log.assign_offsets(topic=topic)
    messages = log.fetch(topic=topic, consumer_group="readers")
    times = [message.published_at for message in messages]
    assert times == sorted(times)
    moved = log.seek(topic=topic, consumer_group="readers", published_at=times[1])
    assert moved == [(0, 2)]


def test_keys_that_were_given_before(log: Session) -> None:
    """What comes again is a duplicate, which has no offset to show."""
    topic = deferred_topic(log)
    assert log.publish(topic=topic, payload=1, idempotency_key="a") == (0, None, False)
    assert log.publish(topic=topic, payload=2, idempotency_key="a") == (0, None, True)
    batch = log.publish_batch(
        topic=topic, payloads=[3, 4, 5], idempotency_keys=["a", "b", None], partition=0
    )
    assert sorted(batch) == [(0, None, None, False), (0, None, None, True)]
    assert consumed(log, topic) == [1, 4, 5]
    assert log.publish(topic=topic, payload=6, idempotency_key="b").duplicate is True
    assert consumed(log, topic) == []


def test_large_payloads(log: Session) -> None:
    """What is stored out of line comes back whole."""
    topic = deferred_topic(log)
    bodies = [bytes([n]) * 100_000 for n in range(3)]
    log.publish_batch(topic=topic, bodies=bodies)
    assert [m.body for m in log.consume(topic=topic, consumer_group="readers")] == bodies


def test_ten_thousand(log: Session) -> None:
    """Single ones and batches, over several calls of few messages each."""
    topic = deferred_topic(log)
    log.execute(
        "select count(*) from generate_series(1, 2000) as n,"
        " lateral pgq.publish(topic => %s, payload => to_jsonb(n)) as p",
        [topic],
    )
    log.publish_batch(topic=topic, payloads=list(range(2001, 10_001)))
    assert consumed(log, topic, max_messages=3) == [1, 2, 3]
    assert consumed(log, topic, max_messages=10_000) == list(range(4, 10_001))


def test_more_than_one_call_assigns(log: Session) -> None:
    """Where a call is full, the next one goes on in order, and none is left."""
    topic = deferred_topic(log)
    for n in range(3):
        log.publish_batch(topic=topic, payloads=[3 * n, 3 * n + 1, 3 * n + 2])
    log.execute("begin")
    for expected in ([(0, 1, 4)], [(0, 5, 8)], [(0, 9, 9)], []):
        found = log.execute("select * from pgq._assign_all(%s, null, 4)", [topic]).fetchall()
        assert found == expected
    log.execute("commit")
    log.publish(topic=topic, payload=9)
    assert consumed(log, topic) + consumed(log, topic) == list(range(10))


def test_the_journal_stays_short(log: Session) -> None:
    """However often offsets are given."""
    topic = deferred_topic(log)
    for n in range(150):
        log.publish(topic=topic, payload=n)
        log.assign_offsets(topic=topic)
    [(rows,)] = log.execute(
        "select count(*) from pgq.assignment as a join pgq.partition as p using (partition_id)"
        " where p.topic = %s",
        [topic],
    ).fetchall()
    assert rows == 64
    log.drop_topic(topic=topic)
    assert row(log, "select count(*) from pgq.assignment where seq > 100") == (0,)


def test_on_another_server(log: Session) -> None:
    """Ids of transactions mean nothing there: what is staged is found without them."""
    topic = deferred_topic(log)
    log.publish(topic=topic, payload=1)
    log.assign_offsets(topic=topic)
    log.publish(topic=topic, payload=2)
    log.execute(
        "update pgq.assignment set next_xid = '500000000', open_xids = '{5}',"
        " system_identifier = 1, server_started = '2020-01-01'"
    )
    log.publish(topic=topic, payload=3)
    assert log.assign_offsets(topic=topic) == [(0, 2, 3)]
    assert consumed(log, topic) == [1, 2, 3]
    log.publish(topic=topic, payload=4)
    assert consumed(log, topic) == [4]


def test_a_restart_keeps_the_place(log: Session) -> None:
    """The same server, started anew, knows where it was."""
    topic = deferred_topic(log)
    log.publish(topic=topic, payload=1)
    log.assign_offsets(topic=topic)
    log.execute("update pgq.assignment set server_started = '2020-01-01'")
    query = (
        "select (pgq._staged_since(p.partition_id)).lowest > pgq._staged_id(p.partition_id, 0)"
        " from pgq.partition as p where p.topic = %s"
    )
    assert row(log, query, [topic]) == (True,)
    log.execute("update pgq.assignment set next_xid = '900000000000'")
    assert row(log, query, [topic]) == (False,)
    log.publish(topic=topic, payload=2)
    assert consumed(log, topic) + consumed(log, topic) == [1, 2]


def test_a_bulk_write_is_appended_behind_what_was_there(log: Session) -> None:
    """It gets its offsets at the commit, and what was committed before stands in front of it."""
    topic = deferred_topic(log, partitions=2)
    log.publish(topic=topic, payload='"first"', partition=0)
    write = log.begin_write(topic=topic).write_id
    for task, options in enumerate(({"partition": 0}, {"keys": ["a"]}, {})):
        log.write_chunk(
            write_id=write,
            task=task,
            task_attempt="a",
            chunk=0,
            lengths=[1],
            packed_payloads=str(task).encode(),
            last_chunk=True,
            **options,
        )
    assert log.commit_write(write_id=write).messages == 3
    log.publish(topic=topic, payload='"last"', partition=0)
    log.assign_offsets(topic=topic)
    rows = log.execute(
        "select payload from pgq.messages where topic = %s and partition = 0 order by log_offset",
        [topic],
    ).fetchall()
    found = [payload for (payload,) in rows]
    assert (found[:2], found[-1]) == (["first", 0], "last")
    assert sum(r.last_offset for r in log.list_offsets(topic=topic)) == 5


def test_a_bulk_write_that_is_not_atomic(log: Session) -> None:
    """Its chunks are there in their order."""
    topic = deferred_topic(log)
    write = log.begin_write(topic=topic, atomic=False).write_id
    for chunk, contents in enumerate((b"12", b"34")):
        log.write_chunk(
            write_id=write,
            task=0,
            task_attempt="a",
            chunk=chunk,
            lengths=[1, 1],
            packed_payloads=contents,
        )
    log.commit_write(write_id=write)
    assert consumed(log, topic) == [1, 2, 3, 4]


def test_a_schedule_publishes(log: Session) -> None:
    """It answers without an offset."""
    topic, schedule = deferred_topic(log), new_name("schedule")
    log.create_schedule(
        schedule=schedule, topic=topic, payload=1, every="1 hour", starts_at="2020-01-01"
    )
    [run] = [r for r in log.run_schedules() if r.schedule == schedule]
    assert (run.partition, run.log_offset, run.error) == (0, None, None)
    assert consumed(log, topic) == [1]
    log.drop_schedule(schedule=schedule)


def test_more_partitions(log: Session) -> None:
    """Those that come later are deferred as well."""
    topic = deferred_topic(log)
    log.publish(topic=topic, payload=1)
    log.alter_topic(topic=topic, partitions=3)
    for partition in range(3):
        assert log.publish(topic=topic, payload=2, partition=partition).log_offset is None
    assert log.assign_offsets(topic=topic) == [(0, 1, 2), (1, 1, 1), (2, 1, 1)]
