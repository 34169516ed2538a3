"""A password is in no plan, log, event log or error of a classic session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server
from pgq.local_spark import SparkSetupError, find_java, find_jdbc_driver
from support.cluster import Driver, Talkative, all_that_it_says, grant, guarded_role
from support.log import new_topic

pytest.importorskip("pyspark")

Place = tuple[str, dict[str, str]]
PASSWORD = "S3CRET-of-the-loader"


@pytest.fixture(scope="module")
def role(server: Server) -> Iterator[str]:
    """A role that has to give a password."""
    with guarded_role(server, PASSWORD) as name:
        yield name


def test_a_password_before_the_host_is_refused_and_not_shown() -> None:
    """The JDBC driver takes it for a host and a port, and would show it with its error."""
    from pgq.spark._connection import Location

    with pytest.raises(ValueError, match="not a JDBC URL") as caught:
        Location(f"jdbc:postgresql://loader:{PASSWORD}@127.0.0.1:5432/pgq")
    assert PASSWORD not in str(caught.value)


@pytest.mark.slow
def test_a_password_is_shown_nowhere(
    role: str,
    connection: psycopg.Connection[Any],
    location: Place,
    tmp_path: Any,
) -> None:
    try:
        find_java()
        find_jdbc_driver()
    except SparkSetupError as error:
        pytest.skip(str(error))
    topic = new_topic(connection)
    grant(connection, role)
    order = {
        "url": location[0],
        "properties": {"user": role, "password": PASSWORD},
        "topic": topic,
        "rows": 10,
        "tasks": 2,
        "options": {},
    }
    told = Talkative(tmp_path)
    with Driver("local[2]", told.log, conf=told.conf) as driver:
        # this is what the password is good for
        assert driver.run("publish", **order) == {"messages": 10, "duplicate": False}
        said = all_that_it_says(driver, order)
        in_url = f"{location[0]}?user={role}&password={PASSWORD}"
        rows = driver.run("read", **{**order, "url": in_url, "properties": {}})
        assert len(rows) == 10

    # Each says what it is about, so this is the place where a password would be.
    assert "JDBCRelation" in said["plans"]
    assert "UnknownTopic" in said["unknown topic, written"]["error"]
    assert "UnknownTopic" in said["unknown topic, read"]["error"]
    assert "the task fails for good" in said["failing task"]["error"]
    assert "connection" in said["unknown host"]["error"]
    assert "InvalidPassword" in said["wrong password"]["error"]
    log, events = told.log.read_text(), told.events()
    assert " INFO " in log
    assert "the task fails for good" in log
    assert "write_chunks" in events
    for place, text in {**said, "log": log, "events": events}.items():
        assert PASSWORD not in str(text), place
