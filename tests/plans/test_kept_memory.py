"""A session does not give the memory of a bulk call back, to take it again at the next one."""

from __future__ import annotations

import platform

import pytest

from support.bulk import NOBODY, begin
from support.session import Connect, Session

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="a matter of the C library of Linux"
)

MOST_PAGES = 250
"""How many pages a call may take; where memory is not kept it is 380 when reading."""


def faults(connection: Session) -> int:
    """How many pages the server process has taken so far."""
    (stat,) = connection.execute(
        "select pg_read_file(format('/proc/%s/stat', pg_backend_pid()))"
    ).fetchone() or ("",)
    return int(stat.rsplit(")", 1)[1].split()[7])


def test_reading(connection: Session, connect: Connect) -> None:
    connection.create_topic(topic="large", partitions=1)
    for _ in range(10):
        connection.publish_batch(topic="large", bodies=[bytes(200)] * 4000)

    reader = connect()

    def read() -> None:
        reader.cursor(binary=True).execute(
            "select p.* from generate_series(1, 40000, 4000) as c (first_offset) cross join lateral"
            " pgq.fetch_packed('large', 0, c.first_offset, c.first_offset + 3999) as p"
        )

    read()
    before = faults(reader)
    read()
    assert faults(reader) - before < 10 * MOST_PAGES


def test_writing(connection: Session, connect: Connect) -> None:
    connection.create_topic(topic="large")
    write_id = begin(connection, topic="large", atomic=False)
    writer = connect()

    def write(chunk: int) -> None:
        writer.write_chunk(
            write_id=write_id,
            task=0,
            task_attempt=NOBODY,
            chunk=chunk,
            lengths=[200] * 5000,
            packed_bodies=bytes(1_000_000),
        )

    for chunk in range(3):
        write(chunk)
    before = faults(writer)
    for chunk in range(3, 13):
        write(chunk)
    # the pages of the tables come to it, about 360; where memory is not kept it is 1000
    assert faults(writer) - before < 10 * (MOST_PAGES + 400)
