"""A PostgreSQL for each process of a run, and a database with pgq in it for each test.

The server is DATABASE_URL where that is set, else an embedded one. Processes that run tests side by
side have each their own: a transaction that is open anywhere on a server holds up cleanup in all
its databases, and roles and settings belong to all of them.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel, sql
from psycopg.conninfo import conninfo_to_dict

from build import migration_path
from pgq.embedded import Server
from support import servers
from support.clock import Clock
from support.databases import Databases
from support.java import JAVA_OPTIONS
from support.postgrest import Postgrest
from support.second_chance import (  # noqa: F401  hooks
    pytest_collection_modifyitems,
    pytest_runtest_logreport,
    pytest_sessionfinish,
)
from support.session import Connect, Session
from support.shards import Shards
from support.side_by_side import (  # noqa: F401  hooks
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
)

StartServer = Callable[..., Server]

_server_key = pytest.StashKey[Server]()


# ---------------------------------------------------------------------------- the run


def pytest_configure(config: pytest.Config) -> None:
    """Start the server of this process."""
    if config.option.collectonly or config.option.help or config.option.version:
        return
    # A shell lets what it runs in the background ignore Ctrl-C, and the programs that are started
    # here would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("DATABASE_URL"):
        return
    if not migration_path().exists():
        raise pytest.UsageError("there is no install script: run make build")
    server = Server(settings=servers.FAST)
    config.stash[_server_key] = server
    if not config.getoption("tx", None):  # else others run the tests
        servers.start(server)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server."""
    server = config.stash.get(_server_key, None)
    if server is not None:
        server.stop()


def pytest_report_header(config: pytest.Config) -> str:
    """Name the server in the first lines of the report."""
    server = config.stash.get(_server_key, None)
    if server is None:
        return "server: DATABASE_URL"
    return f"server: PostgreSQL {server.major} of {server.bin_dir}"


# said of what Spark cannot do in a version, and pgq refuses there, which has a test
UNABLE = "has no limits for Python sources"


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("PGQ_REQUIRE_ALL") != "1" or report.outcome != "skipped":
        return
    if hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    if UNABLE in str(reason):
        return
    report.outcome = "failed"
    report.longrepr = f"PGQ_REQUIRE_ALL=1 allows no skip: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """Thousands of tests are no garbage: to look for some takes a quarter of the time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """Turn a skip into a failure where the run must be complete."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Any:
    """The same for a module that skips itself."""
    report = yield
    _refuse_skip(report)
    return report


# ---------------------------------------------------------------------------- servers


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """The running embedded server; a test that needs one cannot run on DATABASE_URL."""
    running = request.config.stash.get(_server_key, None)
    if running is None:
        pytest.skip("DATABASE_URL is set: no embedded server to work with")
    return running


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Start servers of one's own, to be crashed or given settings; takes what Server takes.

    The extension's files are in place; the database postgres is empty.
    """
    started: list[Server] = []

    def start(*arguments: Any, **options: Any) -> Server:
        server = Server(*arguments, **options)
        started.append(server)
        return servers.start(server)

    yield start
    for server in reversed(started):
        server.stop()


# ---------------------------------------------------------------------------- databases


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """Databases with pgq; ``dsn`` is one for a test, ``shared_dsn`` one for many."""
    url = os.environ.get("DATABASE_URL")
    place = conninfo_to_dict(url or request.getfixturevalue("server").dsn)
    with Databases(place) as databases:
        yield databases


@pytest.fixture
def dsn(databases: Databases) -> Iterator[str]:
    """The connection string of a fresh database with pgq installed."""
    with databases.copy() as dsn:
        yield dsn


@pytest.fixture
def shards(databases: Databases) -> Iterator[Shards]:
    """Two databases that topics are spread over."""
    with databases.copy() as first, databases.copy() as second:
        with Shards([first, second]) as found:
            yield found


def _connections(dsn: str) -> Iterator[Connect]:
    opened: list[Session] = []

    def open_connection(
        *,
        autocommit: bool = False,
        isolation_level: IsolationLevel | str | None = None,
        **options: Any,
    ) -> Session:
        connection = Session.connect(dsn, autocommit=autocommit, **options)
        opened.append(connection)
        if isinstance(isolation_level, str):
            isolation_level = IsolationLevel[isolation_level.upper().replace(" ", "_")]
        if isolation_level is not None:
            connection.isolation_level = isolation_level
        return connection

    yield open_connection
    for connection in opened:
        connection.close()


@pytest.fixture
def connect(dsn: str) -> Iterator[Connect]:
    """Open sessions to the test's database; they are closed at its end.

    ``autocommit`` and ``isolation_level`` (an IsolationLevel or its name) may be given, and
    whatever else psycopg.connect takes.
    """
    yield from _connections(dsn)


@pytest.fixture
def connection(connect: Connect) -> Session:
    """A session in autocommit to the test's database."""
    return connect(autocommit=True)


@pytest.fixture
def clock(dsn: str) -> Clock:
    """The database's clock, which the test may move: ``clock.advance('1 hour')``."""
    clock = Clock(dsn)
    clock.install()
    return clock


# ------------------------------------------------------------- a database for many tests
# A database of one's own costs a test more than most tests take. Where names of one's own will do,
# share one: nothing is cleaned up in it, and cleanup() is not called.


@pytest.fixture(scope="session")
def shared_dsn(databases: Databases) -> Iterator[str]:
    """A database with pgq that the tests of a run share; its clock is one that can be moved."""
    with databases.copy("shared") as dsn:
        Clock(dsn).install()
        yield dsn


@pytest.fixture
def shared_connect(shared_dsn: str) -> Iterator[Connect]:
    """``connect`` for the shared database."""
    yield from _connections(shared_dsn)


@pytest.fixture
def shared_clock(shared_dsn: str) -> Iterator[Clock]:
    """``clock`` for the shared database; it shows the real time again after the test."""
    clock = Clock(shared_dsn)
    yield clock
    clock.reset()


@pytest.fixture
def log(shared_connect: Connect) -> Session:
    """A session in autocommit to the shared database."""
    return shared_connect(autocommit=True)


# ------------------------------------------------------------------ a database for cleanup
# Tests of cleaning find nothing but their own; it costs less to empty a database than to make one.


@pytest.fixture(scope="session")
def _cleaned_dsn(databases: Databases) -> Iterator[str]:
    """The connection string of a database in which cleanup is called; its clock can be moved."""
    with databases.copy("cleaned") as dsn:
        Clock(dsn).install()
        yield dsn


def _empty(connection: psycopg.Connection[Any]) -> None:
    """Remove all rows, but no leaf that was added; ids begin at 1 again."""
    connection.execute("set session_replication_role = replica")
    tables = connection.execute(
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind = 'r' and not relispartition"
        " and relname not in ('leaf', 'view_key', 'access_change')"
    ).fetchall()
    for (table,) in tables:
        connection.execute(sql.SQL("delete from pgq.{}").format(sql.Identifier(table)))
    connection.execute("update pgq.leaf set free = true")
    used = connection.execute(
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind = 'r' and relispartition and pg_relation_size(oid) > 0"
    ).fetchall()
    for (leaf,) in used:
        connection.execute(sql.SQL("truncate pgq.{}").format(sql.Identifier(leaf)))
    connection.execute(
        "select setval(s.seqrelid, s.seqstart, false) from pg_sequence as s"
        " inner join pg_class as c on c.oid = s.seqrelid"
        " where c.relnamespace = 'pgq'::regnamespace"
    )


@pytest.fixture
def emptied_dsn(_cleaned_dsn: str) -> str:
    """A database that is empty at the beginning of each test: cleanup touches all that is there."""
    with psycopg.connect(_cleaned_dsn) as connection:
        _empty(connection)
    return _cleaned_dsn


@pytest.fixture
def emptied_clock(emptied_dsn: str) -> Iterator[Clock]:
    """``clock`` for the emptied database; it shows the real time again after the test."""
    clock = Clock(emptied_dsn)
    yield clock
    clock.reset()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for the whole run: starting it takes longer than most tests.

    It has two threads, and a task is tried up to four times, as on a cluster.
    """
    pytest.importorskip("pyspark", reason="no pyspark: pip install 'pgq-sql[spark]'")
    from pgq.local_spark import SparkSetupError, local_session

    settings = {
        "spark.sql.shuffle.partitions": 2,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    }
    try:
        session = local_session("local[2,4]", "pgq tests", **settings)
    except SparkSetupError as error:
        pytest.skip(str(error))
    yield session
    session.stop()


@pytest.fixture
def postgrest(dsn: str, tmp_path: Path) -> Iterator[Postgrest]:
    """PostgREST on the test's database, every request as the superuser; see ``postgrest.url``."""
    if Postgrest.binary() is None:
        pytest.skip("no PostgREST binary: make postgrest fetches one, PGQ_POSTGREST names one")
    with Postgrest(dsn, log=tmp_path / "postgrest.log") as running:
        yield running
