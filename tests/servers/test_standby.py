"""A hot standby answers whatever only reads, and says clearly what it cannot do."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from pgq.consumer import Consumer
from pgq.embedded import Server
from pgq.producer import Producer
from pgq.worker import AsyncWorker, Worker
from support.calls import GIVEN, given, prepare
from support.house import install_script, refuse
from support.page import Page
from support.session import Session
from support.waiting import PATIENCE, wait_until
from support.working import Started

FUNCTIONS = """
select p.proname, p.provolatile = 'v'
from pg_proc as p
where p.pronamespace = 'pgq'::regnamespace
    and p.proname !~ '^_'
    and p.prorettype <> 'trigger'::regtype
order by 1
"""
# Figures of the server itself differ, a watermark is older where nobody can be locked out, and
# where there is no pg_cron there is nothing to end.
OWN = {"metrics", "metrics_text", "next_poll", "unschedule_cleanup", "watermark"}
CLEAR = ("in a read-only transaction", "during recovery")
VIEWS = """
select c.relname
from pg_class as c
where c.relnamespace = 'pgq'::regnamespace
    and c.relkind = 'v'
order by 1
"""


@pytest.fixture
def primary(start_server: Callable[..., Server]) -> Server:
    """A server with pgq."""
    server = start_server(settings={"fsync": "off", "max_wal_senders": "4"})
    with psycopg.connect(server.dsn) as connection:
        connection.execute(install_script())
    return server


def test_every_function_and_view_on_a_standby(
    primary: Server, start_standby: Callable[..., Server]
) -> None:
    """What is stable works as on the primary; what writes is refused by PostgreSQL's own error."""
    with Session.connect(primary.dsn, autocommit=True) as above:
        known = prepare(above)
        above.create_topic(topic="deferred", deferred=True)
        above.create_group(topic="deferred", consumer_group="g")
        above.publish(topic="deferred", payload=1)
        standby = start_standby(primary)
        with Session.connect(standby.dsn, autocommit=True) as below:
            functions = below.execute(FUNCTIONS).fetchall()
            reading = [name for name, writes in functions if not writes]
            assert {"fetch", "fetch_range", "get_job", "list_topics"} <= set(reading)
            wrong: list[str] = []
            for name, writes in functions:
                arguments = given(name, known) if name in GIVEN else {}
                if name == "assign_offsets":
                    arguments = {"topic": "deferred"}  # elsewhere it has nothing to write
                try:
                    found = below.call(name, **arguments)
                except psycopg.Error as error:
                    said = (error.sqlstate, error.diag.message_primary or "")
                    clear = said[0] == "25006" and any(end in said[1] for end in CLEAR)
                    if not writes or not clear:
                        wrong.append(f"{name}: {said}")
                else:
                    if name in OWN:
                        continue
                    if writes:
                        wrong.append(f"{name} writes, and was not refused: {found}")
                    elif found != above.call(name, **arguments):
                        wrong.append(f"{name} says something else than on the primary")
            for (view,) in below.execute(VIEWS).fetchall():
                query = sql.SQL("select count(*) from (select * from pgq.{}) as v").format(
                    sql.Identifier(view)
                )
                try:
                    rows = below.execute(query).fetchone()
                except psycopg.Error as error:
                    wrong.append(f"view {view}: {error}")
                else:
                    if rows != above.execute(query).fetchone():
                        wrong.append(f"view {view} shows other rows")
            refuse(wrong)


def _refusals(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    wanted = re.compile("is a standby.*read-write")
    return [record for record in [*caplog.records] if wanted.search(record.getMessage())]


def test_what_runs_is_refused_by_a_standby(
    primary: Server, start_standby: Callable[..., Server], caplog: pytest.LogCaptureFixture
) -> None:
    """Workers and consumers say once that it is one, and what to do, and wait; so do producers."""
    caplog.set_level(logging.DEBUG)
    with Session.connect(primary.dsn, autocommit=True) as above:
        above.create_queue(queue="mail")
        above.create_topic(topic="readings")
        above.create_group(topic="readings", consumer_group="g")
    standby = start_standby(primary)

    worker = Worker(standby.dsn)
    worker.handler("mail")(lambda payload: None)
    consumer = Consumer("g", conninfo=standby.dsn)
    consumer.handler("readings")(lambda payload: None)

    async def nothing(payload: object) -> None:
        raise AssertionError("there is nothing to do")

    tasks = AsyncWorker(standby.dsn)
    tasks.handler("mail")(nothing)
    for runner in (worker, consumer, tasks):
        caplog.clear()
        started = Started(runner)
        wait_until(lambda: len(_refusals(caplog)) > 2, PATIENCE)
        assert not started.ended.done()
        started.stop()
        started.join()
        levels = [record.levelno for record in _refusals(caplog)]
        assert [level for level in levels if level >= logging.WARNING] == [logging.WARNING]
    with (
        Producer("readings", conninfo=standby.dsn, timeout=0.1) as producer,
        pytest.raises(psycopg.OperationalError, match=r"is a standby.*read-write"),
    ):
        producer.publish(1).result(10)


def test_the_page_of_a_standby(primary: Server, start_standby: Callable[..., Server]) -> None:
    """It offers no act; tests/ui/test_rights.py sees that the page disables what is not offered."""
    with Page(start_standby(primary).dsn) as page:
        about = page.read("about")
        assert (about["standby"], about["acts"]) == (True, {})
        assert about["refused"] == "a standby: it can only be read"
        assert page.read("overview")["queues"] == []
