"""Topics and queues that are made or changed in a snapshot that misses what cleanup did since.

They get the segment that their class writes to now, or 40001; never one that is being given up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.queue import claim_one, enqueue
from support.session import Connect, Session, new_name
from support.snapshots import LEVELS, TRY_AGAIN, old_session, second_answer_of
from support.storage import actions, clean, misplaced, seal

FUNCTIONS = ["create_topic", "alter_topic", "create_queue", "alter_queue"]
STATES = ["sealed", "closed", "emptied", "taken by others"]


@pytest.fixture
def log(connection: psycopg.Connection[Any]) -> Session:
    """The log in the database of this folder; what never ends is ended after a while."""
    connection.execute("set statement_timeout = '5s'")
    return connection


def change(session: Session, function: str, name: str, retention: str) -> Callable[[], Any]:
    """A call that gives a topic or a queue this retention; what it alters must be there."""
    options = {"partitions": 1} if function == "create_topic" else {}
    if function.endswith("topic"):
        return lambda: session.call(function, topic=name, retention=retention, **options)
    return lambda: session.call(function, queue=name, retention=retention)


def prepare(log: Session, function: str) -> str:
    """The name of a topic or queue to be made, or of one with another retention to be altered."""
    name = new_name("topic")
    if function == "alter_topic":
        log.create_topic(topic=name, partitions=1, retention="70 days")
    if function == "alter_queue":
        log.create_queue(queue=name, retention="70 days")
    return name


def write(log: Session, function: str, name: str) -> None:
    """Publish or enqueue one."""
    if function.endswith("topic"):
        log.publish(topic=name, payload="1")
    else:
        enqueue(log, name, 1)


def kept(log: Session, function: str, name: str) -> Any:
    """What was written, as a consumer or a worker gets it."""
    if function.endswith("topic"):
        [found] = log.fetch_range(topic=name, partition=0, first_offset=1, last_offset=1)
        return found.payload
    return claim_one(log, name).payload


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_segment_that_is_given_up_gets_no_new_members(
    connect: Connect, log: Session, clock: Clock, function: str, state: str, level: str
) -> None:
    """A message two hours old stays where seven days were promised, however often one cleans."""
    founder = new_name("topic")
    log.create_topic(topic=founder, partitions=1, retention="7 days")
    log.publish(topic=founder, payload=1)
    name = prepare(log, function)
    late = old_session(connect, level)
    seal(log, clock, "3 days")
    if state != "sealed":
        assert "segment closed" in clean(log)
        clock.advance("167 hours")
    if state in ("emptied", "taken by others"):
        clock.advance("2 hours")
        assert "segment truncated" in clean(log)
    if state == "taken by others":
        log.create_topic(topic=new_name("topic"), retention="1 hour")

    work = change(late, function, name, "7 days")
    assert second_answer_of(late, work) != TRY_AGAIN
    write(log, function, name)
    assert misplaced(log, "7 days") == []
    clock.advance("2 hours")
    clean(log)
    assert kept(log, function, name) == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("retention", ["5 days", "6 days"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_class_that_others_have_made_since(
    connect: Connect, log: Session, function: str, retention: str, level: str
) -> None:
    """The same one or another: no violation of a key gets out, and no leaf has two owners."""
    name = prepare(log, function)
    late = old_session(connect, level)
    other = new_name("topic")
    log.create_topic(topic=other, partitions=1, retention="5 days")
    work = change(late, function, name, retention)
    assert second_answer_of(late, work) != TRY_AGAIN
    write(log, function, name)
    assert misplaced(log, retention) == []
    log.publish(topic=other, payload=1)
    assert misplaced(log, "5 days") == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", ["create_queue", "alter_queue"])
def test_cleanup_ends_when_a_queue_is_alone_in_its_class(
    connect: Connect, log: Session, clock: Clock, function: str, level: str
) -> None:
    """Its payloads are carried to another segment than the one that is emptied."""
    founder = new_name("topic")
    log.create_queue(queue=founder, retention="9 hours")
    enqueue(log, founder, 0)
    name = prepare(log, function)
    late = old_session(connect, level)
    seal(log, clock, "3 hours")
    clean(log)
    work = change(late, function, name, "9 hours")
    assert second_answer_of(late, work) != TRY_AGAIN
    log.execute("select pgq.drop_queue(%s)", [founder])
    enqueue(log, name, 1)
    job = claim_one(log, name, lease="100 hours")
    for _ in range(8):
        clock.advance("3 hours")
        actions(log)
    assert log.archive_job(job_id=job.job_id, lease_token=job.lease_token, outcome="o")
    assert log.execute("select payload from pgq.archived_jobs").fetchall() == [(1,)]
