"""Attempts and results are found by index, and noted without a look at those of other jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plans.counting import Reader
from support.session import Session, row

pytestmark = pytest.mark.slow

EVENTS = 200_000
# what is read besides
OVERHEAD = 60


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    reader = Reader(dsn)
    yield reader
    reader.close()


def fill(session: Session, first_id: int) -> None:
    """Those of other jobs, in all leaves; few of them for some jobs and 30 for others."""
    session.execute(
        """
        insert into pgq.job_event (job_id, queue_id, ended_at, segment, attempt, event, error)
        select
            %(first)s + 100 + n / 30, (select max(q.queue_id) from pgq.queue as q), now(),
            n %% (select count(*) from pgq.leaf)::integer, n %% 30, 'failed', 'error'
        from generate_series(1, %(events)s) as n
        """,
        {"first": first_id, "events": EVENTS},
    )


@pytest.mark.parametrize("analyzed", [False, True])
def test_among_many(reader: Reader, connection: Session, analyzed: bool) -> None:
    """With plans of when there were none, and with new ones."""
    queue = {"queue": "work"}
    connection.create_queue(**queue, keep_results=True, no_limit=["max_attempts"], backoff="0")

    def life(session: Reader) -> int:
        """All that notes something or looks for it, and reads little."""
        used = []

        def call(function: str, **arguments: object) -> list[object]:
            found = session.call(function, **arguments)
            assert session.last.entries <= OVERHEAD, (function, session.last)
            assert not {n for n in session.last.scanned if n.startswith("job_event")}, function
            used.append(session.last.entries)
            return found

        job_id = row(connection, "select job_id from pgq.enqueue('work', '1')")[0]
        for number in range(22):
            [job] = session.call("claim_job", **queue)
            connection.execute(
                "update pgq.job set attempt = %s where job_id = %s", [number + 1, job_id]
            )
            held = {"job_id": job.job_id, "lease_token": job.lease_token}
            call("nack", **held, delay="0", error="e")
        session.call("claim_job", **queue)
        connection.execute(
            "update pgq.job set visible_at = clock_timestamp() where job_id = %s", [job_id]
        )
        [job] = call("claim_job", **queue)
        assert len(call("job_history", job_id=job_id)) == 20
        assert call("get_result", job_id=job_id)[0].state == "leased"
        call("ack", job_id=job_id, lease_token=job.lease_token)
        assert call("get_result", job_id=job_id)[0].state == "finished"
        return max(used)

    life(reader)
    fill(connection, row(connection, "select last_value from pgq.job_id")[0])
    if analyzed:
        connection.execute("vacuum analyze")
    life(reader)
    later = Reader(connection.info.dsn)
    life(later)
    number = row(connection, "select max(job_id) from pgq.job_event")[0] - 1
    for session in (reader, later):
        session.call("job_history", job_id=number)
        assert session.last.entries <= OVERHEAD
        assert not session.last.scanned
    later.close()
