"""A topic whose messages become jobs of an ordered queue."""

from __future__ import annotations

import pytest

from support.bulk import begin, stage
from support.ordered import add_many, broken
from support.queue import ack, claim, claim_one, new_queue, stats
from support.session import Connect, Session, new_name
from support.subscription import publish_many, subscribe
from support.waiting import blocked, results, wait_until


def followed_by_ordered(session: Session) -> tuple[str, str]:
    topic, queue = new_name("topic"), new_queue(session, ordered=True)
    session.create_topic(topic=topic, partitions=2)
    subscribe(session, topic, queue)
    return topic, queue


def test_one_of_a_key_at_a_time(connection: Session) -> None:
    """Of batches and single messages, in their order; those without a key come at once."""
    topic, queue = followed_by_ordered(connection)
    keys = ["a", "b", "a", None, "b", "a", None]
    publish_many(connection, topic, len(keys), keys=keys)
    connection.publish(topic=topic, payload=7, key="a")
    assert stats(connection, queue) == {"ready": 4, "waiting": 4}
    came: dict[str | None, list[int]] = {"a": [], "b": [], None: []}
    while jobs := claim(connection, queue, 10):
        of_keys = [job.key for job in jobs if job.key is not None]
        assert len(of_keys) == len({*of_keys})
        for job in jobs:
            came[job.key].append(job.payload)
            assert ack(connection, job)
    assert came == {"a": [0, 2, 5, 7], "b": [1, 4], None: [3, 6]}


def test_a_key_that_is_too_long(connection: Session) -> None:
    """It does not undo the publish."""
    topic, queue = followed_by_ordered(connection)
    key = "k" * 300
    publish_many(connection, topic, 2, keys=[key, key])
    first = claim_one(connection, queue)
    assert (first.key, first.payload) == (key, 0)
    assert claim(connection, queue, 5) == []
    assert ack(connection, first)
    assert claim_one(connection, queue).payload == 1


def test_a_publish_that_is_open(connect: Connect, connection: Session) -> None:
    """Its job comes up when it has committed, though the one before ended meanwhile."""
    topic, queue = followed_by_ordered(connection)
    connection.publish(topic=topic, payload=1, key="a")
    first = claim_one(connection, queue)
    writer = connect()
    writer.publish(topic=topic, payload=2, key="a")
    assert ack(connection, first)
    assert claim(connection, queue, 5) == []
    writer.commit()
    [second] = wait_until(lambda: claim(connection, queue, 5))
    assert second.payload == 2


def test_an_enqueue_waits_for_a_publish(connect: Connect, connection: Session) -> None:
    """Of the same key."""
    topic, queue = followed_by_ordered(connection)
    writer, other = connect(), connect(autocommit=True)
    writer.publish(topic=topic, payload=1, key="a")
    adding = blocked(connection, other, lambda: other.enqueue(queue=queue, payload=2, key="a"))
    writer.commit()
    results(adding)
    first = claim_one(connection, queue)
    assert first.payload == 1
    assert claim(connection, queue, 5) == []
    assert ack(connection, first)
    assert claim_one(connection, queue).payload == 2


@pytest.mark.parametrize("bulk", [False, True], ids=["batch", "bulk"])
def test_keys_of_several_partitions(connect: Connect, connection: Session, bulk: bool) -> None:
    """They are locked in one order, whichever partitions and chunks have them."""
    topic, queue = followed_by_ordered(connection)
    names = [f"{number:02}" for number in range(20)]
    homes = [connection.publish(topic=topic, payload=0, key=key).partition for key in names]
    connection.purge_queue(queue=queue, all_jobs=True)
    behind = names[19 - homes[::-1].index(0)]
    front = names[homes.index(1)]
    assert front < behind
    first, other, writer = connect(), connect(autocommit=True), connect(autocommit=True)

    def publish() -> None:
        keys = [behind, front, behind]
        if not bulk:
            writer.publish_batch(topic=topic, payloads=[2, 3, 4], keys=keys)
            return
        write = begin(writer, topic=topic)
        for task, key in enumerate(keys):
            content = str(task + 2).encode()
            stage(writer, write, [content], json=True, task=task, keys=[key])
        writer.commit_write(write_id=write)

    # the key is taken already, so whoever waits for it gets it in turn
    add_many(connection, queue, [front])
    first.enqueue(queue=queue, payload=0, key=front)
    add_two = blocked(connection, other, lambda: add_many(other, queue, [front, behind]))
    published = blocked(connection, writer, publish)
    first.commit()
    results(add_two, published)
    came: dict[str | None, list[int]] = {front: [], behind: []}
    while jobs := claim(connection, queue, 10):
        assert len(jobs) == len({job.key for job in jobs})
        for job in jobs:
            came[job.key].append(job.payload)
            assert ack(connection, job)
    assert came == {front: [1, 0, 1, 3], behind: [1, 2, 4]}
    assert broken(connection) == []
