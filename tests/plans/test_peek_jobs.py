"""A look at the first jobs of a queue costs what is shown, however many there are."""

from __future__ import annotations

from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.session import Session

# what is read besides
OVERHEAD = 50


def test_the_first_of_many(connection: Session) -> None:
    early = Reader(connection.info.dsn)
    for queue in ("before", "work", "behind"):
        connection.create_queue(queue=queue)
        early.call("peek_jobs", queue=queue)
        early.call("enqueue_batch", queue=queue, payloads=[Jsonb(0)] * 4000)
    late = Reader(connection.info.dsn)
    connection.execute("vacuum analyze pgq.job")
    informed = Reader(connection.info.dsn)
    for reader in (early, late, informed):
        for state in (None, "ready"):
            assert len(reader.call("peek_jobs", queue="work", state=state, max_jobs=20)) == 20
            assert reader.last.entries <= 5 * 20 + OVERHEAD
            assert not reader.last.scanned
        for state in ("leased", "delayed", "waiting"):  # not among those that are ready
            assert reader.call("peek_jobs", queue="work", state=state) == []
            assert reader.last.entries <= OVERHEAD
            assert not reader.last.scanned
        # an expired job may be due at any time; it is looked for in this queue alone
        assert reader.call("peek_jobs", queue="work", state="expired") == []
        assert reader.last.entries <= 4000 + OVERHEAD
        assert not reader.last.scanned
        reader.close()


def test_a_rare_state_among_many(connection: Session) -> None:
    """So many jobs of each priority are looked at, and no more."""
    connection.create_queue(queue="work")
    for priority in (0, 9):
        for _ in range(3):
            connection.execute(
                "select count(*) from pgq.enqueue_batch('work', priority => %s, delay => '1 h',"
                " payloads => array_fill('{}'::jsonb, array[10000]))",
                [priority],
            )
    reader = Reader(connection.info.dsn)
    for state in ("leased", "expired"):
        assert reader.call("peek_jobs", queue="work", state=state) == []
        assert 2 * 20_000 <= reader.last.entries <= 2 * 20_000 + OVERHEAD
    reader.close()
