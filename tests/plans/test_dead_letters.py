"""One of thousands of dead letters is redriven without a look at the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.queue import stats
from support.session import Session

LETTERS = 3000
# what is read besides
OVERHEAD = 50


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    reader = Reader(dsn)
    yield reader
    reader.close()


def test_one_of_many(reader: Reader, connection: Session) -> None:
    connection.create_queue(queue="work", max_attempts=1)
    # a plan of when there was none
    reader.call("redrive", queue="work", job_id=1)
    made = reader.call("enqueue_batch", queue="work", payloads=[Jsonb(0)] * LETTERS)
    ids = [job_id for job_id, _ in made]
    token = reader.call("claim_job", queue="work", max_jobs=LETTERS)[0].lease_token
    reader.call("nack_batch", job_ids=ids, lease_token=token)
    assert stats(connection, "work") == {"dead": LETTERS}

    later = Reader(connection.info.dsn)
    connection.execute("vacuum analyze pgq.dead_job")
    informed = Reader(connection.info.dsn)
    for session, job_id in (
        (reader, ids[7]),
        (reader, -1),
        (later, ids[-7]),
        (informed, ids[9]),
        (informed, -1),
    ):
        [result] = session.call("redrive", queue="work", job_id=job_id)
        assert result.taken == (job_id > 0)
        assert session.last.entries <= OVERHEAD
        assert not session.last.scanned
    later.close()
    informed.close()
    assert reader.call("redrive", queue="work", all_jobs=True)[0].taken == LETTERS - 3
    assert not reader.last.scanned
    assert stats(connection, "work") == {"ready": LETTERS}


def test_pages(reader: Reader, connection: Session) -> None:
    """A page costs what is on it, wherever it stands and however many there are."""
    connection.create_queue(queue="work", max_attempts=1)
    reader.call("fetch_dead_letters", queue="work")
    number = 10000
    made = reader.call("enqueue_batch", queue="work", payloads=[Jsonb(0)] * number)
    token = reader.call("claim_job", queue="work", max_jobs=number)[0].lease_token
    reader.call("nack_batch", job_ids=[job_id for job_id, _ in made], lease_token=token)
    for how in ("as they came", "vacuumed", "died in one moment"):
        if how == "died in one moment":
            connection.execute("update pgq.dead_job set died_at = now()")
        if how != "as they came":
            connection.execute("vacuum analyze pgq.dead_job")
        session = reader if how == "as they came" else Reader(connection.info.dsn)
        seen = 0
        after: dict[str, Any] = {}
        while rows := session.call("fetch_dead_letters", queue="work", max_jobs=500, **after):
            assert session.last.entries <= 4 * 500 + OVERHEAD
            assert not session.last.scanned
            seen += len(rows)
            after = {"after_died_at": rows[-1].died_at, "after_job_id": rows[-1].job_id}
        assert seen == number
    letters = connection.fetch_dead_letters(queue="work", max_jobs=3)
    assert reader.call("purge_queue", queue="work", job_id=letters[0].job_id)[0].taken == 1
    assert reader.last.entries <= OVERHEAD
    assert reader.call("redrive", queue="work", all_jobs=True, max_jobs=2)[0].taken == 2
    assert reader.last.entries <= OVERHEAD
    [result] = reader.call("purge_queue", queue="work", died_before=letters[2].died_at)
    assert result.taken == 0
    assert not reader.last.scanned
