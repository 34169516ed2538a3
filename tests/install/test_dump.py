"""A dump restored into a new cluster continues where the old one stopped, however installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from catalog import describe
from pgq.embedded import Server
from support.house import ROOT, load_pgq
from support.install import ROUTES

Connection = psycopg.Connection[Any]


def _rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


def _consume(connection: Connection, many: int) -> list[tuple[Any, ...]]:
    return _rows(
        connection,
        "select log_offset, payload from pgq.consume(topic => 'readings',"
        f" consumer_group => 'meters', max_messages => {many})",
    )


def _live_a_little(connection: Connection) -> None:
    """Leave something in every state that there is."""
    for statement in (
        "select pgq.create_topic(topic => 'readings', partitions => 1)",
        "select pgq.create_topic(topic => 'forever', partitions => 2, no_limit => '{retention}')",
        "select pgq.create_group(topic => 'readings', consumer_group => 'meters')",
        "select pgq.create_group(topic => 'readings', consumer_group => 'leased')",
        "select pgq.create_queue(queue => 'work', max_attempts => 1)",
        "select pgq.create_queue(queue => 'short', retention => '1 day')",
        "select pgq.publish(topic => 'forever', key => 'k', body => '\\x00ff')",
        # more storage classes than the install script made leaves for
        "select pgq.create_topic(topic => 'kept-' || n, retention => make_interval(days => n))"
        " from generate_series(20, 30) as n",
        "select pgq.publish(topic => 'kept-' || n, payload => to_jsonb(n))"
        " from generate_series(20, 30) as n",
        "select * from pgq.publish_batch(topic => 'readings',"
        " payloads => array(select to_jsonb(n) from generate_series(1, 10) as n))",
        "select * from pgq.poll(topic => 'readings', consumer_group => 'leased',"
        " max_messages => 4, lease => '1 hour')",
        "select * from pgq.enqueue_batch(queue => 'work',"
        " payloads => array(select to_jsonb(n) from generate_series(1, 5) as n))",
        "select pgq.enqueue(queue => 'short', payload => '1', delay => '1 hour')",
        "select pgq.ack(job_id, lease_token) from pgq.claim_job(queue => 'work')",
        "select pgq.nack(job_id, lease_token, error => 'broken')"
        " from pgq.claim_job(queue => 'work')",
        "select pgq.begin_effect(job_id, lease_token, e) from pgq.claim_job(queue => 'work',"
        " lease => '1 hour'), unnest(array['mail', 'payment']) as e",
        "select pgq.finish_effect(job_id, lease_token, effect, result => '{\"id\": 7}')"
        " from pgq.effects where effect = 'mail'",
        "select pgq.create_queue(queue => 'unique', unique_until => 'removed')",
        "select pgq.create_queue(queue => 'few', max_leased => 2, rate_limit => 9,"
        " max_leased_per_key => 1)",
        "select pgq.enqueue(queue => 'few', payload => '1') from generate_series(1, 3)",
        "select pgq.claim_job(queue => 'few', lease => '1 hour')",
        "select pgq.enqueue(queue => 'unique', payload => '1', unique_key => 'k')",
        "select pgq.commit_write(write_id) from"
        " pgq.begin_write(queue => 'short', producer => 'job', seq => 1)",
        "select pgq.write_chunk(write_id, task => 0, task_attempt => 'a', chunk => 0,"
        " lengths => array[1], keys => array['k'], last_chunk => true, packed_bodies => '1') from"
        " pgq.begin_write(topic => 'forever', producer => 'job', seq => 1)",
        "select pgq.write_chunk(write_id, task => 0, task_attempt => 'a', chunk => 0,"
        " lengths => array[1], packed_bodies => '2') from"
        " pgq.begin_write(topic => 'forever', producer => 'job', seq => 2, atomic => false)",
        "select pgq.create_schedule(schedule => 'hourly', topic => 'forever', key => 'k',"
        " payload => '1', every => '1 hour', missed => 'all',"
        " starts_at => now() - '2.5 hours'::interval)",
        "select pgq.run_schedules(max_ticks => 1)",
        "select pgq.grant_access(role => 'public', topic => 'readings', access => 'consume')",
        "select pgq.grant_access(role => 'public', queue => '*', access => 'admin')",
        "select pgq.create_topic(topic => 'deferred', partitions => 1, deferred => true)",
        "select pgq.create_group(topic => 'deferred', consumer_group => 'meters')",
        "select pgq.publish(topic => 'deferred', payload => '1')",
        "select * from pgq.cleanup()",
        # without an offset, and known by the id of a transaction that means nothing elsewhere
        "select pgq.publish(topic => 'deferred', payload => '2')",
    ):
        connection.execute(statement.encode())
    assert [row[1] for row in _consume(connection, 4)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "form",
    [
        "plain",
        pytest.param("custom", marks=pytest.mark.slow),
        pytest.param("directory", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("route", ROUTES)
def test_restored_into_a_new_cluster(
    server: Server,
    start_server: Callable[..., Server],
    empty_database: str,
    tmp_path: Path,
    route: str,
    form: str,
) -> None:
    ROUTES[route](server, empty_database)
    with psycopg.connect(server.dsn_for(empty_database), autocommit=True) as old:
        _live_a_little(old)
        before = _state(old)
        catalog = describe(old)

    dump = tmp_path / "dump"
    side_by_side = ["--jobs=2"] if form == "directory" else []
    server.run("pg_dump", "-d", empty_database, f"--format={form}", *side_by_side, "-f", dump)
    fresh = start_server(bin_dir=server.bin_dir, settings={"fsync": "off"})
    if form == "plain":
        fresh.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump)
    else:
        # as the guide says: with foreign keys pg_restore's workers would need an order of tables
        role = {"PGOPTIONS": "-c session_replication_role=replica"} if route == "extension" else {}
        fresh.run("pg_restore", "--exit-on-error", "--jobs=4", "-d", "postgres", dump, env=role)

    with psycopg.connect(fresh.dsn, autocommit=True) as new:
        assert describe(new) == catalog
        assert _state(new) == before
        _goes_on(new)


def test_data_into_a_fresh_installation(
    server: Server, create_database: Callable[[], str], tmp_path: Path
) -> None:
    """What the guide says to remove before is all that an installation makes itself."""
    database, other = create_database(), create_database()
    for name in (database, other):
        load_pgq(conninfo=server.dsn_for(name))
    with psycopg.connect(server.dsn_for(database), autocommit=True) as old:
        _live_a_little(old)
        for days in (40, 41):
            _rows(old, f"select pgq.create_topic('kept-{days}', retention => '{days} days')")
            _rows(old, f"select pgq.publish('kept-{days}', '1')")
        before = _state(old)
        [(last,)] = _rows(old, "select max(leaf) from pgq.leaf")
    assert last > 15
    dump = tmp_path / "data.sql"
    server.run("pg_dump", "-d", database, "--data-only", "--schema=pgq", "-f", dump)

    with psycopg.connect(server.dsn_for(other), autocommit=True) as new:
        tables = _rows(
            new,
            "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
            " and relkind = 'r' order by relname",
        )
        made = {name for (name,) in tables if _rows(new, f"select from pgq.{name} limit 1")}
        truncated = "truncate pgq.leaf, pgq.access_change, pgq.view_key"
        assert made == {name.strip(", ") for name in truncated.split("pgq.")[1:]}
        assert f"-c '{truncated}'" in (ROOT / "python/docs/replicas.md").read_text()
        leaves = f"select pgq._create_leaf(n) from generate_series(16, {last}) as n"
        restore = ("-1", "-v", "ON_ERROR_STOP=1", "-c", truncated, "-c", leaves, "-f", dump)
        server.run("psql", "-X", "-q", "-d", other, *restore)
        assert _state(new) == before
        _goes_on(new)


def _state(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    return {
        "lag": _rows(connection, "select * from pgq.group_lag order by 1, 2, 3"),
        "topics": _rows(connection, "select * from pgq.list_topics() order by 1"),
        "queues": _rows(connection, "select * from pgq.list_queues() order by 1"),
        "dead": _rows(connection, "select * from pgq.dead_letters order by 1, 2"),
        "effects": _rows(connection, "select * from pgq.effects order by 1, 2, 3"),
        "archived": _rows(connection, "select * from pgq.archived_jobs order by 1, 2"),
        "schedules": _rows(connection, "select * from pgq.list_schedules()"),
        "access": _rows(connection, "select * from pgq.list_access() order by 1, 2, 3, 4"),
        "jobs": _rows(
            connection,
            "select queue, ready, leased, delayed, dead from pgq.queue_stats order by 1",
        ),
    }


def _goes_on(connection: Connection) -> None:
    assert _rows(
        connection,
        "select e.duplicate, g.unique_key, g.state from"
        " pgq.enqueue(queue => 'unique', payload => '1', unique_key => 'k') as e,"
        " pgq.get_job(e.job_id) as g",
    ) == [(True, "k", "ready")]
    for last in (2, 3):
        assert [
            row[1] for row in _rows(connection, "select * from pgq.assign_offsets('deferred')")
        ] == [last]
        _rows(connection, "select pgq.publish(topic => 'deferred', payload => '3')")
    assert _consume(connection, 3) == [(5, 5), (6, 6), (7, 7)]
    published = _rows(
        connection, "select log_offset from pgq.publish(topic => 'readings', payload => '11')"
    )
    assert published == [(11,)]
    assert _consume(connection, 100) == [(8, 8), (9, 9), (10, 10), (11, 11)]
    assert _rows(
        connection,
        "select log_offset, payload from pgq.fetch_range(topic => 'readings', partition => 0,"
        " first_offset => 1, last_offset => 2)",
    ) == [(1, 1), (2, 2)]
    # writes go on, with what was staged for them, and are known
    states = _rows(
        connection,
        "select (pgq.commit_write(write_id)).messages from pgq.bulk_write order by bulk_write_id",
    )
    assert states == [(0,), (1,), (1,)]
    assert _rows(
        connection,
        "select duplicate from pgq.begin_write(queue => 'short', producer => 'job', seq => 1)",
    ) == [(True,)]
    bodies = "select body from pgq.messages where topic = 'forever' and key is distinct from 'k'"
    assert _rows(connection, bodies) == [(b"2",)]
    # a schedule goes on where it was
    ticks = "select tick_at - starts_at from pgq.run_schedules() join pgq.schedule using (schedule)"
    assert [str(tick) for (tick,) in _rows(connection, ticks)] == ["1:00:00", "2:00:00"]
    # what is leased stays leased
    assert (
        _rows(
            connection,
            "select log_offset from pgq.poll(topic => 'readings', consumer_group => 'leased')",
        )
        == []
    )
    assert _rows(
        connection,
        "select restricted, consumers from pgq.topic join pgq.partition using (topic)"
        " where topic = 'readings'",
    ) == [(True, ["public"])]
    highest = _rows(connection, "select max(job_id) from pgq.claim_job(queue => 'work')")
    new_job = _rows(connection, "select job_id from pgq.enqueue(queue => 'work', payload => '6')")
    assert new_job > highest
    assert _rows(
        connection, "select taken from pgq.redrive(queue => 'work', all_jobs => true)"
    ) == [(1,)]
    left = _rows(connection, "select payload from pgq.claim_job(queue => 'work', max_jobs => 10)")
    assert sorted(row[0] for row in left) == [2, 5, 6]
    connection.execute("select * from pgq.cleanup()")
