"""The figures of all queues cost one look at each job, however uneven the queues are."""

from __future__ import annotations

from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.session import Session


def test_one_queue_has_nearly_everything(connection: Session) -> None:
    """As the server's statistics see it then, each queue has all jobs, or all dead letters."""
    for number in range(40):
        connection.create_queue(queue=f"q{number}", max_attempts=1)
    for queue, count in (("q7", 6000), ("q8", 4000), ("q3", 1)):
        connection.enqueue_batch(queue=queue, payloads=[Jsonb(0)] * count)
    while jobs := connection.claim_job(queue="q8", max_jobs=1000, lease="1 h"):
        ids = [job.job_id for job in jobs]
        connection.nack_batch(job_ids=ids, lease_token=jobs[0].lease_token)
    connection.execute("vacuum analyze pgq.job, pgq.dead_job")
    reader = Reader(connection.info.dsn)
    [busy] = reader.run("select ready, dead from pgq.queue_stats where queue = 'q7'", {})
    assert tuple(busy) == (6000, 0)
    rows = reader.run("select queue, ready, dead from pgq.queue_stats order by queue", {})
    assert sum(row.ready for row in rows) == 6001
    assert sum(row.dead for row in rows) == 4000
    assert not reader.last.scanned & {"job", "dead_job"}
    assert reader.last.entries < 2 * 10_001 + 40 * 50
    [small] = reader.run("select ready from pgq.queue_stats where queue = 'q3'", {})
    assert (small.ready, reader.last.scanned & {"job", "dead_job"}) == (1, set())
    reader.close()
