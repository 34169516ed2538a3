"""Workers belong to the role that sends their heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from support.session import Connect, Session, refused, unchanged

ANN, BOB = "pgq_test_ann", "pgq_test_bob"


@pytest.fixture
def house(connection: Session) -> Iterator[Session]:
    """Two roles that may call everything."""
    try:
        for role in (ANN, BOB):
            connection.execute(f"create role {role}")
            connection.execute(f"grant usage on schema pgq to {role}")
            connection.execute(f"grant execute on all functions in schema pgq to {role}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    yield connection
    for role in (ANN, BOB):
        connection.execute(f"drop owned by {role}")
        connection.execute(f"drop role {role}")


@pytest.fixture
def ann(house: Session, connect: Connect) -> Session:
    session = connect(autocommit=True)
    session.execute(f"set role {ANN}")
    return session


@pytest.fixture
def bob(house: Session, connect: Connect) -> Session:
    session = connect(autocommit=True)
    session.execute(f"set role {BOB}")
    return session


def listed(session: Session) -> list[tuple[str, str]]:
    return [(one.worker, one.role) for one in session.list_workers()]


def test_one_name_of_two_roles(house: Session, ann: Session, bob: Session) -> None:
    """Neither changes nor removes the row of the other."""
    ann.heartbeat(worker="w", host="mill", running=3)
    bob.heartbeat(worker="w", host="elsewhere")
    assert [(one.role, one.host, one.running) for one in house.list_workers()] == [
        (ANN, "mill", 3),
        (BOB, "elsewhere", 0),
    ]
    assert bob.delete_worker(worker="w", role=ANN) is False
    assert bob.delete_worker(worker="w") is True
    assert bob.delete_worker(worker="w") is False
    assert listed(house) == [("w", ANN)]


def test_who_forgets_those_of_others(house: Session, ann: Session, bob: Session) -> None:
    """The owner, and who administers all topics or all queues; one of them, or all of a name."""
    for session in (ann, bob, house):
        session.heartbeat(worker="w")
    assert house.delete_worker(worker="w", role="nobody") is False
    assert house.delete_worker(worker="w", role=ANN) is True
    assert house.delete_worker(worker="w") is True
    assert listed(house) == []
    ann.heartbeat(worker="w")
    for access, forgets in (("monitor", False), ("admin", True)):
        house.grant_access(role=BOB, access=access, queue="*")
        assert bob.delete_worker(worker="w") is forgets
    house.revoke_access(role=BOB, access="admin", queue="*")
    ann.heartbeat(worker="w")
    house.execute(f"grant {ANN} to {BOB}")
    assert bob.delete_worker(worker="w") is True


def test_details_where_something_is_hidden(house: Session, ann: Session, bob: Session) -> None:
    """They may name anything: the role itself reads them, and who may see all."""
    house.create_queue(queue="open")
    ann.heartbeat(
        worker="w", sources=["late", "open", "hidden"], details=Jsonb({"queue": "hidden"})
    )

    def seen(session: Session) -> Any:
        [one] = session.list_workers()
        return one.sources, one.details

    everything = (["late", "open", "hidden"], {"queue": "hidden"})
    assert seen(bob) == everything
    house.create_queue(queue="hidden", restricted=True)
    assert seen(bob) == (["late", "open"], None)
    assert seen(ann) == (["late", "open"], {"queue": "hidden"})
    assert seen(house) == everything
    house.create_topic(topic="late", restricted=True)
    assert seen(bob) == (["open"], None)
    house.grant_access(role=BOB, access="monitor", queue="*")
    assert seen(bob) == (["open", "hidden"], None)
    house.grant_access(role=BOB, access="monitor", topic="late")
    assert seen(bob) == everything


def test_bounds(connection: Session) -> None:
    with unchanged(connection):
        for bad in (
            {"sources": ["a"] * 1001},
            {"sources": ["ü" * 16384, "b"]},
            {"host": "h" * 256},
            {"details": Jsonb("ü" * 8191)},
        ):
            refused("22023", connection.heartbeat, worker="w", **bad)
    connection.heartbeat(
        worker="w", sources=["ü" * 16384], host="h" * 255, details=Jsonb("ü" * 8190)
    )
    connection.heartbeat(worker="w", sources=["ü" * 16] * 1000)


def test_the_series_of_many(house: Session, ann: Session) -> None:
    """A role with very many workers has some figures, and takes none from others."""
    house.heartbeat(worker="mine")
    ann.execute(
        "select pgq.heartbeat('w' || n, kind => 'k' || n)"
        " from generate_series(0, 149) as n order by n desc"
    )
    house.execute(
        "update pgq.worker set last_seen_at = last_seen_at - interval '2 minutes'"
        " where substr(worker, 2)::integer >= 90 and role <> session_user"
    )
    found = [m for m in house.metrics() if m.name.startswith("pgq_worker")]
    running = [m.labels for m in found if m.name == "pgq_worker_running"]
    assert {labels["worker"] for labels in running} >= {"mine", *(f"w{n}" for n in range(90))}
    assert sum(labels["role"] == ANN for labels in running) == 100
    told = {
        (m.name, m.labels.get("state")): m.value
        for m in found
        if m.labels["role"] == ANN and "worker" not in m.labels
    }
    assert told == {
        ("pgq_workers", "seen"): 90,
        ("pgq_workers", "silent"): 60,
        ("pgq_workers_omitted", None): 50,
    }
    assert len(found) == 2 * 101 + 2 * 3
    assert house.metrics_text().count("\npgq_worker_running{") == 101
