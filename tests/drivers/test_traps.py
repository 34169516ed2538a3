"""What goes wrong without an error in one driver or another, as the guide says, or no longer does.

Each program does it the wrong way, so that the warning beside the right one in
python/docs/drivers stays true.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.drivers import run_program
from support.session import Session

Run = Callable[[str, str], str]

slow = pytest.mark.slow

GO = """
package main
import ("database/sql"; "log"; "os"; "time"; _ "github.com/lib/pq")
func main() {
    db, err := sql.Open("postgres", os.Getenv("DATABASE_URL") + "?sslmode=disable")
    if err == nil {
        _, err = db.Exec("select pgq.enqueue(queue => 'mail', payload => '1', delay => $1)",
            7200 * time.Nanosecond)
    }
    if err != nil { log.Fatal(err) }
}
"""

NODE_PG = """
import pg from "pg";
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2 });
const publish = "select * from pgq.publish(topic => 'orders', payload => $1)";
const enqueue = "select * from pgq.enqueue(queue => 'mail', payload => '1', delay => $1)";
"""

POSTGRES_JS = """
import postgres from "postgres";
const sql = postgres(process.env.DATABASE_URL);
"""

PDO = "<?php $pdo = new PDO('pgsql:', options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);\n"

PERL = """
use strict; use warnings; use utf8; use DBI; use DBD::Pg; use JSON::PP;
my $db = DBI->connect('dbi:Pg:', '', '', { RaiseError => 1 });
"""


@pytest.fixture
def run(dsn: str, tmp_path: Path, connection: Session) -> Run:
    """Run a program, given by the suffix of its language, beside a topic and a queue."""
    connection.execute("select pgq.create_topic(topic => 'orders', partitions => 1)")
    connection.execute("select pgq.create_queue(queue => 'mail')")

    def run(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text)
        return run_program(path, dsn)

    return run


def _published(connection: Session, column: str = "payload") -> list[Any]:
    rows = connection.execute(f"select {column} from pgq.messages order by log_offset".encode())
    return [value for (value,) in rows]


def _delays(connection: Session) -> list[timedelta]:
    """Between entering and being due, of each job in the order of their ids."""
    rows = connection.execute(
        "select g.due_at - g.enqueued_at from pgq.job as j"
        " cross join lateral pgq.get_job(job_id => j.job_id) as g order by j.job_id"
    )
    return [delay for (delay,) in rows]


# ---------------------------------------------------------------------------- no longer


def test_columns_of_a_call_in_the_select_list_publish_once(connection: Session) -> None:
    connection.execute("select pgq.create_topic(topic => 'orders')")
    connection.execute("select pgq.create_queue(queue => 'mail')")
    connection.execute("select (pgq.publish(topic => 'orders', payload => '1')).*")
    connection.execute("select (pgq.publish_batch('orders', array['2', '3']::jsonb[])).*")
    connection.execute("select (pgq.enqueue(queue => 'mail', payload => '4')).*")
    connection.execute("select (pgq.enqueue_batch('mail', array['5', '6']::jsonb[])).*")
    assert sorted(_published(connection)) == [1, 2, 3]
    jobs = connection.execute("select payload from pgq.claim_job('mail', 10)").fetchall()
    assert sorted(jobs) == [(4,), (5,), (6,)]


def test_null_is_the_default_of_each_setting(connection: Session) -> None:
    topic = connection.execute(
        "select retention, partitions from pgq.create_topic(topic => %s, retention => %s)",
        ["orders", None],
    ).fetchone()
    assert topic == (timedelta(days=7), 8)
    queue = connection.execute(
        "select retention is not null, max_attempts"
        " from pgq.create_queue(queue => %s, retention => %s, max_attempts => %s)",
        ["mail", None, None],
    ).fetchone()
    assert queue == (True, 5)
    unlimited = connection.execute(
        "select retention from pgq.create_topic(topic => %s, no_limit => %s)",
        ["audit", ["retention"]],
    ).fetchone()
    assert unlimited == (None,)


def test_null_is_the_default_of_what_was_refused(connection: Session) -> None:
    """A wrapper may pass all arguments."""
    connection.execute("select pgq.create_topic(topic => 'orders', partitions => null)")
    connection.execute("select pgq.create_queue(queue => 'mail', notify => null, archive => null)")
    connection.execute("select pgq.create_group('orders', 'billing', start => null)")
    connection.execute("select pgq.publish(topic => 'orders', payload => '1')")
    connection.execute("select pgq.enqueue(queue => 'mail', payload => '1', priority => null)")
    for query in (
        "select payload from pgq.poll('orders', 'billing', max_messages => null, lease => null)",
        "select payload from pgq.claim_job('mail', max_jobs => null, lease => null)",
    ):
        assert connection.execute(query.encode()).fetchall() == [(1,)]


# ---------------------------------------------------------------------------- Python


def test_sqlalchemy_connect_rolls_back(run: Run, connection: Session) -> None:
    pytest.importorskip("sqlalchemy", reason="no SQLAlchemy: pip install sqlalchemy")
    shown = run(
        "sqlalchemy_connect.py",
        """
import os
from sqlalchemy import create_engine, make_url, text
url = make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")
with create_engine(url).connect() as connection:
    query = "select log_offset from pgq.publish(topic => 'orders', payload => '1')"
    print(connection.execute(text(query)).scalar_one())
""",
    )
    assert shown == "1\n"
    assert _published(connection) == []


def test_asyncpg_with_a_codec_encodes_what_is_encoded(run: Run, connection: Session) -> None:
    pytest.importorskip("asyncpg", reason="no asyncpg: pip install asyncpg")
    run(
        "asyncpg_twice.py",
        """
import asyncio, json, os, asyncpg
async def main():
    connection = await asyncpg.connect(os.environ["DATABASE_URL"])
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )
    query = "select pgq.publish(topic => 'orders', payload => $1)"
    await connection.execute(query, json.dumps({"a": 1}))
    await connection.execute(query.replace("$1", "$1::text::jsonb"), json.dumps({"a": 1}))
    await connection.close()
asyncio.run(main())
""",
    )
    assert _published(connection) == ['{"a": 1}', {"a": 1}]


# ---------------------------------------------------------------------------- Node.js


@slow
def test_postgres_js_encodes_what_is_encoded(run: Run, connection: Session) -> None:
    run(
        "trap_postgres.mjs",
        POSTGRES_JS
        + """
const text = JSON.stringify({ a: 1 });
await sql`select pgq.publish(topic => 'orders', payload => ${text})`;
await sql`select pgq.publish(topic => 'orders', payload => ${text}::text::jsonb)`;
await sql.end();
""",
    )
    assert _published(connection) == ['{"a": 1}'.replace(" ", ""), {"a": 1}]


@slow
def test_node_pg(run: Run, connection: Session) -> None:
    """Intervals as objects, lists as payloads, and a transaction on a pool."""
    shown = run(
        "trap_pg.mjs",
        NODE_PG
        + """
await pool.query(enqueue, [{ hours: 2 }]).catch((error) => console.log(error.code));
await pool.query(enqueue, ["2 hours"]);
await pool.query(publish, [[]]);
for (const payload of [[1, 2], "hi"]) {
  await pool.query(publish, [payload]).catch((error) => console.log(error.code));
}
// two clients of the pool: what begins on one of them goes on on the other
const other = await pool.connect();
await pool.query("begin");
const first = await pool.connect();
other.release();
await pool.query(publish, [JSON.stringify("outside")]);
await first.query("rollback");
first.release();
await pool.end();
""",
    )
    # up to PostgreSQL 15 an interval may have signs in it that mean nothing
    refused = connection.info.server_version >= 160000
    assert shown.split() == ["22007"] * refused + ["22P02", "22P02"]
    wrong = [] if refused else [timedelta(seconds=2)]
    assert _delays(connection) == [*wrong, timedelta(hours=2)]
    assert _published(connection) == [{}, "outside"]


# ---------------------------------------------------------------------------- the others


@slow
def test_pdo_cuts_bytes_at_nul(run: Run, connection: Session) -> None:
    run(
        "trap.php",
        PDO
        + r"""
$pdo->prepare("select pgq.publish(topic => 'orders', body => ?)")->execute(["A\x00B"]);
""",
    )
    assert _published(connection, "body") == [b"A"]


@slow
def test_dbd_pg_cuts_bytes_at_nul_and_encodes_what_is_encoded(
    run: Run, connection: Session
) -> None:
    run(
        "trap.pl",
        PERL
        + r"""
$db->do("select pgq.publish(topic => 'orders', body => ?)", undef, "A\x00B");
$db->do("select pgq.publish(topic => 'orders', payload => ?::jsonb)", undef,
    encode_json({ text => 'ü' }));
""",
    )
    assert _published(connection, "body") == [b"A", None]
    assert _published(connection)[1] == {"text": "ü".encode().decode("latin-1")}


@slow
def test_ruby_gives_booleans_as_true_strings(run: Run) -> None:
    shown = run(
        "trap.rb",
        """
require "pg"
connection = PG.connect(ENV.fetch("DATABASE_URL"))
query = "select pgq.ack(0, '00000000-0000-0000-0000-000000000000')"
puts connection.exec(query).getvalue(0, 0) ? "looks true" : "false"
connection.type_map_for_results = PG::BasicTypeMapForResults.new(connection)
puts connection.exec(query).getvalue(0, 0) ? "looks true" : "false"
""",
    )
    assert shown.splitlines() == ["looks true", "false"]


@slow
def test_lib_pq_reads_nanoseconds_as_seconds(run: Run, connection: Session) -> None:
    run("trap_pq.go", GO)
    assert _delays(connection) == [timedelta(hours=2)]


# ---------------------------------------------------------------------------- loud


@slow
def test_jdbc_strings_need_casts(run: Run) -> None:
    shown = run(
        "Trap.java",
        """
import java.sql.*;
public class Trap {
    public static void main(String[] arguments) throws SQLException {
        String url = System.getenv("JDBC_DATABASE_URL") + "?user=" + System.getenv("PGUSER");
        for (String more : new String[] {"", "&stringtype=unspecified"}) {
            try (Connection connection = DriverManager.getConnection(url + more);
                    PreparedStatement statement = connection.prepareStatement(
                        "select * from pgq.publish(topic => ?, payload => ?)")) {
                statement.setString(1, "orders");
                statement.setString(2, "1");
                statement.executeQuery();
                System.out.println("published");
            } catch (SQLException error) {
                System.out.println(error.getSQLState());
            }
        }
    }
}
""",
    )
    assert shown.split() == ["42883", "published"]


def test_sqlalchemy_func_needs_types(run: Run, connection: Session) -> None:
    pytest.importorskip("sqlalchemy", reason="no SQLAlchemy: pip install sqlalchemy")
    shown = run(
        "sqlalchemy_func.py",
        """
import os
from sqlalchemy import create_engine, func, literal, make_url, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError
url = make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")
engine = create_engine(url)
try:
    with engine.begin() as connection:
        connection.execute(select(func.pgq.publish("orders", '{"a": 1}')))
except DBAPIError as error:
    print(error.orig.sqlstate)
with engine.begin() as connection:
    call = func.pgq.publish("orders", literal({"a": 1}, JSONB))
    print(connection.execute(select(call.table_valued("partition", "log_offset"))).one())
""",
    )
    assert shown.splitlines() == ["42883", "(0, 1)"]
    assert _published(connection) == [{"a": 1}]


def test_insert_into_a_view_takes_plain_texts(run: Run, connection: Session) -> None:
    """The way of those drivers in which a cast is hard to write."""
    connection.execute(
        "insert into pgq.publish_rows (topic, payload, key) values (%s, %s, %s)",
        ["orders", json.dumps({"a": 1}), None],
    )
    connection.execute(
        "insert into pgq.enqueue_rows (queue, payload, delay) values (%s, %s, %s)",
        ["mail", json.dumps({"a": 1}), "2 hours"],
    )
    assert _published(connection) == [{"a": 1}]
    with pytest.raises(psycopg.errors.UndefinedFunction):
        connection.execute("select pgq.publish(topic => %s, payload => %s::text)", ["orders", "1"])
