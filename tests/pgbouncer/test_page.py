"""The page behind a pooler whose connections change from transaction to transaction."""

from __future__ import annotations

import pytest

from support.page import Page
from support.pooler import PgBouncer
from support.session import Session

pytestmark = pytest.mark.slow


def test_it_reads_and_acts(connection: Session, pgbouncer: PgBouncer) -> None:
    connection.create_topic(topic="t", partitions=2)
    connection.create_group(topic="t", consumer_group="g")
    connection.create_queue(queue="mail")
    with Page(pgbouncer.dsn) as page:
        for number in range(1, 6):
            assert page.act("publish", topic="t", payload=str(number), partition="1")
            assert page.act("enqueue", queue="mail", payload="1")
            assert len(page.read("messages", topic="t")["messages"]) == number
            assert page.read("group", topic="t", group="g")["partitions"][1]["lag"] == number
            assert len(page.read("jobs", queue="mail")["jobs"]) == number
        assert page.read("doctor")["checked"]
    # what holds for the page's transactions holds for nobody else's on the same connections
    with Session.connect(pgbouncer.dsn, prepare_threshold=None) as session:
        for _ in range(4):
            with session.transaction():
                assert session.execute("show statement_timeout").fetchone() == ("0",)
                assert session.execute("show transaction_read_only").fetchone() == ("off",)
