"""drop_topic and drop_group with a snapshot that is older than what members have noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.log import new_topic
from support.session import Connect, Session, refused, row

READERS = {"consumer_group": "readers"}

DROPS: dict[str, Callable[[Session], Any]] = {
    "drop_topic": lambda session: session.drop_topic,
    "drop_group": lambda session: session.drop_group,
}


@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
@pytest.mark.parametrize("drop", DROPS)
def test_no_position_is_left_behind(
    connect: Connect, connection: Session, drop: str, level: str
) -> None:
    """One that it cannot see would stay for ever, so it says try again; else all of them go."""
    topic = new_topic(connection, partitions=2, messages=2)
    arguments = {"topic": topic} if drop == "drop_topic" else {"topic": topic, **READERS}
    late = connect(isolation_level=psycopg.IsolationLevel[level])
    late.execute("select")
    connection.consume(topic=topic, **READERS)
    refused("40001", DROPS[drop](late), **arguments)
    late.rollback()
    DROPS[drop](late)(**arguments)
    late.commit()
    assert row(connection, "select count(*) from pgq.group_position") == (0,)
