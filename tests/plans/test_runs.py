"""What a read of a partition with many runs looks at."""

from __future__ import annotations

from plans.counting import Reader
from support.bulk import begin, numbers, runs, stage_long
from support.session import Session

RUNS = 100
LONG = 600


def test_the_last_messages_behind_many_runs(connection: Session, dsn: str) -> None:
    """The runs before them are passed by."""
    connection.create_topic(topic="t", partitions=1)
    write_id = begin(connection, topic="t")
    for task in range(RUNS):
        stage_long(connection, write_id, numbers(1, LONG), task=task)
    connection.commit_write(write_id=write_id)
    assert len(runs(connection, "t")) >= RUNS - 1
    reader = Reader(dsn)
    last = {"first_offset": RUNS * LONG, "last_offset": RUNS * LONG}
    for _ in range(2):
        [message] = reader.call("fetch_range", topic="t", partition=0, **last)
    reader.close()
    assert bytes(message.body) == str(LONG).encode()
    assert reader.last.entries < RUNS // 2
