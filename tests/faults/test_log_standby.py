"""Reading the log on a standby, one that lags too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgq.embedded import Server
from support.house import install_script
from support.log import newest, offsets
from support.session import Session, refused
from support.waiting import aside, wait_until

StartServer = Callable[..., Server]


@pytest.fixture
def primary(start_server: StartServer) -> Server:
    """A server with pgq and a topic."""
    server = start_server(settings={"fsync": "off", "max_wal_senders": "4"})
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        log = connection
        log.create_topic(topic="t", partitions=1)
        log.create_group(topic="t", consumer_group="readers")
        log.publish_batch(topic="t", payloads=[1, 2, 3])
    return server


@pytest.fixture
def standby(primary: Server, start_server: StartServer) -> Server:
    """A streaming replica of it."""
    folder = primary.directory / "standby"
    primary.run(
        "pg_basebackup",
        *("-D", folder / "data", "--write-recovery-conf", "--checkpoint=fast"),
        as_owner=True,
    )
    folder.chmod(0o755)
    return start_server(folder, settings={"fsync": "off", "hot_standby": "on"})


def test_reading_on_a_standby(primary: Server, standby: Server) -> None:
    """Reads work there, writes are refused, and a range that has not arrived is never shortened."""
    with (
        Session.connect(primary.dsn, autocommit=True) as above,
        Session.connect(standby.dsn, autocommit=True) as below,
    ):
        writer, reader = above, below
        assert below.execute("select pg_is_in_recovery()").fetchone() == (True,)

        def read(first: int, last: int) -> list[int]:
            return offsets(
                reader.fetch_range(topic="t", partition=0, first_offset=first, last_offset=last)
            )

        wait_until(lambda: newest(reader, "t") == 3)
        assert read(1, 3) == [1, 2, 3]
        assert offsets(reader.fetch(topic="t", consumer_group="readers", max_messages=2)) == [1, 2]
        assert [row.topic for row in reader.list_topics()] == ["t"]
        assert [row.consumer_group for row in reader.list_groups(topic="t")] == ["readers"]
        assert below.execute(
            "select committed_offset, last_offset, lag from pgq.group_lag"
        ).fetchone() == (0, 3, 3)
        lag = "select value from pgq.metrics() where name = 'pgq_group_lag_messages'"
        assert below.execute(lag).fetchone() == (3,)
        assert "pgq_group_lag_messages" in reader.metrics_text()

        # read only transactions: 25006
        refused("25006", reader.publish, topic="t", payload=4)
        refused("25006", reader.consume, topic="t", consumer_group="readers")

        below.execute("select pg_wal_replay_pause()")
        wait_until(
            lambda: (
                below.execute("select pg_get_wal_replay_pause_state() = 'paused'").fetchone()
                == (True,)
            ),
            what="for the replay to pause",
        )
        writer.publish_batch(topic="t", payloads=[4, 5])
        (claimed,) = writer.claim_offsets(topic="t", consumer_group="readers")
        assert claimed == (0, 1, 5)
        for first, last in ((1, 5), (3, 4), (4, 5)):
            error = refused(
                "MQ004",
                reader.fetch_range,
                topic="t",
                partition=0,
                first_offset=first,
                last_offset=last,
            )
            detail = "First available offset: 1; last available offset: 3."
            assert error.diag.message_detail == detail
            assert error.diag.message_hint is not None
            assert "replicated" in error.diag.message_hint
            refused(
                "MQ004",
                reader.check_range,
                topic="t",
                partition=0,
                first_offset=first,
                last_offset=last,
            )
        assert read(1, 3) == [1, 2, 3]
        assert reader.list_offsets(topic="t") == [(0, 1, 3, None)]
        shown = below.execute(
            "select log_offset from pgq.messages where partition_id"
            " = pgq.check_range('t', 0, 1, 3) and log_offset between 1 and 3 order by 1"
        ).fetchall()
        assert shown == [(1,), (2,), (3,)]

        below.execute("select pg_wal_replay_resume()")
        wait_until(lambda: newest(reader, "t") == 5, what="for the replay to go on")
        assert read(1, 5) == [1, 2, 3, 4, 5]

        # while it follows, it never shows an offset without those below
        def write() -> None:
            for number in range(150):
                writer.publish(topic="t", payload=number)

        writing = aside(write)
        looks = 0
        while newest(reader, "t") < 155:
            highest = newest(reader, "t")
            assert read(1, highest) == list(range(1, highest + 1))
            looks += 1
        writing.result(10)
        assert looks > 1
