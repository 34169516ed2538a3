"""What was stored while nothing was to be removed, and is not wanted for ever any more.

A topic or queue that had no retention gets one, or is dropped: what it stored goes by the new
retention, or at once, also where others that keep for ever share its storage.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import offsets
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
    """How many payloads there are; the marks of partitions that moved on are none."""
    return int(row(log, "select count(*) from pgq.message where isfinite(published_at)")[0])


def pass_by(log: Session, clock: Clock, days: int) -> None:
    """Days go by, with a cleanup every six hours."""
    for _ in range(4 * days):
        clock.advance("6 hours")
        clean(log)


def test_a_topic_that_gets_a_retention(log: Session, clock: Clock, company: int) -> None:
    """Old messages stay as long as the new retention says from now on, and then go."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=1, no_limit=["retention"])
    log.create_group(topic=topic, consumer_group="readers")
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    clock.advance("100 days")
    clean(log)
    log.alter_topic(topic=topic, retention="6 days")
    pass_by(log, clock, 5)
    assert offsets(log.fetch(topic=topic, consumer_group="readers")) == [1, 2, 3]
    log.publish_batch(topic=topic, payloads=[4, 5])
    pass_by(log, clock, 5)
    assert stored(log) == company + 2
    refused("MQ004", log.fetch, topic=topic, consumer_group="readers")
    [place] = log.list_offsets(topic=topic)
    assert (place.first_offset, place.last_offset) == (4, 5)
    log.seek(topic=topic, consumer_group="readers", start="earliest")
    assert offsets(log.fetch(topic=topic, consumer_group="readers")) == [4, 5]


def test_a_topic_that_had_a_retention_now_and_then(log: Session, clock: Clock) -> None:
    """What it stored without one behind what goes is kept, though it stands in the same segment."""
    topic = new_name("topic")
    forever = {"no_limit": ["retention"]}
    log.create_topic(topic=topic, partitions=1, **forever)
    log.create_group(topic=topic, consumer_group="readers")
    for number, settings in enumerate(
        [forever, {"retention": "9 hours"}, forever, {"retention": "30 days"}, forever], start=1
    ):
        log.alter_topic(topic=topic, **settings)
        log.publish(topic=topic, payload=number)
    pass_by(log, clock, 2)
    log.seek(topic=topic, consumer_group="readers", start="earliest")
    assert offsets(log.fetch(topic=topic, consumer_group="readers")) == [3, 4, 5]
    assert stored(log) == 3


def test_a_topic_that_gets_a_retention_and_is_never_published_to_again(
    log: Session, clock: Clock, company: int
) -> None:
    """Nothing has to happen to it; the next offset is the one behind what is gone."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=2, no_limit=["retention"])
    log.publish_batch(topic=topic, payloads=[1, 2, 3], partition=1)
    log.alter_topic(topic=topic, retention="6 days")
    pass_by(log, clock, 10)
    assert stored(log) == company
    assert log.publish(topic=topic, payload=4, partition=1).log_offset == 4


def test_a_queue_that_gets_a_retention(log: Session, clock: Clock, company: int) -> None:
    """Finished and dead jobs go by the new retention; the payload of a waiting one stays."""
    queue = new_queue(log, no_limit=["job_ttl", "retention"], max_attempts=1)
    enqueue_many(log, queue, 3)
    ack(log, claim_one(log, queue))
    dead = claim_one(log, queue)
    assert log.nack(job_id=dead.job_id, lease_token=dead.lease_token)
    clock.advance("100 days")
    clean(log)
    log.alter_queue(queue=queue, retention="6 days")
    archived = "select count(*) from pgq.archived_jobs where queue = %s"
    assert row(log, archived, [queue]) == (1,)
    pass_by(log, clock, 10)
    assert row(log, archived, [queue]) == (0,)
    assert row(log, "select count(*) from pgq.dead_letters where queue = %s", [queue]) == (0,)
    assert stored(log) == company + 1
    assert claim_one(log, queue).payload == 2


@pytest.mark.parametrize("what", ["topic", "queue"])
def test_other_settings_do_not_put_it_off(
    log: Session, clock: Clock, company: int, what: str
) -> None:
    """Altered every day, what was stored goes by the retention that it got first all the same."""
    if what == "topic":
        name = new_name("topic")
        log.create_topic(topic=name, partitions=1, no_limit=["retention"])
        log.publish_batch(topic=name, payloads=[1, 2, 3])
    else:
        name = new_queue(log, no_limit=["job_ttl", "retention"])
        for number in range(3):
            enqueue(log, name, number)
            ack(log, claim_one(log, name))
    for day in range(6):
        settings = {"notify": day % 2 == 0} if day else {"retention": "6 days"}
        log.call(f"alter_{what}", **{what: name}, **settings)
        pass_by(log, clock, 1)
        assert stored(log) == company + (3 if day < 5 else 0)


@pytest.mark.parametrize("altered", [True, False], ids=["after it got one", "without one"])
def test_a_topic_that_is_dropped(log: Session, company: int, altered: bool) -> None:
    """Its messages go with the next cleanups, without any time passing."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=2, no_limit=["retention"])
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    if altered:
        log.alter_topic(topic=topic, retention="6 days")
    log.drop_topic(topic=topic)
    clean(log)
    assert stored(log) == company


@pytest.mark.parametrize("altered", [True, False], ids=["after it got one", "without one"])
def test_a_queue_that_is_dropped(log: Session, company: int, altered: bool) -> None:
    """Its payloads go with the next cleanups, those of finished jobs too."""
    queue = new_queue(log, no_limit=["job_ttl", "retention"])
    enqueue_many(log, queue, 3)
    ack(log, claim_one(log, queue))
    if altered:
        log.alter_queue(queue=queue, retention="6 days")
    log.execute("select pgq.drop_queue(%s)", [queue])
    clean(log)
    assert stored(log) == company
    kept = row(log, "select count(*) from pgq.job_archive")
    assert kept == (1 if company else 0,)


@pytest.mark.parametrize("way", ["altered", "dropped"])
def test_much_goes_in_several_calls(log: Session, clock: Clock, company: int, way: str) -> None:
    """Where it stands among what others keep, it is removed in batches."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=1, no_limit=["retention"])
    log.execute(
        "select pgq.publish_batch(%s, array(select to_jsonb(n)"
        " from generate_series(1, %s::integer) as n))",
        [topic, MANY],
    )
    if way == "dropped":
        log.drop_topic(topic=topic)
        assert not company or stored(log) == company + MANY
    else:
        log.alter_topic(topic=topic, retention="6 days")
        clean(log)
        clock.advance("10 days")
    left = [stored(log)]
    while left[-1] > company and len(left) < 20:
        done = actions(log)
        left.append(stored(log))
        assert done, left
    assert left[-1] == company
    if company:
        assert max(before - after for before, after in pairwise(left)) < MANY


def test_one_that_keeps_for_ever_again(log: Session, clock: Clock) -> None:
    """What is stored when the retention is lifted in time is kept."""
    topic, queue = new_name("topic"), new_queue(log, no_limit=["job_ttl", "retention"])
    log.create_topic(topic=topic, partitions=1, no_limit=["retention"])
    log.publish(topic=topic, payload=1)
    enqueue(log, queue, 1)
    ack(log, claim_one(log, queue))
    log.alter_topic(topic=topic, retention="6 days")
    log.alter_queue(queue=queue, retention="6 days")
    pass_by(log, clock, 4)
    log.alter_topic(topic=topic, no_limit=["retention"])
    log.alter_queue(queue=queue, no_limit=["retention"])
    log.publish(topic=topic, payload=2)
    pass_by(log, clock, 10)
    rows = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=2)
    assert [message.payload for message in rows] == [1, 2]
    assert row(log, "select payload from pgq.archived_jobs") == (1,)
