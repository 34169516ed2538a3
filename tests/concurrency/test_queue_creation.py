"""Several create one queue: one of them makes it, the others are told what it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from support.queue import enqueue, settings, stats
from support.session import Connect, Session, contents, new_name
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session
from support.waiting import aside, wait_until_blocked

# what the second one gives, beside a first one with a lease of a minute, and whether that agrees
SECONDS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"lease": "60 seconds"}, True),
    ({"lease": "1 minute", "max_attempts": 5, "no_limit": ["job_ttl"]}, True),
    ({"lease": "2 minutes"}, False),
    ({"lease": "1 minute", "no_limit": ["retention"]}, False),
]
FIRST: dict[str, Any] = {"lease": "1 minute", "no_limit": ["job_ttl"]}


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


def _create(session: Session, queue: str, given: dict[str, Any]) -> tuple[Any, ...] | str:
    """The queue, or the code of the error."""
    try:
        created = session.create_queue(queue=queue, **given)
    except psycopg.Error as error:
        return str(error.sqlstate)
    return created


@pytest.mark.parametrize("first_commits", [True, False])
@pytest.mark.parametrize(("given", "agrees"), SECONDS)
def test_two_at_once(
    connect: Connect,
    connection: Session,
    given: dict[str, Any],
    agrees: bool,
    first_commits: bool,
) -> None:
    """The second waits for the first; after a rollback the queue is what the second says."""
    queue = new_name("queue")
    first, second = connect(), connect(autocommit=True)
    created = _create(first, queue, FIRST)
    answer = aside(lambda: _create(second, queue, given))
    wait_until_blocked(connection, second.pid)
    first.commit() if first_commits else first.rollback()
    found = tuple(settings(connection, queue).values()) if answer.result(30) else ()
    if first_commits:
        assert found == created
        assert answer.result() == (created if agrees else "MQ005")
    else:
        assert found == answer.result() != created
        assert (settings(connection, queue)["lease"] == timedelta(minutes=1)) is (
            "lease" in given and given["lease"] != "2 minutes"
        )
    # it has all that belongs to a queue, once
    enqueue(connection, queue)
    assert stats(connection, queue) == {"ready": 1}


def test_many_at_once(connect: Connect) -> None:
    """Each at the start of its application: all get the same queue."""
    queue = new_name("queue")
    sessions = [connect(autocommit=True) for _ in range(8)]
    answers = [aside(lambda s=s: _create(s, queue, FIRST)) for s in sessions]  # type: ignore[misc]
    assert {answer.result(30) for answer in answers} == {
        tuple(settings(sessions[0], queue).values())
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("given", "agrees"), SECONDS)
def test_one_that_was_created_since_the_snapshot(
    connect: Connect, connection: Session, level: str, given: dict[str, Any], agrees: bool
) -> None:
    """It cannot be seen, so the transaction begins anew, and is told what there is."""
    queue = new_name("queue")
    session = old_session(connect, level)
    created = _create(connection, queue, FIRST)
    before = contents(connection)
    assert _create(session, queue, given) == "40001"
    session.rollback()
    assert _create(session, queue, given) == (created if agrees else "MQ005")
    session.rollback()
    assert contents(connection) == before


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("recreate", [False, True])
def test_one_that_was_dropped_since_the_snapshot(
    connect: Connect, connection: Session, level: str, recreate: bool
) -> None:
    """What the snapshot shows of it is not the answer: it is there afterwards, as was said."""
    queue = new_name("queue")
    _create(connection, queue, FIRST)
    session = old_session(connect, level)
    connection.drop_queue(queue=queue)
    if recreate:
        _create(connection, queue, {"lease": "2 minutes"})
    answer = answer_of(session, lambda: session.create_queue(queue=queue))
    assert answer == TRY_AGAIN
    created = answer_of(session, lambda: session.create_queue(queue=queue))
    assert created == tuple(settings(connection, queue).values())


@pytest.mark.parametrize("level", LEVELS)
def test_one_that_was_altered_since_the_snapshot(
    connect: Connect, connection: Session, level: str
) -> None:
    """It is compared as the transaction sees it, or the transaction is told to begin anew."""
    queue = new_name("queue")
    created = _create(connection, queue, FIRST)
    session = old_session(connect, level)
    connection.alter_queue(queue=queue, lease="2 minutes")
    answer = answer_of(session, lambda: session.create_queue(queue=queue, **FIRST))
    assert answer in (TRY_AGAIN, created)
    assert _create(session, queue, FIRST) == "MQ005"
    assert settings(connection, queue)["lease"] == timedelta(minutes=2)


def test_a_storage_class_that_vanishes_meanwhile(connect: Connect, connection: Session) -> None:
    """cleanup forgets a retention that nobody uses just when somebody is about to use it."""
    connection.execute("insert into pgq.storage_class (retention) values ('77 hours')")
    remover, creator = connect(), connect(autocommit=True)
    remover.execute("select from pgq.storage_class where retention = '77 hours' for update")
    queue = new_name("queue")
    created = aside(lambda: _create(creator, queue, {"retention": "77 hours"}))
    wait_until_blocked(connection, creator.pid)
    remover.execute("delete from pgq.storage_class where retention = '77 hours'")
    remover.commit()
    assert created.result(30) == tuple(settings(connection, queue).values())
    assert settings(connection, queue)["retention"] == timedelta(hours=77)
