"""A client of the log that tests kill: it does one way of consuming, step by step.

Run as ``python log_client.py DSN TOPIC WAY STEP``. It says on its standard output which step it
has reached, and waits for ever at STEP; without one it ends by itself. ``work`` is a table that its
work is written to, in a transaction of its own where the way to consume has none for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import psycopg

Steps = Iterator[str]
AnyConnection = psycopg.Connection[Any]

_WORK = "insert into work (partition, log_offset, payload) values (%s, %s, %s)"


def in_transaction(connection: AnyConnection, topic: str) -> Steps:
    """claim_offsets and fetch_range in the transaction of the work."""
    with connection.transaction():
        claimed = connection.execute(
            "select * from pgq.claim_offsets(%s, 'readers', 3)", [topic]
        ).fetchone()
        assert claimed is not None
        yield "claimed"
        rows = connection.execute(
            "select partition, log_offset, payload from pgq.fetch_range(%s, %s, %s, %s)",
            [topic, *claimed],
        ).fetchall()
        yield "fetched"
        for row in rows:
            connection.execute(_WORK, [*row[:2], str(row[2])])
        yield "worked"
    yield "committed"


def leased(connection: AnyConnection, topic: str) -> Steps:
    """poll, work, commit_offset with the token."""
    rows = connection.execute(
        "select lease_token, partition, log_offset, payload from pgq.poll(%s, 'readers', 3)",
        [topic],
    ).fetchall()
    yield "polled"
    for row in rows:
        connection.execute(_WORK, [*row[1:3], str(row[3])])
    yield "worked"
    connection.execute(
        "select pgq.commit_offset(%s, 'readers', %s, %s, %s)",
        [topic, rows[0][1], rows[0][2], rows[0][0]],
    )
    yield "committed a part"
    connection.execute(
        "select pgq.commit_offset(%s, 'readers', %s, %s, %s)",
        [topic, rows[-1][1], rows[-1][2], rows[-1][0]],
    )
    yield "committed"


def manual(connection: AnyConnection, topic: str) -> Steps:
    """fetch, work, commit_offset."""
    rows = connection.execute(
        "select partition, log_offset, payload from pgq.fetch(%s, 'readers', 3)", [topic]
    ).fetchall()
    yield "fetched"
    for row in rows:
        connection.execute(_WORK, [*row[:2], str(row[2])])
    yield "worked"
    connection.execute(
        "select pgq.commit_offset(%s, 'readers', %s, %s)", [topic, rows[-1][0], rows[-1][1]]
    )
    yield "committed"


def external(connection: AnyConnection, topic: str) -> Steps:
    """fetch_range; the reader keeps its offset itself, in a table beside its work."""
    with connection.transaction():
        (first,) = connection.execute(
            "select coalesce(max(log_offset), 0) + 1 from work"
        ).fetchall()[0]
        rows = connection.execute(
            "select partition, log_offset, payload"
            " from pgq.fetch_range(%s, 0, %s, least(%s, (select last_offset from pgq.topic_stats"
            " where topic = %s and partition = 0)))",
            [topic, first, first + 2, topic],
        ).fetchall()
        yield "fetched"
        for row in rows:
            connection.execute(_WORK, [*row[:2], str(row[2])])
        yield "worked"
    yield "committed"


def publishing(connection: AnyConnection, topic: str) -> Steps:
    """Two messages and a batch in one transaction."""
    with connection.transaction():
        connection.execute("select pgq.publish(%s, '100', partition => 0)", [topic])
        yield "published"
        connection.execute(
            "select * from pgq.publish_batch(%s, '{101,102}', partition => 0)", [topic]
        )
        yield "published a batch"
    yield "committed"


WAYS = {
    "in transaction": in_transaction,
    "leased": leased,
    "manual": manual,
    "external": external,
    "publishing": publishing,
}


def main() -> None:
    """Do the steps that the arguments name."""
    dsn, topic, way, *last = sys.argv[1:]
    with psycopg.connect(dsn, autocommit=True) as connection:
        for step in WAYS[way](connection, topic):
            print(step, flush=True)
            if step in last:
                time.sleep(600)


if __name__ == "__main__":
    main()
