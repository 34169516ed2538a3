"""A database that is full and in use, by plain SQL that a release and the next one understand."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import psycopg

from support.waiting import PATIENCE, aside, wait_until

__all__ = ["FILLED", "LATER", "Load", "check", "fill", "finish", "rows"]

Connection = psycopg.Connection[Any]

FILLED = {"messages": 30_000, "jobs": 20_000}
"""How many are there before anybody begins to work."""

# What may be answered while the other version comes; the same call works when it is repeated.
LATER = {
    "0A000": "a prepared statement whose result has more columns now",
    "42703": "a call that had begun, and found a column renamed",
    "42883": "a call that had begun, and found a helper gone",
    "40P01": "a deadlock",
    "40001": "a snapshot that is too old",
}

TABLES = """
create schema app;
create table app.published (content bigint);
create table app.enqueued (content bigint);
create table app.consumed (partition integer, log_offset bigint, content bigint);
create table app.polled (partition integer, log_offset bigint, content bigint);
create table app.worked (content bigint);
grant usage on schema app to {role};
grant select, insert on all tables in schema app to {role};
"""

GRANTED = (
    "publish, publish_batch, enqueue, enqueue_batch, consume, poll, commit_offset, claim_job, ack,"
    " nack, commit_write, fetch_range, list_groups"
)

# every state that there is; the content of the jobs is negative, so that workers can tell
FILL = """
select pgq.create_topic(topic => 'orders', partitions => 4);
select pgq.create_topic(topic => 'events', partitions => 2, notify => true);
select pgq.create_topic(topic => 'raw', partitions => 1, retention => '1 day');
select pgq.create_group(topic => 'orders', consumer_group => 'readers');
select pgq.create_group(topic => 'events', consumer_group => 'pollers');
select pgq.create_group(topic => 'orders', consumer_group => 'leased');
select pgq.create_queue(queue => 'work', max_attempts => 100);
select pgq.create_queue(queue => 'still', max_attempts => 1);
select pgq.create_queue(queue => 'kept', archive => true);
select count(*) from generate_series(1, {messages} / 1000) as n, lateral pgq.publish_batch(
    topic => 'orders',
    payloads => array(select to_jsonb(-(n * 1000 + m)) from generate_series(1, 1000) as m),
    keys => array(select 'k' || m % 50 from generate_series(1, 1000) as m),
    partition => null);
select count(*) from generate_series(1, 100) as n, lateral pgq.publish(
    topic => 'raw', headers => '{{"kind": "body"}}', body => decode(repeat('00ff', 5000), 'hex'));
select count(*) from generate_series(1, {jobs} / 1000) as n, lateral pgq.enqueue_batch(
    queue => 'work',
    payloads => array(select to_jsonb(-(n * 1000 + m)) from generate_series(1, 1000) as m),
    labels => array(select (array['a', null])[1 + m % 2] from generate_series(1, 1000) as m));
select count(*) from generate_series(1, 40) as n, lateral pgq.enqueue(
    queue => 'still', payload => to_jsonb(n), key => 'k', priority => n % 3,
    delay => case when n > 30 then '1 day'::interval end);
select pgq.nack(job_id, lease_token, error => 'broken')
    from pgq.claim_job(queue => 'still', max_jobs => 10);
select pgq.ack(job_id, lease_token) from pgq.claim_job(queue => 'still', max_jobs => 5);
select count(*) from pgq.claim_job(queue => 'still', max_jobs => 5, lease => '1 hour');
select pgq.enqueue(queue => 'kept', payload => '1') from generate_series(1, 5);
select pgq.archive_job(job_id, lease_token) from pgq.claim_job(queue => 'kept', max_jobs => 5);
select count(*) from pgq.consume(topic => 'orders', consumer_group => 'leased');
select count(*) from pgq.poll(topic => 'orders', consumer_group => 'leased', lease => '1 hour');
select pgq.write_chunk(write_id, task => 0, task_attempt => 'a', chunk => 0,
    lengths => array[1, 1], packed_payloads => '12', last_chunk => true)
    from pgq.begin_write(topic => 'raw', producer => 'loader', seq => 1);
"""


def rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


def fill(connection: Connection, role: str, *, part: int = 10) -> None:
    """Fill a database, or a part of that, and give a role what it needs to work there."""
    connection.execute(TABLES.format(role=role).encode())
    connection.execute(
        f"grant usage on schema pgq to {role};"
        f" grant select on pgq.messages, pgq.queue_stats to {role};"
        f" grant execute on function {', '.join('pgq.' + f.strip() for f in GRANTED.split(','))}"
        f" to {role}".encode()
    )
    sizes = {kind: many // part for kind, many in FILLED.items()}
    for statement in FILL.format(**sizes).split(";\n"):
        if statement.strip():
            connection.execute(statement.encode())


class Load:
    """Publishers, consumers and workers, each in a thread with a session of its own.

    A call that fails with one of ``LATER`` is repeated in the same session; what else fails is
    raised by :meth:`stop`. With ``reconnect`` a lost connection is opened again.
    """

    def __init__(self, dsn: str, *, reconnect: bool = False) -> None:
        self._dsn = dsn
        self._reconnect = reconnect
        self._stop = threading.Event()
        self._futures: list[Future[None]] = []
        self.done: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.longest: Counter[str] = Counter()
        """In milliseconds, for each kind of client."""
        self.acknowledged: list[int] = []
        """What was published and whose commit was answered."""
        self._made: dict[int, list[int]] = {}
        self._numbers = iter(range(1, 1 << 60))
        self._lock = threading.Lock()

    def start(self) -> None:
        tasks = [publish, publish, publish_and_enqueue, consume, poll, work, work, tidy]
        self._futures = [aside(partial(self._client, task)) for task in tasks]

    def wait_for_more(self, many: int = 40) -> None:
        """Return when each kind of client has done that much more."""
        before = Counter(self.done)
        kinds = ("publish", "publish_and_enqueue", "consume", "poll", "work")
        wait_until(
            lambda: (
                any(f.done() for f in self._futures)
                or all(self.done[kind] >= before[kind] + many for kind in kinds)
            ),
            2 * PATIENCE,
            "for the clients to go on",
        )
        for future in self._futures:
            if future.done():
                future.result()

    def stop(self) -> None:
        self._stop.set()
        for future in self._futures:
            future.result(PATIENCE)

    def number(self) -> int:
        """A content that nothing else has."""
        with self._lock:
            made = next(self._numbers)
        self._made[threading.get_ident()] = [made]
        return made

    def _client(self, task: Callable[[Load, Connection], None]) -> None:
        kind = task.__name__
        connection = None
        try:
            while not self._stop.is_set():
                begun = time.monotonic()
                while True:
                    try:
                        connection = connection or psycopg.connect(
                            self._dsn, prepare_threshold=0, connect_timeout=10
                        )
                        task(self, connection)
                        connection.commit()
                        self.acknowledged.extend(self._made.pop(threading.get_ident(), []))
                        break
                    except psycopg.Error as error:
                        lost = connection is None or connection.closed
                        code = error.sqlstate or "lost"
                        self.errors[f"{kind} {code}"] += 1
                        may = (self._reconnect and (lost or code in ("25006", "57P03"))) or (
                            code in LATER
                        )
                        if not may:
                            raise
                        if connection is not None:
                            with contextlib.suppress(psycopg.Error):
                                connection.rollback()
                            if lost or code == "25006":
                                connection.close()
                                connection = None
                        if self._stop.is_set():
                            return
                        self._stop.wait(0.02)
                self.done[kind] += 1
                took = int(1000 * (time.monotonic() - begun))
                self.longest[kind] = max(self.longest[kind], took)
        finally:
            if connection is not None:
                connection.close()


# ---------------------------------------------------------------------------- the clients
# Each is one transaction; prepared statements, since prepare_threshold is 0.


def publish(load: Load, connection: Connection) -> None:
    n = load.number()
    connection.execute(
        "select * from pgq.publish(topic => %s::text, payload => to_jsonb(%s::bigint), key => %s)",
        ["orders", n, f"k{n % 50}"],
    )
    connection.execute("insert into app.published values (%s)", [n])


def publish_and_enqueue(load: Load, connection: Connection) -> None:
    """In the order that a deadlock is likely in: the queue first."""
    n = load.number()
    connection.execute(
        "select job_id from pgq.enqueue(queue => 'work', payload => to_jsonb(%s::bigint))", [n]
    )
    connection.execute("insert into app.enqueued values (%s)", [n])
    connection.execute(
        "select count(*) from pgq.publish_batch(topic => 'events',"
        " payloads => array[to_jsonb(%s::bigint)])",
        [n],
    )
    connection.execute("insert into app.published values (%s)", [n])


def consume(load: Load, connection: Connection) -> None:
    connection.execute(
        "insert into app.consumed select partition, log_offset, payload::bigint"
        " from pgq.consume(topic => 'orders', consumer_group => 'readers', max_messages => 200)"
    )


def poll(load: Load, connection: Connection) -> None:
    rows = connection.execute(
        "select partition, log_offset, payload::bigint, lease_token"
        " from pgq.poll(topic => 'events', consumer_group => 'pollers', max_messages => 20)"
    ).fetchall()
    for partition, offset, content, _ in rows:
        connection.execute(
            "insert into app.polled values (%s, %s, %s)", [partition, offset, content]
        )
    if rows:
        connection.execute(
            "select pgq.commit_offset('events', 'pollers', %s, %s, %s::uuid)",
            [rows[-1][0], rows[-1][1], rows[-1][3]],
        )


def work(load: Load, connection: Connection) -> None:
    jobs = connection.execute("select * from pgq.claim_job(queue => 'work', max_jobs => 5)")
    columns = [column.name for column in jobs.description or ()]
    for row in jobs.fetchall():
        job = dict(zip(columns, row, strict=True))
        if job["job_id"] % 7 == 0 and job["attempt"] == 1:
            connection.execute(
                "select pgq.nack(%s, %s::uuid, delay => '0')", [job["job_id"], job["lease_token"]]
            )
            continue
        [acked] = connection.execute(
            "select pgq.ack(%s, %s::uuid)", [job["job_id"], job["lease_token"]]
        ).fetchone() or [None]
        assert acked
        connection.execute("insert into app.worked values (%s)", [job["payload"]])


def tidy(load: Load, connection: Connection) -> None:
    """What needs no right on pgq: the application's own, in a long row."""
    connection.execute("select count(*) from app.worked")
    load._stop.wait(0.05)


# ---------------------------------------------------------------------------- in the end


def finish(connection: Connection) -> None:
    """Consume and work off what is left, by the functions of the new version."""
    while connection.execute(
        "insert into app.consumed select partition, log_offset, payload::bigint from"
        " pgq.consume(topic => 'orders', consumer_group => 'readers', max_messages => 1000)"
    ).rowcount:
        pass
    while connection.execute(
        "insert into app.polled select partition, log_offset, payload::bigint from"
        " pgq.consume(topic => 'events', consumer_group => 'pollers', max_messages => 1000)"
    ).rowcount:
        pass
    while connection.execute(
        "with c as materialized (select * from pgq.claim_job(queue => 'work', max_jobs => 1000)),"
        " a as (select c.payload from c where pgq.ack(c.job_id, c.lease_token))"
        " insert into app.worked select payload::bigint from a"
    ).rowcount:
        pass


def check(connection: Connection, *, part: int = 10) -> None:
    """Each content once, offsets without a gap, each key in the order in which it was published."""
    for topic, table in (("orders", "consumed"), ("events", "polled")):
        stored = rows(
            connection,
            f"select partition, log_offset, payload::bigint from pgq.messages"
            f" where topic = '{topic}' order by 1, 2",
        )
        assert stored == rows(connection, f"select * from app.{table} order by 1, 2")
        at: dict[int, int] = {}
        for partition, offset, _ in stored:
            assert offset == at.get(partition, 0) + 1
            at[partition] = offset
    published = rows(connection, "select content from app.published order by 1")
    found = rows(
        connection,
        "select payload::bigint from pgq.messages where topic in ('orders', 'events')"
        " and payload::bigint > 0 order by 1",
    )
    assert found == published
    old = "select count(*) from pgq.messages where topic = 'orders' and payload::bigint < 0"
    assert rows(connection, old) == [(FILLED["messages"] // part,)]
    worked = rows(connection, "select content from app.worked order by 1")
    assert len(worked) == len(set(worked))
    assert [each for each in worked if each[0] > 0] == rows(
        connection, "select content from app.enqueued order by 1"
    )
    assert len([each for each in worked if each[0] < 0]) == FILLED["jobs"] // part
