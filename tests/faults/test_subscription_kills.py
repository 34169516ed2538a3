"""Whoever publishes to queues, and works on what came there, is killed with -9 in the middle of it.

Afterwards each message that was committed, and matches, has come to each subscribed queue once, and
has been worked off once; nothing has come of what was rolled back.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from pgq.embedded import Server
from support.bulk import begin, stage
from support.crowd import KILLS, crowd
from support.house import install_script
from support.ordered import add, broken, ordered_queue
from support.queue import ack, claim, stats
from support.session import Connect, Session, row
from support.subscription import delivered, in_runs, new_followed_topic, publish_many, subscribe
from support.waiting import wait_until

StartServer = Callable[..., Server]

QUEUES = {
    "all": "true",
    "some": "kind = 'a'",
    "routed": "kind = 'b'",
    "ordered": "true",
    "limited": "true",
}
"""Queues, and which of the messages match their subscriptions."""

# Notes what it publishes in the same transaction.
PUBLISHER = """
numbers = iter(range(10 ** 9))

def work(connection):
    size = rng.choice([1, 2, 3, 10, 100])
    names = [f"{seed}-{next(numbers)}" for _ in range(size)]
    kinds = [rng.choice("ab") for _ in names]
    keys = [rng.choice(["k", "l", "m", "n", None]) for _ in names]
    headers = [f'{{"kind": "{kind}", "routing_key": "x.{kind}"}}' for kind in kinds]
    payloads = [f'"{name}"' for name in names]
    way = rng.choice(["one by one", "batch", "write"])
    if way == "one by one":
        for message in list(zip(payloads, keys, headers))[:3]:
            connection.execute("select pgq.publish('t', %s, %s, %s)", message)
        names = names[:3]
    elif way == "batch":
        connection.execute(
            "select pgq.publish_batch('t', %s::jsonb[], %s::text[], %s::jsonb[])",
            [payloads, keys, headers],
        )
    else:
        packed = [payload.encode() for payload in payloads]
        [(write,)] = connection.execute("select write_id from pgq.begin_write('t')").fetchall()
        connection.commit()
        connection.execute(
            "select pgq.write_chunk(%s, 0, 'a', 0, %s::integer[], packed_payloads => %s,"
            " keys => %s::text[], headers => %s::jsonb[], last_chunk => true)",
            [write, [len(each) for each in packed], b"".join(packed), keys, headers],
        )
        connection.commit()
        connection.execute("select pgq.commit_write(%s)", [write])
    with connection.cursor() as cursor:
        cursor.executemany("insert into sent values (%s, %s)", list(zip(names, kinds)))
    if rng.random() < 0.15:
        connection.rollback()
    else:
        connection.commit()
"""

# Takes few jobs of a run at a time, and notes what is done in the transaction of the end.
WORKER = """
def work(connection):
    queue = rng.choice(["all", "some", "routed", "ordered", "limited"])
    jobs = connection.execute(
        "select job_id, lease_token, payload from pgq.claim_job(%s, %s, '1 second')",
        [queue, rng.choice([1, 3, 7, 30])],
    ).fetchall()
    if rng.random() < 0.1:
        connection.rollback()
        return
    connection.commit()
    if not jobs:
        time.sleep(0.01)
    for job_id, token, name in jobs:
        what = rng.choice(["nack", "release_job"] + ["ack"] * 12)
        [(ended,)] = connection.execute(
            f"select pgq.{what}(%s, %s)", [job_id, token]
        ).fetchall()
        if what == "ack" and ended:
            connection.execute("insert into done values (%s, %s)", [queue, name])
        if rng.random() < 0.3:
            connection.commit()
    connection.commit()
"""

CLEANER = """
def work(connection):
    connection.execute("select pgq.cleanup()")
    connection.commit()
    time.sleep(0.2)
"""


def install(server: Server) -> None:
    """pgq, a topic with five queues, and tables of what was sent and done."""
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        connection.execute(
            "create table sent (name text, kind text);create table done (queue text, name text)"
        )
        # what is worked on is carried from leaf to leaf
        connection.create_topic(topic="t", partitions=2, retention="3 seconds")
        common = {"backoff": "0", "no_limit": ["max_attempts"]}
        for queue in ("all", "some", "routed"):
            connection.create_queue(queue=queue, **common)
        connection.create_queue(queue="ordered", ordered=True, **common)
        connection.create_queue(queue="limited", max_leased_per_key=3, **common)
        options = {"some": {"filter": {"kind": ["a"]}}, "routed": {"routing_key": "#.b"}}
        for queue in QUEUES:
            connection.subscribe(
                subscription=queue, topic="t", queue=queue, **options.get(queue, {})
            )


def done(connection: psycopg.Connection) -> int:
    [(sent, worked)] = connection.execute(
        "select (select count(*) from sent), (select count(*) from done)"
    ).fetchall()
    return int(min(sent, worked))


@pytest.mark.parametrize("what", KILLS)
def test_all_of_it_comes_once(start_server: StartServer, what: str) -> None:
    server = start_server()
    install(server)
    programs = [PUBLISHER] * 2 + [WORKER] * 3 + [CLEANER]
    with crowd(server.dsn, programs, server) as running:
        running.over_kills(what, 12 if what == "client" else 4, done, 100)

    with Session.connect(server.dsn, autocommit=True) as connection:
        work_off(connection)
        for queue, matches in QUEUES.items():
            lost_or_more = connection.execute(
                "select name, count(s.name), count(d.name) from"
                f" (select name from sent where {matches}) as s full join"
                " (select name from done where queue = %s) as d using (name)"
                " group by name having count(s.name) <> 1 or count(d.name) <> 1",
                [queue],
            ).fetchall()
            assert lost_or_more == [], queue
        assert row(connection, "select count(*) from pgq.job_extent") == (0,)
        assert row(connection, "select count(*) from pgq.job") == (0,)
        assert broken(connection) == []
        connection.cleanup()
        assert row(connection, "select count(*) from pgq.ordered_key") == (0,)


def work_off(connection: Session) -> None:
    """Work until there is nothing left; leases of the dead end after a second."""

    def empty(queue: str) -> bool:
        jobs = claim(connection, queue, 1000)
        for job in jobs:
            assert ack(connection, job)
        with connection.cursor() as cursor:
            cursor.executemany(
                "insert into done values (%s, %s)", [(queue, job.payload) for job in jobs]
            )
        return not jobs and stats(connection, queue) == {}

    for queue in QUEUES:
        wait_until(lambda queue=queue: empty(queue), 120, f"for {queue} to be empty")  # type: ignore[misc]


# ---------------------------------------------------------------------------- one at a time

CLIENT = """
import sys, time
import psycopg

dsn, *statements = sys.argv[1:]
options = "-c client_connection_check_interval=2ms -c application_name=pgq_test_victim"
connection = psycopg.connect(dsn, autocommit=True, options=options)
for statement in statements:
    connection.execute(statement)
print("done", flush=True)
time.sleep(600)
"""


@contextmanager
def victim(dsn: str, *statements: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, dsn, *statements], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def waits(connection: Session) -> bool:
    """Whether the victim waits for a lock."""
    return connection.execute(
        "select wait_event_type from pg_stat_activity where application_name = 'pgq_test_victim'"
    ).fetchall() == [("Lock",)]


def gone(connection: Session) -> bool:
    return row(
        connection,
        "select count(*) from pg_stat_activity where application_name = 'pgq_test_victim'",
    ) == (0,)


@pytest.mark.parametrize("way", ["publish", "publish_batch", "commit_write"])
def test_in_the_middle_of_a_fan_out(
    dsn: str, connect: Connect, connection: Session, way: str
) -> None:
    """A publisher that waits for a key of the second queue: the first one has got nothing."""
    topic, [first] = new_followed_topic(connection)
    second = ordered_queue(connection)
    subscribe(connection, topic, second)
    count = 1 if way == "publish" else 5
    write = begin(connection, topic=topic)
    contents = [b"0"] * count
    assert stage(connection, write, contents, json=True, keys=["k"] * count)
    statement = {
        "publish": f"select pgq.publish('{topic}', '0', 'k')",
        "publish_batch": f"select pgq.publish_batch('{topic}', array_fill('0'::jsonb, array[5]),"
        " array_fill('k'::text, array[5]))",
        "commit_write": f"select pgq.commit_write('{write}')",
    }[way]
    holder = connect()
    add(holder, second)
    with victim(dsn, statement) as process:
        wait_until(lambda: waits(connection), 60, "for the publisher to wait")
        process.kill()
        wait_until(lambda: gone(connection), 60, "for the publisher to be gone")
    holder.rollback()
    assert (delivered(connection, first), in_runs(connection, first)) == ([], 0)
    assert (claim(connection, second), broken(connection)) == ([], [])
    connection.execute(statement.encode())
    assert delivered(connection, first) == [0] * count
    found = []
    while jobs := claim(connection, second):
        assert ack(connection, jobs[0])
        found.append(jobs[0].payload)
    assert found == [0] * count


def test_in_the_middle_of_a_run(dsn: str, connection: Session) -> None:
    """A worker that has made jobs of a run: it is as if it had never been."""
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 100)
    publish_many(connection, topic, 100)
    with victim(dsn, "begin", f"select pgq.claim_job('{queue}', 130)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert delivered(connection, queue) == []
        process.kill()
        wait_until(lambda: gone(connection), 60, "for the worker to be gone")
    assert in_runs(connection, queue) == 200
    jobs = claim(connection, queue, 1000)
    assert [(job.payload, job.attempt) for job in jobs] == [(n, 1) for n in range(100)] * 2
