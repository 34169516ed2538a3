"""A queue or topic goes while a call with an idempotency key waits: nothing is stored."""

from __future__ import annotations

from support.session import Connect, Session, refused, row
from support.waiting import PATIENCE, blocked, results


def test_a_queue_that_goes_while_a_key_is_waited_for(connect: Connect, connection: Session) -> None:
    connection.create_queue(queue="mail")
    holder, waiter = connect(), connect(autocommit=True)
    enqueue = {"queue": "mail", "payload": 1, "idempotency_key": "a"}
    holder.enqueue(**enqueue)
    waiting = blocked(connection, waiter, lambda: refused("MQ002", waiter.enqueue, **enqueue))
    connection.drop_queue(queue="mail")
    holder.rollback()
    results(waiting)


def test_a_queue_that_goes_while_a_job_is_added(connect: Connect, connection: Session) -> None:
    """The key is noted by then, and the call waits for the unique key."""
    connection.create_queue(queue="mail")
    holder, waiter = connect(), connect(autocommit=True)
    holder.enqueue(queue="mail", payload=1, unique_key="u")
    enqueue = {"queue": "mail", "payload": 1, "idempotency_key": "a", "unique_key": "u"}
    waiting = blocked(connection, waiter, lambda: refused("MQ002", waiter.enqueue, **enqueue))
    connection.drop_queue(queue="mail")
    holder.rollback()
    assert "was dropped while this call was at work" in str(waiting.result(PATIENCE))
    connection.cleanup()
    assert row(connection, "select count(*) from pgq.job") == (0,)


def test_a_topic_that_is_made_again_while_a_message_waits(
    connect: Connect, connection: Session
) -> None:
    """The key belongs to the former topic, so the message may not go to the new one."""
    connection.create_topic(topic="news", partitions=1)
    holder, dropper, waiter = connect(), connect(), connect(autocommit=True)
    holder.publish(topic="news", payload=0)
    dropping = blocked(connection, dropper, lambda: dropper.drop_topic(topic="news"))
    publish = {"topic": "news", "payload": 1, "idempotency_key": "a"}
    waiting = blocked(connection, waiter, lambda: refused("MQ001", waiter.publish, **publish))
    holder.commit()
    results(dropping)
    dropper.create_topic(topic="news", partitions=1)
    dropper.commit()
    assert "was dropped while this call was at work" in str(waiting.result(PATIENCE))
    assert connection.publish(topic="news", payload=2).log_offset == 1
