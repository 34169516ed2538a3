"""peek_jobs: what is in a queue, without claiming any of it."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim_one, enqueue, new_queue
from support.session import Session, refused


def peek(session: Session, queue: str, **arguments: Any) -> list[tuple[Any, str]]:
    """The content and the state of each job that is shown."""
    rows = session.execute(
        "select payload, state from pgq.peek_jobs(queue => %s, state => %s, max_jobs => %s)",
        [queue, arguments.get("state"), arguments.get("max_jobs")],
    ).fetchall()
    return [(payload, state) for payload, state in rows]


def test_all_states_in_the_order_of_claims(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, ordered=True, job_ttl="1 hour")
    enqueue(connection, queue, "leased")
    claim_one(connection, queue)
    enqueue(connection, queue, "later", delay="10 minutes")
    enqueue(connection, queue, "last", priority=9)
    enqueue(connection, queue, "first", key="k")
    enqueue(connection, queue, "behind it", key="k")
    clock.advance("1 second")
    states = {
        "ready": ["first", "last"],
        "leased": ["leased"],
        "delayed": ["later"],
        "waiting": ["behind it"],
        "expired": [],
    }
    for state, payloads in states.items():
        assert peek(connection, queue, state=state) == [(name, state) for name in payloads]
    everything = [name for name, _ in peek(connection, queue)]
    assert sorted(everything) == sorted(name for names in states.values() for name in names)
    assert everything.index("first") < everything.index("later") < everything.index("last")
    clock.advance("2 hours")
    assert {state for _, state in peek(connection, queue)} == {"expired"}
    assert len(peek(connection, queue, state="expired")) == 5


def test_it_shows_what_get_job_shows_and_claims_nothing(connection: Session, queue: str) -> None:
    number = enqueue(connection, queue, {"a": 1}, key="k", headers={"h": 1}, label="l")
    shown = connection.execute("select * from pgq.peek_jobs(%s)", [queue]).fetchall()
    assert shown == connection.execute("select * from pgq.get_job(%s)", [number]).fetchall()
    with connection.transaction():
        connection.execute("set transaction read only")
        assert peek(connection, queue) == [({"a": 1}, "ready")]
    assert claim_one(connection, queue).attempt == 1


def test_so_many_of_one_queue(connection: Session, queue: str) -> None:
    other = new_queue(connection)
    for number in range(5):
        enqueue(connection, queue, number)
        enqueue(connection, other, -1)
    assert peek(connection, queue, max_jobs=3) == [(number, "ready") for number in range(3)]
    assert len(peek(connection, queue)) == 5


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"queue": "nowhere"}, "MQ002"),
        ({"queue": None}, "22004"),
        ({"max_jobs": 0}, "22023"),
        ({"max_jobs": 10001}, "22023"),
        ({"state": "done"}, "22023"),
    ],
)
def test_mistakes(connection: Session, queue: str, arguments: dict[str, Any], code: str) -> None:
    refused(code, connection.peek_jobs, **{"queue": queue, **arguments})


def test_dead_letters_are_elsewhere(connection: Session, queue: str) -> None:
    error = refused("22023", connection.peek_jobs, queue=queue, state="dead")
    assert "fetch_dead_letters" in str(error.diag.message_hint)
