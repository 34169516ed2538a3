"""Idempotency keys of publish and publish_batch: what comes twice is there once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic, newest
from support.session import Connect, Session, new_name, refused, row, unchanged

LEVELS = ["read committed", "repeatable read", "serializable"]


def payloads(log: Session, topic: str) -> list[Any]:
    """What a topic holds, by partition and offset."""
    rows = log.execute(
        "select partition, log_offset, payload from pgq.messages where topic = %s order by 1, 2",
        [topic],
    )
    return rows.fetchall()


@pytest.mark.parametrize("level", LEVELS)
def test_the_second_is_a_duplicate_of_the_first(
    shared_connect: Connect, log: Session, level: str
) -> None:
    """In another transaction and in the same one; nothing is written for it."""
    topic = new_topic(log)
    session = shared_connect(isolation_level=level)
    assert session.publish(topic=topic, payload=1, idempotency_key="a") == (0, 1, False)
    assert session.publish(topic=topic, payload=2, idempotency_key="a") == (0, 1, True)
    session.commit()
    assert session.publish(topic=topic, payload=3, idempotency_key="a") == (0, 1, True)
    assert session.publish(topic=topic, payload=4, idempotency_key="b") == (0, 2, False)
    session.commit()
    assert payloads(log, topic) == [(0, 1, 1), (0, 2, 4)]


def test_it_belongs_to_all_partitions(log: Session) -> None:
    """Whatever else is said, and whether that could be done or not."""
    topic = new_topic(log, partitions=3)
    first = log.publish(topic=topic, payload=1, partition=2, idempotency_key="a")
    assert first == (2, 1, False)
    with unchanged(log):
        for options in (
            {"payload": 2},
            {"payload": None, "body": b"x"},
            {"payload": 2, "partition": 0},
            {"payload": 2, "partition": 9},
            {"payload": 2, "key": "a", "headers": {"a": 1}},
        ):
            found = log.publish(topic=topic, idempotency_key="a", **options)
            assert found == (2, 1, True)


def test_a_duplicate_waits_for_no_partition(shared_connect: Connect, log: Session) -> None:
    topic = new_topic(log)
    log.publish(topic=topic, payload=1, idempotency_key="a")
    publisher = shared_connect()
    publisher.publish(topic=topic, payload=2)
    assert log.publish(topic=topic, payload=3, idempotency_key="a") == (0, 1, True)


def test_a_message_with_a_key_is_like_any_other(log: Session) -> None:
    """All arguments arrive, of one and of many; each goes to its partition."""
    topic = new_topic(log, partitions=8)
    plain = new_topic(log, partitions=8)
    headers = {"a": 1}
    keys = ["b", "a", None, "c", "user-42", "a"]
    for name, given in ((plain, {}), (topic, {"idempotency_key": "1"})):
        log.publish(topic=name, payload={"n": 1}, key="b", headers=headers, **given)
    for name, given in ((plain, {}), (topic, {"idempotency_key": "2"})):
        log.publish(topic=name, body=b"raw", partition=7, **given)
    answers = []
    for name, given in (
        (plain, {}),
        (topic, {"idempotency_keys": ["3", None, "5", "6", None, "8"]}),
    ):
        answers.append(
            log.publish_batch(
                topic=name,
                payloads=list(range(6)),
                keys=keys,
                headers=[headers, *[None] * 5],
                **given,
            )
        )
        log.publish_batch(
            topic=name,
            bodies=[b"x", b"y"],
            partition=3,
            **({"idempotency_keys": ["9", "10"]} if given else {}),
        )
    assert answers[0] == answers[1]
    columns = "partition, log_offset, key, headers, payload, body"
    held = [
        log.execute(
            f"select {columns} from pgq.messages where topic = %s order by 1, 2".encode(), [name]
        ).fetchall()
        for name in (plain, topic)
    ]
    assert held[0] == held[1]
    assert len(held[0]) == 10


def test_a_batch_without_keys_to_hash_goes_to_one_partition(log: Session) -> None:
    topic = new_topic(log, partitions=8)
    [only] = log.publish_batch(topic=topic, payloads=[1, 2, 3], idempotency_keys=["a", None, "c"])
    assert (only.first_offset, only.last_offset, only.duplicate) == (1, 3, False)


def test_what_a_batch_answers(log: Session) -> None:
    """A row for each run of new ones, and of old ones; what comes twice in it is both."""
    topic = new_topic(log)
    keys = [f"{n}" for n in range(6)]
    assert log.publish_batch(topic=topic, payloads=[0] * 6, idempotency_keys=keys) == [
        (0, 1, 6, False)
    ]
    # a whole batch that comes again is answered as the first time
    assert log.publish_batch(topic=topic, payloads=[0] * 6, idempotency_keys=keys) == [
        (0, 1, 6, True)
    ]
    assert log.publish_batch(
        topic=topic, payloads=[0] * 7, idempotency_keys=["x", "1", "4", "y", "0", "x", None]
    ) == [(0, 1, 2, True), (0, 5, 5, True), (0, 7, 9, False), (0, 7, 7, True)]
    assert newest(log, topic) == 9


def test_a_batch_over_several_partitions(log: Session) -> None:
    topic = new_topic(log, partitions=8)
    keys = ["a", "b", "c", "a", "b", "c"]  # partitions 1, 0, 2
    first = log.publish_batch(
        topic=topic, payloads=[1] * 6, keys=keys, idempotency_keys=["1", "2", "3", "4", "5", "6"]
    )
    assert first == [(0, 1, 2, False), (1, 1, 2, False), (2, 1, 2, False)]
    second = log.publish_batch(
        topic=topic, payloads=[1] * 6, keys=keys, idempotency_keys=["1", "x", "y", "4", "z", "6"]
    )
    assert second == [(0, 3, 4, False), (1, 1, 2, True), (2, 2, 2, True), (2, 3, 3, False)]
    single = log.publish(topic=topic, payload=1, idempotency_key="z")
    assert single == (0, 4, True)


@pytest.mark.parametrize("level", LEVELS)
def test_batches_at_every_level(shared_connect: Connect, log: Session, level: str) -> None:
    topic = new_topic(log, partitions=8)
    session = shared_connect(autocommit=True, isolation_level=level)
    keys = ["a", "b", None, "a"]
    given = {"topic": topic, "payloads": [1] * 4, "keys": keys}
    first = session.publish_batch(**given, idempotency_keys=["1", "2", "3", "1"])
    assert first == [(0, 1, 1, False), (1, 1, 2, False), (1, 1, 1, True)]
    assert session.publish_batch(**given, idempotency_keys=["1", "2", "3", "1"]) == [
        (0, 1, 1, True),
        (1, 1, 2, True),
    ]


def test_a_key_belongs_to_its_topic(log: Session) -> None:
    for topic in (new_topic(log), new_topic(log)):
        assert log.publish(topic=topic, payload=1, idempotency_key="a") == (0, 1, False)
    log.drop_topic(topic=topic)
    log.create_topic(topic=topic, partitions=1)
    assert log.publish(topic=topic, payload=1, idempotency_key="a") == (0, 1, False)


def test_more_partitions_change_nothing(log: Session) -> None:
    topic = new_topic(log)
    log.publish(topic=topic, payload=1, key="a", idempotency_key="1")
    log.alter_topic(topic=topic, partitions=8)
    assert log.publish(topic=topic, payload=1, key="a", idempotency_key="1") == (0, 1, True)


def test_after_the_window_it_is_new(log: Session, shared_clock: Clock) -> None:
    topic = new_topic(log)
    log.publish(topic=topic, payload=1, idempotency_key="a")
    shared_clock.advance("23 hours")
    assert log.publish(topic=topic, payload=1, idempotency_key="a") == (0, 1, True)
    shared_clock.advance("1 hour")
    assert log.publish(topic=topic, payload=1, idempotency_key="a") == (0, 2, False)
    assert log.publish(topic=topic, payload=1, idempotency_key="a") == (0, 2, True)


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_bad_keys(log: Session, key: str) -> None:
    topic = new_topic(log)
    with unchanged(log):
        refused("22023", log.publish, topic=topic, payload=1, idempotency_key=key)
        refused("22023", log.publish_batch, topic=topic, payloads=[1], idempotency_keys=[key])
        for keys in ([], ["a", "b"], [["a"]]):
            refused("22023", log.publish_batch, topic=topic, payloads=[1], idempotency_keys=keys)


def test_unknown_names(log: Session) -> None:
    topic = new_topic(log)
    refused("MQ001", log.publish, topic="nowhere", payload=1, idempotency_key="a")
    refused("MQ007", log.publish, topic=topic, payload=1, partition=1, idempotency_key="a")
    # what was refused is new
    assert log.publish(topic=topic, payload=1, idempotency_key="a") == (0, 1, False)
    assert log.publish_batch(topic=topic, payloads=[], idempotency_keys=[]) == []
    refused("MQ001", log.publish_batch, topic="nowhere", payloads=[], idempotency_keys=[])


def test_ten_thousand_keys(log: Session) -> None:
    """Over eight partitions, and all of them again."""
    topic = new_topic(log, partitions=8)
    given = {
        "topic": topic,
        "payloads": list(range(10000)),
        "keys": [f"{n}" for n in range(10000)],
        "idempotency_keys": [f"key {n}" for n in range(10000)],
    }
    first = log.publish_batch(**given)
    assert [found.duplicate for found in first] == [False] * 8
    assert sum(found.last_offset for found in first) == 10000
    again = log.publish_batch(**given)
    assert [(*found[:3], True) for found in first] == again
    assert row(log, "select count(*) from pgq.messages where topic = %s", [topic]) == (10000,)
    # each stands for its own message
    payload, partition, log_offset = row(
        log,
        "select payload, partition, log_offset from pgq.messages where topic = %s and key = '777'",
        [topic],
    )
    assert payload == 777
    assert log.publish(topic=topic, payload=1, idempotency_key="key 777") == (
        partition,
        log_offset,
        True,
    )


# ---------------------------------------------------------------------------- the setting


def test_the_window_is_a_setting(log: Session) -> None:
    topic = new_name("topic")
    assert log.create_topic(topic=topic).idempotency_window == timedelta(days=1)
    changed = log.alter_topic(topic=topic, idempotency_window="2 hours")
    assert changed.idempotency_window == timedelta(hours=2)
    assert log.alter_topic(topic=topic, partitions=9).idempotency_window == timedelta(hours=2)
    [listed] = [found for found in log.list_topics() if found.topic == topic]
    assert listed.idempotency_window == timedelta(hours=2)
    log.create_topic(topic=topic, idempotency_window="2 hours")
    error = refused("MQ005", log.create_topic, topic=topic, idempotency_window="1 day")
    assert "idempotency_window: given 1 day, has 02:00:00" in str(error.diag.message_detail)


@pytest.mark.parametrize("window", ["0", "999 milliseconds", "367 days", "-1 day"])
def test_bad_windows(log: Session, window: str) -> None:
    topic = new_topic(log)
    for function in (log.create_topic, log.alter_topic):
        error = refused("22023", function, topic=topic, idempotency_window=window)
        assert "idempotency_window" in str(error)
