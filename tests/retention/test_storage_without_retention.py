"""What is stored without a retention is kept for ever, until its topic or queue is dropped.

So one that has stored anything gets no retention. What is dropped goes at once, also where others
share its storage.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import psycopg
import pytest

from support.queue import Job, claim_one, enqueue, enqueue_many, new_queue
from support.session import Session, new_name, refused, row
from support.storage import actions, clean

MANY = 25_000


@pytest.fixture
def log(connection: psycopg.Connection[Any]) -> Session:
    """The log in the database of this folder."""
    return connection


@pytest.fixture(params=[True, False], ids=["shared", "alone"])
def company(request: pytest.FixtureRequest, log: Session) -> int:
    """Whether others keep for ever as well; the number of messages that these have stored."""
    if not request.param:
        return 0
    topic, queue = new_name("topic"), new_queue(log, no_limit=["job_ttl", "retention"])
    log.create_topic(topic=topic, partitions=1, no_limit=["retention"])
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    enqueue_many(log, queue, 2)
    ack(log, claim_one(log, queue))
    return 5


def ack(log: Session, job: Job) -> None:
    assert log.ack(job_id=job.job_id, lease_token=job.lease_token)


def stored(log: Session) -> int:
    """How many payloads there are; the first row of each segment is none."""
    return int(row(log, "select count(*) from pgq.message where isfinite(published_at)")[0])


@pytest.mark.parametrize("deferred", [False, True])
def test_a_topic_gets_no_retention(log: Session, company: int, deferred: bool) -> None:
    """Not when it has stored anything, be it without an offset; what it had goes on as before."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=2, deferred=deferred, no_limit=["retention"])
    log.publish(topic=topic, payload=1, partition=1)
    error = refused("22023", log.alter_topic, topic=topic, retention="6 days")
    assert "without a retention" in str(error)
    assert "outage" in str(error.diag.message_hint)
    assert log.alter_topic(topic=topic, notify=True).retention is None
    assert stored(log) == company + 1


@pytest.mark.parametrize("first", ["without one", "with one"])
def test_an_empty_topic_gets_a_retention(log: Session, company: int, first: str) -> None:
    """Nothing was stored, or only before the retention was lifted, or it was rolled back."""
    topic = new_name("topic")
    lifted = {"no_limit": ["retention"]}
    log.create_topic(topic=topic, partitions=1, **(lifted if first == "without one" else {}))
    if first == "with one":
        log.publish(topic=topic, payload=1)
        log.alter_topic(topic=topic, **lifted)
    with pytest.raises(ZeroDivisionError), log.transaction():
        log.publish(topic=topic, payload=2)
        raise ZeroDivisionError
    assert log.alter_topic(topic=topic, retention="6 days").retention.days == 6
    assert log.publish(topic=topic, payload=3).log_offset == (1 if first == "without one" else 2)


def test_a_queue_gets_no_retention(log: Session, company: int) -> None:
    """Not when it has stored anything, finished or not; an empty one does."""
    queue = new_queue(log, no_limit=["job_ttl", "retention"])
    log.alter_queue(queue=queue, retention="6 days")
    log.alter_queue(queue=queue, no_limit=["retention"])
    enqueue(log, queue)
    refused("22023", log.alter_queue, queue=queue, retention="6 days")
    ack(log, claim_one(log, queue))
    error = refused("22023", log.alter_queue, queue=queue, retention="6 days", lease="1 minute")
    assert "drain" in str(error.diag.message_hint)
    assert row(log, "select lease < '1 minute' from pgq.queue where queue = %s", [queue]) == (True,)


def test_a_topic_that_is_dropped(log: Session, company: int) -> None:
    """Its messages go with the next cleanups, without any time passing."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=2, no_limit=["retention"])
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    log.drop_topic(topic=topic)
    clean(log)
    assert stored(log) == company


def test_a_queue_that_is_dropped(log: Session, company: int) -> None:
    """Its payloads go with the next cleanups, those of finished jobs too."""
    queue = new_queue(log, no_limit=["job_ttl", "retention"])
    enqueue_many(log, queue, 3)
    ack(log, claim_one(log, queue))
    log.execute("select pgq.drop_queue(%s)", [queue])
    clean(log)
    assert stored(log) == company
    kept = row(log, "select count(*) from pgq.job_archive")
    assert kept == (1 if company else 0,)


def test_much_goes_in_several_calls(log: Session, company: int) -> None:
    """Where it stands among what others keep, it is removed in batches."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=1, no_limit=["retention"])
    log.execute(
        "select pgq.publish_batch(%s, array(select to_jsonb(n)"
        " from generate_series(1, %s::integer) as n))",
        [topic, MANY],
    )
    log.drop_topic(topic=topic)
    assert not company or stored(log) == company + MANY
    left = [stored(log)]
    while left[-1] > company and len(left) < 20:
        done = actions(log)
        left.append(stored(log))
        assert done, left
    assert left[-1] == company
    if company:
        assert max(before - after for before, after in pairwise(left)) < MANY
