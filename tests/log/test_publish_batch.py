"""publish_batch: many messages, all or none, in order."""

from __future__ import annotations

from typing import Any

import pytest

from support.log import new_topic, newest
from support.session import Session, new_name, refused, unchanged

LEVELS = ["read uncommitted", "read committed", "repeatable read", "serializable"]


def stored(log: Session, topic: str, partition: int = 0) -> list[Any]:
    """The payloads of a partition."""
    rows = log.fetch_range(
        topic=topic, partition=partition, first_offset=1, last_offset=newest(log, topic, partition)
    )
    return [row.payload for row in rows]


def test_a_batch_is_contiguous_and_in_the_order_of_the_array(log: Session) -> None:
    """On a partition whose next offset is k it stores k … k + n - 1, and says so."""
    topic = new_topic(log)
    assert log.publish_batch(topic=topic, payloads=[30, 10, 20]) == [(0, 1, 3, False)]
    assert log.publish_batch(topic=topic, payloads=[2, 1]) == [(0, 4, 5, False)]
    assert stored(log, topic) == [30, 10, 20, 2, 1]


def test_the_size_is_that_of_the_array(log: Session) -> None:
    """One message, and thousands."""
    topic = new_topic(log)
    assert log.publish_batch(topic=topic, payloads=["1"]) == [(0, 1, 1, False)]
    assert log.publish_batch(topic=topic, bodies=[b"x"] * 5000) == [(0, 2, 5001, False)]


def test_an_empty_batch_does_nothing(log: Session) -> None:
    """No row, no offset used; but the topic must exist."""
    topic = new_topic(log)
    with unchanged(log):
        assert log.publish_batch(topic=topic, payloads=[]) == []
        assert log.publish_batch(topic=topic, bodies=[], keys=[], headers=[]) == []
        refused("MQ001", log.publish_batch, topic="no-such-topic", payloads=[])
        refused("22004", log.publish_batch, topic=None, payloads=[])
    assert log.publish_batch(topic=topic, payloads=[1]) == [(0, 1, 1, False)]


def test_keys_and_headers_belong_to_their_message(log: Session) -> None:
    """The n-th key and headers go with the n-th message; they may be null."""
    topic = new_topic(log)
    log.publish_batch(
        topic=topic,
        bodies=[b"a", b"b", b"c"],
        keys=["k1", None, "k3"],
        headers=[None, {"h": 2}, {"h": 3}],
    )
    rows = log.fetch(topic=topic, consumer_group="readers")
    assert [(row.key, row.headers, row.body) for row in rows] == [
        ("k1", None, b"a"),
        (None, {"h": 2}, b"b"),
        ("k3", {"h": 3}, b"c"),
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_each_message_goes_to_the_partition_of_its_key(log: Session, level: str) -> None:
    """One row for each partition written; within it the order of the array; as publish does."""
    topic = new_topic(log, partitions=8)
    # partitions of 8: a 1, b 0, c 2, d 2 (see the golden values of publish)
    keys = ["c", "a", "d", "b", "c", "a"]
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        ranges = log.publish_batch(topic=topic, payloads=[0, 1, 2, 3, 4, 5], keys=keys)
    assert ranges == [(0, 1, 1, False), (1, 1, 2, False), (2, 1, 3, False)]
    assert [stored(log, topic, partition) for partition in range(3)] == [[3], [1, 5], [0, 2, 4]]
    assert log.publish(topic=topic, payload=6, key="d") == (2, 4, False)


def test_a_named_partition_takes_all(log: Session) -> None:
    """Keys are kept, and decide nothing."""
    topic = new_topic(log, partitions=8)
    ranges = log.publish_batch(topic=topic, payloads=[1, 2], keys=["a", "b"], partition=5)
    assert ranges == [(5, 1, 2, False)]
    rows = log.fetch_range(topic=topic, partition=5, first_offset=1, last_offset=2)
    assert [row.key for row in rows] == ["a", "b"]


def test_messages_without_a_key_stay_together(log: Session) -> None:
    """Without keys all go to one partition; among keys, to one that is written to anyway."""
    topic = new_topic(log, partitions=8)
    assert len(log.publish_batch(topic=topic, payloads=[1, 2, 3])) == 1
    assert len(log.publish_batch(topic=topic, payloads=[1, 2, 3], keys=[None] * 3)) == 1
    ranges = log.publish_batch(topic=topic, payloads=[1, 2, 3], keys=[None, "a", None])
    assert [(row.partition, row.last_offset - row.first_offset) for row in ranges] == [(1, 2)]


def test_rollback_leaves_no_gap(log: Session) -> None:
    """What was rolled back is gone, and its offsets are given out again."""
    topic = new_topic(log, messages=1)
    with log.transaction(force_rollback=True):
        assert log.publish_batch(topic=topic, payloads=[1, 2]) == [(0, 2, 3, False)]
    assert log.publish_batch(topic=topic, payloads=[3]) == [(0, 2, 2, False)]


@pytest.mark.parametrize("level", LEVELS)
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """In every isolation level the second call goes on where the first one ended."""
    topic = new_topic(log, partitions=8)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert log.publish_batch(topic=topic, payloads=[1, 2], partition=1) == [(1, 1, 2, False)]
        assert log.publish_batch(topic=topic, bodies=[b"", b""], partition=1) == [(1, 3, 4, False)]
        ranges = log.publish_batch(topic=topic, payloads=[1, 2], keys=["a", "b"])
        assert ranges == [(0, 1, 1, False), (1, 5, 5, False)]
        first = log.publish_batch(topic=topic, payloads=[1])
        second = log.publish_batch(topic=topic, payloads=[1])
        assert second[0].partition == first[0].partition
        assert second[0].first_offset == first[0].last_offset + 1


def test_one_notification_for_a_batch(log: Session) -> None:
    """Not one for each message, whichever way the batch takes."""
    topic = new_name("topic")
    log.create_topic(topic=topic, notify=True)
    log.execute("listen pgq_topic")
    try:
        log.publish_batch(topic=topic, payloads=[1, 2, 3])
        log.publish_batch(topic=topic, payloads=[1, 2, 3], keys=["a", "b", "c"])
        log.publish_batch(topic=topic, payloads=[])
        heard = [notice.payload for notice in log.notifies(timeout=0.05)]
        assert heard == [topic, topic]
    finally:
        log.execute("unlisten *")


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_a_null_element_refuses_the_whole_batch(log: Session, level: str) -> None:
    """Nothing is stored, wherever the null stands; the error says where."""
    topic = new_topic(log, partitions=2)

    def publish(**arguments: Any) -> Any:
        with log.transaction():
            log.execute(f"set transaction isolation level {level}")
            return log.publish_batch(**arguments)

    with unchanged(log):
        for at in range(3):
            payloads: list[Any] = [1, 2, 3]
            payloads[at] = None
            error = refused("22004", publish, topic=topic, payloads=payloads)
            assert error.diag.message_detail is not None
            assert f"Number {at + 1} of 3" in error.diag.message_detail
            refused("22004", publish, topic=topic, payloads=payloads, keys=["a", "b", "c"])
        refused("22004", publish, topic=topic, bodies=[b"", None])
    assert publish(topic=topic, payloads=["null"], partition=0) == [(0, 1, 1, False)]


def test_arrays_that_are_refused(log: Session) -> None:
    """None, both, other lengths, two dimensions, odd headers: an error and nothing stored."""
    topic = new_topic(log, partitions=2)
    with unchanged(log):
        refused("22004", log.publish_batch, topic=topic)
        refused("22004", log.publish_batch, topic=topic, payloads=None, bodies=None, keys=["a"])
        refused("22023", log.publish_batch, topic=topic, payloads=[1], bodies=[b"1"])
        refused("22023", log.publish_batch, topic=topic, payloads=[], bodies=[])
        for keys in ([], ["a"], ["a", "b", "c"]):
            refused("22023", log.publish_batch, topic=topic, payloads=[1, 2], keys=keys)
            refused("22023", log.publish_batch, topic=topic, bodies=[b"", b""], keys=keys)
        for headers in ([], [{}], [{}, {}, {}]):
            refused("22023", log.publish_batch, topic=topic, payloads=[1, 2], headers=headers)
        for header in ("[]", "1", '"x"', "null"):
            refused("22023", log.publish_batch, topic=topic, payloads=[1], headers=[header])
        for payloads in ("{{1,2},{3,4}}", "{{1},{2}}"):
            refused("22023", log.publish_batch, topic=topic, payloads=payloads)
        refused("22023", log.publish_batch, topic=topic, bodies=[[b"1"], [b"2"]])
        refused("22023", log.publish_batch, topic=topic, payloads=[1, 2], keys=[["a"], ["b"]])


def test_places_that_are_refused(log: Session) -> None:
    """Unknown topics and partitions, with and without keys, store nothing."""
    topic = new_topic(log, partitions=2)
    with unchanged(log):
        for keys in (None, ["a"]):
            call = {"payloads": [1], "keys": keys}
            refused("MQ001", log.publish_batch, topic="no-such-topic", **call)
            refused("MQ001", log.publish_batch, topic='"', **call)
            refused("22004", log.publish_batch, topic=None, **call)
            for partition in (-1, 2, 2**31 - 1):
                refused("MQ007", log.publish_batch, topic=topic, partition=partition, **call)


def test_arrays_that_do_not_begin_at_one(log: Session) -> None:
    """The order counts, not the subscripts."""
    topic = new_topic(log)
    rows = log.execute(
        "select * from pgq.publish_batch(%s, payloads => '[5:6]={1,2}', keys => '[0:1]={a,b}')",
        [topic],
    ).fetchall()
    assert rows == [(0, 1, 2, False)]
    assert [(row.key, row.payload) for row in log.fetch(topic=topic, consumer_group="readers")] == [
        ("a", 1),
        ("b", 2),
    ]
