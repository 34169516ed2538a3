"""Servers and clients that are killed while access is changed, or a worker tells of itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest

from pgq.embedded import Server
from support.house import install_script
from support.session import Session, refused, row
from support.waiting import wait_until

APP = "pgq_test_fragile"

# Says which step it has done, and waits to be killed where it is told to stop.
CLIENT = """
import sys, time
import psycopg

dsn, change, stop = sys.argv[1:]

def step(name):
    print(name, flush=True)
    if name == stop:
        time.sleep(600)

connection = psycopg.connect(dsn)
connection.execute("set application_name = 'pgq_test_victim'")
connection.execute("select pgq.heartbeat('w', running => 7)")
connection.execute(change)
step("changed")
connection.commit()
step("committed")
"""

CHANGES = {
    "revoke": f"select pgq.revoke_access('{APP}', topic => 't')",
    "grant": f"select pgq.grant_access('{APP}', 'consume', topic => '*')",
    "open": "select pgq.alter_topic('t', restricted => false)",
}


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    """A server that keeps what was committed, with a topic to which a role may publish."""
    server = start_server(settings={"fsync": "on", "autovacuum": "off"})
    with Session.connect(server.dsn, autocommit=True) as session:
        session.execute(install_script())
        session.execute(f"create role {APP}")
        session.execute(f"grant usage on schema pgq to {APP}")
        session.execute(f"grant execute on all functions in schema pgq to {APP}")
        session.create_topic(topic="t", partitions=2)
        session.create_group(topic="t", consumer_group="g")
        session.grant_access(role=APP, access="publish", topic="t")
        session.publish(topic="t", payload=1, partition=0)
    return server


def rights(session: Session) -> tuple[bool, bool]:
    """Whether the role may publish and consume, and that nothing waits for it."""
    found = []
    for function, arguments in (
        ("publish", {"topic": "t", "payload": 2, "partition": 0}),
        ("fetch", {"topic": "t", "consumer_group": "g"}),
    ):
        with session.transaction(force_rollback=True):
            session.execute("set local lock_timeout = '5s'")
            session.execute(f"set local role {APP}")
            try:
                with session.transaction():
                    session.call(function, **arguments)
            except psycopg.Error as error:
                if error.sqlstate not in ("MQ001", "42501"):
                    raise
                found.append(False)
            else:
                found.append(True)
    return found[0], found[1]


AFTER = {"revoke": (False, False), "grant": (True, True), "open": (True, True)}


@pytest.mark.parametrize("victim", ["client", "server"])
@pytest.mark.parametrize("stop", ["changed", "committed"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_there_or_not(change: str, stop: str, victim: str, server: Server) -> None:
    """All of it is in force when it was committed, and nothing of it before."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, server.dsn, CHANGES[change], stop],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert stop in (line.strip() for line in process.stdout)
        if victim == "server":
            server.kill()
            server.restart()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

    with Session.connect(server.dsn, autocommit=True) as session:
        query = "select from pg_stat_activity where application_name = 'pgq_test_victim'"
        wait_until(lambda: session.execute(query).fetchall() == [], what="for the client to go")
        before = (True, False)
        assert rights(session) == (AFTER[change] if stop == "committed" else before)
        assert row(session, "select count(*) from pgq.messages") == (1,)
        workers = [(worker.worker, worker.running) for worker in session.list_workers()]
        assert workers == ([("w", 7)] if stop == "committed" else [])
        # whoever comes next finds nothing that is held
        session.execute("set lock_timeout = '5s'")
        session.alter_topic(topic="t", restricted=True)
        session.revoke_access(role=APP, topic="t")
        session.revoke_access(role=APP, topic="*")
        session.heartbeat(worker="w")
        session.execute(f"set role {APP}")
        refused("MQ001", session.publish, topic="t", payload=1)
