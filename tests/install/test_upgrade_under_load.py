"""A loaded database is upgraded while publishers, consumers and workers are at work."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from catalog import describe
from pgq.embedded import Server
from support.install import ROUTES
from support.next_version import AFTER, BEFORE
from support.waiting import PATIENCE, aside, results, wait_until, wait_until_blocked

pytestmark = pytest.mark.slow

Connection = psycopg.Connection[Any]

# What a call may meet that waited in the old function while everything changed, as the guide says:
# a column or a function is gone, a type is another one. It has changed nothing then.
RETRIED = (
    psycopg.ProgrammingError,
    errors.FeatureNotSupported,  # cached plan must not change result type
    errors.InternalError_,
)

LOADED = (
    "select pgq.create_topic(topic => 'readings', partitions => 4)",
    "select pgq.create_topic(topic => 'old', partitions => 2, retention => '1 day')",
    "select pgq.create_group(topic => 'readings', consumer_group => 'meters')",
    "select pgq.create_group(topic => 'old', consumer_group => 'held')",
    "select pgq.create_queue(queue => 'work', lease => '1 hour')",
    "select pgq.create_queue(queue => 'states', max_attempts => 1, lease => '1 hour')",
    "select pgq.publish_batch(topic => 'old', payloads => array(select to_jsonb(n)"
    " from generate_series(1, 10000) as n)) from generate_series(1, 20)",
    "select pgq.publish(topic => 'old', body => '\\x00ff')",
    "select pgq.enqueue_batch(queue => 'states', payloads => array(select to_jsonb(n)"
    " from generate_series(1, 10000) as n)) from generate_series(1, 5)",
    "select pgq.enqueue(queue => 'states', payload => '0', delay => '1 day')",
    "select pgq.nack(job_id, lease_token, error => 'broken')"
    " from pgq.claim_job(queue => 'states', max_jobs => 100)",
    "select pgq.archive_job(job_id, lease_token)"
    " from pgq.claim_job(queue => 'states', max_jobs => 100)",
)
STATE = """
select (select jsonb_agg(jsonb_build_array(queue, ready, leased, delayed, dead) order by queue)
        from pgq.queue_stats where queue = 'states'),
    (select jsonb_agg(to_jsonb(g) - 'seconds' order by g.partition)
        from (select topic, partition, committed_offset, last_offset
            from pgq.group_lag where topic = 'old') as g),
    (select count(*) from pgq.archived_jobs where queue = 'states'),
    (select md5(string_agg(payload::text, ',' order by partition_id, log_offset))
        from pgq.messages where topic = 'old')
"""
GRANTS = """
grant usage on schema pgq to {role};
grant execute on function pgq.publish to {role};
grant execute on function pgq.enqueue, pgq.poll to {role} with grant option;
grant select on pgq.topic_stats, pgq.queue_stats to {role};
grant insert on pgq.publish_rows to {role};
grant select (topic) on pgq.topic to {role}
"""
GRANTED = """
select p.proname, x.privilege_type, x.is_grantable
from pg_proc as p
cross join aclexplode(p.proacl) as x
where p.pronamespace = 'pgq'::regnamespace
    and x.grantee = '{role}'::regrole
union all
select c.relname, x.privilege_type, x.is_grantable
from pg_class as c
cross join aclexplode(c.relacl) as x
where c.relnamespace = 'pgq'::regnamespace
    and x.grantee = '{role}'::regrole
union all
select c.relname || '.' || a.attname, x.privilege_type, x.is_grantable
from pg_class as c
inner join pg_attribute as a on a.attrelid = c.oid
cross join aclexplode(a.attacl) as x
where c.relnamespace = 'pgq'::regnamespace
    and x.grantee = '{role}'::regrole
order by 1, 2
"""


def _one(connection: Connection, query: str) -> tuple[Any, ...]:
    [row] = connection.execute(query.encode()).fetchall()
    return tuple(row)


@pytest.fixture
def before(tree: Path) -> Path:
    """What installs the older version."""
    return tree / "migrations" / f"pgq--{BEFORE}.sql"


@pytest.fixture
def old(running: Server, create: Callable[[], str], before: Path) -> Iterator[str]:
    """The address of a database of that, with something in every state."""
    database = create()
    ROUTES["psql"](running, database, before)
    with _loaded(running, database):
        yield running.dsn_for(database)


@contextlib.contextmanager
def _loaded(server: Server, database: str) -> Iterator[str]:
    role = f"app_of_{database}"
    with psycopg.connect(server.dsn_for(database), autocommit=True) as connection:
        for statement in LOADED:
            connection.execute(statement.encode())
        connection.execute(f"create role {role} login".encode())
        connection.execute(GRANTS.format(role=role).encode())
    try:
        yield role
    finally:
        with psycopg.connect(server.dsn_for(database), autocommit=True) as connection:
            connection.execute(f"drop owned by {role}".encode())
            connection.execute(f"drop role {role}".encode())


class Load:
    """What goes on meanwhile, by calls that both versions know, and what was answered."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.stop = threading.Event()
        self.numbers = itertools.count(1)
        self.published: list[tuple[int, int, int]] = []
        self.consumed: list[tuple[int, int, int]] = []
        self.enqueued: list[int] = []
        self.acked: list[int] = []
        self.failed: Counter[str] = Counter()
        self.longest: dict[str, float] = {}
        self.threads: list[Future[None]] = []

    def begin(self) -> None:
        """Two publishers, a consumer, two that enqueue, two workers."""
        for work in (
            self._publish, self._publish, self._consume, self._enqueue, self._enqueue,
            self._work, self._work,
        ):  # fmt: skip
            self.threads.append(aside(lambda work=work: self._run(work)))  # type: ignore[misc]

    def _run(self, work: Callable[[Connection], None]) -> None:
        # every statement is prepared from the second time on, as that of a long running program
        with psycopg.connect(self.dsn, prepare_threshold=1) as connection:
            while not self.stop.is_set():
                begun = time.monotonic()
                try:
                    work(connection)
                except RETRIED as error:
                    self._again(connection, error)
                took = time.monotonic() - begun
                name = work.__name__
                self.longest[name] = max(self.longest.get(name, 0), took)

    def _again(self, connection: Connection, error: psycopg.Error) -> None:
        self.failed[f"{error.sqlstate}: {error.diag.message_primary}"] += 1
        connection.rollback()
        connection.execute("deallocate all")
        connection.commit()

    def _publish(self, connection: Connection) -> None:
        number = next(self.numbers)
        query = "select partition, log_offset from pgq.publish(topic => 'readings', payload => %s)"
        [(partition, log_offset)] = connection.execute(query, [str(number)]).fetchall()
        connection.commit()
        self.published.append((partition, log_offset, number))

    def _consume(self, connection: Connection) -> None:
        rows = connection.execute(
            "select partition, log_offset, payload"
            " from pgq.consume(topic => 'readings', consumer_group => 'meters')"
        ).fetchall()
        connection.commit()
        self.consumed.extend(rows)

    def _enqueue(self, connection: Connection) -> None:
        number = next(self.numbers)
        connection.execute(
            "select * from pgq.enqueue(queue => 'work', payload => %s)", [str(number)]
        )
        connection.commit()
        self.enqueued.append(number)

    def _work(self, connection: Connection) -> None:
        rows = connection.execute(
            "select job_id, lease_token, payload from pgq.claim_job(queue => 'work')"
        ).fetchall()
        connection.commit()
        for job_id, token, payload in rows:
            while True:
                try:
                    [(done,)] = connection.execute(
                        "select pgq.ack(job_id => %s, lease_token => %s)", [job_id, token]
                    ).fetchall()
                    connection.commit()
                    break
                except RETRIED as error:
                    self._again(connection, error)
            assert done
            self.acked.append(payload)

    def goes_on(self) -> None:
        """Wait until everybody has done something since."""
        lists = (self.published, self.consumed, self.enqueued, self.acked)
        before = [len(each) for each in lists]

        def moved() -> bool:
            for thread in self.threads:
                if thread.done():
                    thread.result()
            return all(len(each) > b + 20 for each, b in zip(lists, before, strict=True))

        wait_until(moved, PATIENCE, "for the load to go on")

    def end(self) -> None:
        """Stop, and finish what is left."""
        self.stop.set()
        results(*self.threads)
        with psycopg.connect(self.dsn) as connection:
            while True:
                before = len(self.consumed), len(self.acked)
                self._consume(connection)
                self._work(connection)
                if (len(self.consumed), len(self.acked)) == before:
                    return

    def check(self) -> None:
        """All that was answered is there, once and in order."""
        assert sorted(self.consumed) == sorted(self.published)
        for partition in range(4):
            read = [row[1] for row in self.consumed if row[0] == partition]
            assert read == list(range(1, len(read) + 1))
        assert sorted(self.acked) == sorted(self.enqueued)


@pytest.mark.parametrize("route", ROUTES)
def test_the_work_goes_on(
    running: Server,
    create: Callable[[], str],
    before: Path,
    script: Path,
    tree: Path,
    route: str,
    record_property: Callable[[str, object], None],
) -> None:
    """Nothing is lost, done twice or out of order; grants stay; the catalog is a fresh one's."""
    database, fresh = create(), create()
    ROUTES[route](running, database, before)
    ROUTES[route](running, fresh, tree / "migrations" / f"pgq--{AFTER}.sql")
    with _loaded(running, database) as role:
        dsn = running.dsn_for(database)
        with psycopg.connect(dsn, autocommit=True) as connection:
            [polled, *_] = connection.execute(
                "select partition, lease_token, log_offset from"
                " pgq.poll(topic => 'old', consumer_group => 'held', lease => '1 hour')"
            ).fetchall()
            held = _one(
                connection, "select job_id, lease_token from pgq.claim_job(queue => 'states')"
            )
            write = _one(connection, "select write_id from pgq.begin_write(topic => 'old')")[0]
            connection.execute(
                "select pgq.write_chunk(%s, task => 0, task_attempt => 'a', chunk => 0,"
                " lengths => array[1], last_chunk => true, packed_payloads => '7')",
                [write],
            )
            state = _one(connection, STATE)
            granted = connection.execute(GRANTED.format(role=role).encode()).fetchall()
            load = Load(dsn)
            load.begin()
            load.goes_on()
            load.longest.clear()
            begun = time.monotonic()
            ROUTES[route](running, database, script)
            took = time.monotonic() - begun
            load.goes_on()
            load.end()
            load.check()
            told = {name: round(seconds, 2) for name, seconds in load.longest.items()}
            # told by `pytest -rP` or `-s`
            print(f"{route}: upgrade {took:.2f} s, held up {told}, met {dict(load.failed)}")
            record_property("held_up", told)
            assert max(told.values()) < 10

            assert _one(connection, "select pgq.version()") == (AFTER,)
            assert _one(connection, STATE) == state
            assert connection.execute(GRANTED.format(role=role).encode()).fetchall() == granted
            assert connection.execute(
                "select pgq.commit_offset(topic => 'old', consumer_group => 'held',"
                " partition => %s, lease_token => %s, committed_offset => %s)",
                polled,
            ).fetchone() != (False,)
            assert connection.execute("select pgq.ack(%s::bigint, %s::uuid)", held).fetchone() == (
                True,
            )
            assert connection.execute(
                "select messages from pgq.commit_write(%s)", [write]
            ).fetchone() == (1,)
            connection.execute("select * from pgq.cleanup()")
    with (
        psycopg.connect(running.dsn_for(database)) as upgraded,
        psycopg.connect(running.dsn_for(fresh)) as new,
    ):
        assert describe(upgraded) == describe(new)


def test_a_long_transaction_beside_it(old: str, script: Path) -> None:
    """It waits for that, and holds up no other; cancelled, it leaves the old version whole."""
    dsn = old
    with (
        psycopg.connect(dsn) as long,
        psycopg.connect(dsn) as upgrading,
        psycopg.connect(dsn, autocommit=True) as observer,
    ):
        before = describe(observer)
        long.execute("select pgq.publish(topic => 'readings', payload => '1', partition => 0)")
        load = Load(dsn)
        load.begin()
        statements = script.read_text().partition("\n")[2].encode()
        future = aside(lambda: upgrading.execute(statements))
        wait_until_blocked(observer, upgrading.info.backend_pid)
        load.goes_on()
        load.goes_on()
        assert not future.done()
        upgrading.cancel_safe()
        with pytest.raises(errors.QueryCanceled):
            results(future)
        upgrading.rollback()
        load.goes_on()
        assert describe(observer) == before

        # with a limit it gives up by itself, and says why
        upgrading.execute("set lock_timeout = '1s'")
        upgrading.commit()
        with pytest.raises(errors.LockNotAvailable, match="no moment was found"):
            upgrading.execute(statements)
        upgrading.rollback()
        assert describe(observer) == before

        # killed in the middle
        long.rollback()
        with contextlib.closing(psycopg.connect(dsn)) as killed:
            killed.execute(statements)
            observer.execute("select pg_terminate_backend(%s, 5000)", [killed.info.backend_pid])
        load.goes_on()
        load.end()
        assert describe(observer) == before
        assert _one(observer, "select pgq.version()") == (BEFORE,)


def test_two_upgrades_at_a_time(old: str, script: Path) -> None:
    """The second one waits, finds the new version and changes nothing."""
    dsn = old
    statements = script.read_text().partition("\n")[2].encode()
    with (
        psycopg.connect(dsn) as first,
        psycopg.connect(dsn) as second,
        psycopg.connect(dsn, autocommit=True) as observer,
    ):
        first.execute(statements)
        waiting = aside(lambda: second.execute(statements))
        wait_until_blocked(observer, second.info.backend_pid)
        first.commit()
        with pytest.raises(errors.ObjectNotInPrerequisiteState, match=r"here is 7\.1\.0"):
            results(waiting)
        assert _one(observer, "select pgq.version()") == (AFTER,)
