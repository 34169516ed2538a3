"""What is dropped and created again in one transaction is there, also for whoever waited meanwhile.

A statement that has waited for a row that is gone finds nothing, though there is another one of the
same name by now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.log import group_settings, new_topic
from support.queue import enqueue, new_queue, settings, stats
from support.session import Connect, Session, refused
from support.waiting import PATIENCE, blocked

READERS = {"consumer_group": "readers"}

Work = Callable[[Session, str], Any]

ON_TOPIC: dict[str, Work] = {
    "alter_topic": lambda session, topic: session.alter_topic(topic=topic, notify=True),
    "drop_topic": lambda session, topic: session.drop_topic(topic=topic),
    "create_group": lambda session, topic: session.create_group(
        topic=topic, consumer_group="others", out_of_range="skip"
    ),
    "alter_group": lambda session, topic: session.alter_group(
        topic=topic, **READERS, out_of_range="skip"
    ),
    "drop_group": lambda session, topic: session.drop_group(topic=topic, **READERS),
}


@pytest.mark.parametrize("groups", [(), ("readers",)], ids=["new group", "group from before"])
@pytest.mark.parametrize("function", ON_TOPIC)
def test_a_topic(
    shared_connect: Connect, log: Session, function: str, groups: tuple[str, ...]
) -> None:
    """It has the group by then, whether it had it before or not."""
    topic = new_topic(log, partitions=2, groups=groups)
    renewer, waiter = shared_connect(), shared_connect(autocommit=True)
    renewer.drop_topic(topic=topic)
    renewer.create_topic(topic=topic, partitions=3)
    renewer.create_group(topic=topic, **READERS)
    waiting = blocked(log, waiter, lambda: ON_TOPIC[function](waiter, topic))
    renewer.commit()
    waiting.result(PATIENCE)

    found = [listed for listed in log.list_topics() if listed.topic == topic]
    if function == "drop_topic":
        assert found == []
        refused("MQ001", log.publish, topic=topic, payload=1)
        return
    assert [(listed.partitions, listed.notify) for listed in found] == [
        (3, function == "alter_topic")
    ]
    expected = {"alter_group": ("skip", ["skip"] * 3), "drop_group": None}
    assert group_settings(log, topic) == expected.get(function, ("error", ["error"] * 3))
    if function == "create_group":
        assert group_settings(log, topic, "others") == ("skip", ["skip"] * 3)


@pytest.mark.parametrize("function", ON_TOPIC)
def test_a_topic_that_is_gone(shared_connect: Connect, log: Session, function: str) -> None:
    """Whoever waited for one that is not created again is told so."""
    topic = new_topic(log, partitions=2)
    dropper, waiter = shared_connect(), shared_connect(autocommit=True)
    dropper.drop_topic(topic=topic)
    waiting = blocked(log, waiter, lambda: ON_TOPIC[function](waiter, topic))
    dropper.commit()
    assert getattr(waiting.exception(PATIENCE), "sqlstate", None) == "MQ001"


ON_QUEUE: dict[str, Work] = {
    "alter_queue": lambda session, queue: session.alter_queue(queue=queue, notify=True),
    "drop_queue": lambda session, queue: session.drop_queue(queue=queue),
    "pause_queue": lambda session, queue: session.pause_queue(queue=queue),
    "resume_queue": lambda session, queue: session.resume_queue(queue=queue),
}


@pytest.mark.parametrize("function", ON_QUEUE)
def test_a_queue(shared_connect: Connect, log: Session, function: str) -> None:
    queue = new_queue(log)
    enqueue(log, queue)
    renewer, waiter = shared_connect(), shared_connect(autocommit=True)
    renewer.drop_queue(queue=queue)
    renewer.create_queue(queue=queue)
    if function == "resume_queue":
        renewer.pause_queue(queue=queue)
    waiting = blocked(log, waiter, lambda: ON_QUEUE[function](waiter, queue))
    renewer.commit()
    waiting.result(PATIENCE)

    if function == "drop_queue":
        refused("MQ002", log.enqueue, queue=queue, payload=1)
        return
    found = settings(log, queue)
    assert found["notify"] is (function == "alter_queue")
    assert found["paused"] is (function == "pause_queue")
    enqueue(log, queue)
    assert stats(log, queue) == {"ready": 1}


@pytest.mark.parametrize("function", ON_QUEUE)
def test_a_queue_that_is_gone(shared_connect: Connect, log: Session, function: str) -> None:
    queue = new_queue(log)
    dropper, waiter = shared_connect(), shared_connect(autocommit=True)
    dropper.drop_queue(queue=queue)
    waiting = blocked(log, waiter, lambda: ON_QUEUE[function](waiter, queue))
    dropper.commit()
    assert getattr(waiting.exception(PATIENCE), "sqlstate", None) == "MQ002"


def test_a_topic_that_goes_while_all_its_partitions_are_sought(
    shared_connect: Connect, log: Session
) -> None:
    """Its name was found, its partitions are not: that is an error, not the end of a seek."""
    topic = new_topic(log, partitions=2, groups=["readers"])
    dropper, waiter = shared_connect(), shared_connect(autocommit=True)
    dropper.execute("lock table pgq.partition in access exclusive mode")
    seek = {"topic": topic, **READERS, "start": "earliest"}
    waiting = blocked(log, waiter, lambda: waiter.call("seek", **seek))
    dropper.drop_topic(topic=topic)
    dropper.commit()
    assert getattr(waiting.exception(PATIENCE), "sqlstate", None) == "MQ001"
