"""assign_offsets: what it answers, to whom, and what it leaves; test_deferred.py has the rest."""

from __future__ import annotations

import pytest

from support.log import new_topic, newest
from support.session import Connect, Session, refused, unchanged

LEVELS = ["read committed", "repeatable read", "serializable"]


@pytest.fixture
def topic(log: Session) -> str:
    """A deferred topic of three partitions."""
    return new_topic(log, 3, deferred=True)


def test_a_row_for_each_partition(log: Session, topic: str) -> None:
    """In their order, for those that had something; null names all of them."""
    for partition, count in ((2, 3), (0, 1)):
        log.publish_batch(topic=topic, payloads=[1] * count, partition=partition)
    assert log.assign_offsets(topic=topic, partition=None) == [(0, 1, 1), (2, 1, 3)]
    log.publish_batch(topic=topic, payloads=[1, 2], partition=2)
    with unchanged(log):
        assert log.assign_offsets(topic=topic, partition=0) == []
    assert log.assign_offsets(topic=topic) == [(2, 4, 5)]


def test_what_is_refused(log: Session, topic: str) -> None:
    """A partition that is not there too, of topics of both kinds."""
    log.publish(topic=topic, payload=1)
    ordinary = new_topic(log, 2, messages=1)
    with unchanged(log):
        for name, count in ((topic, 3), (ordinary, 2)):
            for partition in (-1, count):
                refused("MQ007", log.assign_offsets, topic=name, partition=partition)
        assert log.assign_offsets(topic=ordinary, partition=1) == []
        refused("MQ001", log.assign_offsets, topic=topic.upper(), partition=0)


def test_in_a_transaction_that_only_reads(log: Session, topic: str) -> None:
    log.publish(topic=topic, payload=1, partition=1)
    with log.transaction():
        log.execute("set transaction read only")
        with log.transaction():
            assert log.list_offsets(topic=topic) != []
        refused("25006", log.assign_offsets, topic=topic)
    assert log.assign_offsets(topic=topic) == [(1, 1, 1)]


@pytest.mark.parametrize("level", LEVELS)
def test_several_times_in_one_transaction(
    shared_connect: Connect, log: Session, topic: str, level: str
) -> None:
    """What it has published itself as well; a rollback leaves all of it to the next one."""
    log.publish_batch(topic=topic, payloads=[1, 2], partition=0)
    session = shared_connect(isolation_level=level)
    for end in ("rollback", "commit"):
        assert session.assign_offsets(topic=topic) == [(0, 1, 2)]
        assert session.assign_offsets(topic=topic) == []
        session.publish(topic=topic, payload=3, partition=0)
        session.publish(topic=topic, payload=1, partition=1)
        assert session.assign_offsets(topic=topic, partition=0) == [(0, 3, 3)]
        session.execute("savepoint s")
        assert session.assign_offsets(topic=topic) == [(1, 1, 1)]
        session.execute("rollback to s")
        getattr(session, end)()
        assert newest(log, topic) == (3 if end == "commit" else 0)
    assert log.assign_offsets(topic=topic) == [(1, 1, 1)]


def test_one_that_another_is_busy_with(shared_connect: Connect, log: Session, topic: str) -> None:
    """It is left out, and the others are not; nobody waits."""
    for partition in (0, 1):
        log.publish(topic=topic, payload=1, partition=partition)
    other = shared_connect()
    assert other.assign_offsets(topic=topic, partition=0) == [(0, 1, 1)]
    assert log.assign_offsets(topic=topic) == [(1, 1, 1)]
    assert log.assign_offsets(topic=topic, partition=0) == []
    other.rollback()
    assert log.assign_offsets(topic=topic, partition=0) == [(0, 1, 1)]


def test_partitions_that_were_added(log: Session, topic: str) -> None:
    refused("MQ007", log.assign_offsets, topic=topic, partition=3)
    log.alter_topic(topic=topic, partitions=5)
    for partition in (4, 3):
        log.publish(topic=topic, payload=1, partition=partition)
    assert log.assign_offsets(topic=topic, partition=4) == [(4, 1, 1)]
    assert log.assign_offsets(topic=topic) == [(3, 1, 1)]
