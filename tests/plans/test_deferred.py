"""What giving offsets reads: it must not grow with what has been given, nor with who stays open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader, refuse_growth
from support.session import Connect, Session
from support.subscription import subscribe

ROUNDS = 24


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    reader = Reader(dsn)
    yield reader
    reader.close()


def publish_many(connection: Session, number: int) -> None:
    """So many transactions of one message."""
    connection.execute(
        f"do $$ begin for n in 1..{number} loop perform pgq.publish('t', to_jsonb(n)); commit;"
        " end loop; end $$".encode()
    )


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["an open publisher", "a held snapshot"])
def test_ten_thousand_messages(
    reader: Reader, connection: Session, connect: Connect, beside: str
) -> None:
    """In as many transactions, and in steps; the readers' plans are made while all is empty."""
    connection.create_topic(topic="t", partitions=1, deferred=True)
    connection.create_group(topic="t", consumer_group="g")
    connection.create_queue(queue="q")
    subscribe(connection, "t", "q")
    ways = {
        "assign_offsets": {"topic": "t"},
        "consume": {"topic": "t", "consumer_group": "g", "max_messages": 1000},
        "claim_job": {"queue": "q", "max_jobs": 1000, "lease": "1 hour"},
    }
    for way, options in ways.items():
        assert reader.call(way, **options) == []
    held = beside == "a held snapshot"
    other = connect(isolation_level="repeatable read" if held else "read committed")
    other.execute("select count(*) from pgq.message")
    if not held:
        other.publish(topic="t", payload=Jsonb(-1))

    many: list[int] = []
    single: dict[str, list[int]] = {way: [] for way in ways}
    for _ in range(20):
        publish_many(connection, 500)
        [(_, first, last)] = reader.call("assign_offsets", topic="t")
        assert last - first == 499
        many.append(reader.last.entries)
        assert not reader.last.scanned
        for way, options in ways.items():
            # what is there for this one goes first
            while way != "assign_offsets" and reader.call(way, **options):
                pass
            connection.publish(topic="t", payload=Jsonb(0))
            assert len(reader.call(way, **options)) == 1
            single[way].append(reader.last.entries)
            assert not reader.last.scanned
    if not held:
        # the floors of queues do not rise beyond the id of a transaction that is open
        del single["claim_job"]
    refuse_growth(many, 20)
    for way, work in single.items():
        # the floor rises by the clock: on a busy machine a round later
        refuse_growth(work, 520 if way == "claim_job" else 20)
    assert max(many) < 500 + 50, many
    for way, work in single.items():
        # a claim walks what has gone since the floor rose, which takes a while
        assert max(work) < (500 * 12 if way == "claim_job" else 50), single
