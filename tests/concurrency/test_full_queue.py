"""A queue with a limit, and many sessions that enqueue at the same time."""

from __future__ import annotations

import threading

import psycopg

from support.session import Connect, Session, new_name, row

LIMIT = 12_000


def test_the_limit_holds_within_a_twentieth(connection: Session, connect: Connect) -> None:
    """However many enqueue, until each is refused."""
    queue = new_name("queue")
    connection.create_queue(queue=queue, max_unfinished=LIMIT)
    connection.enqueue_batch(queue=queue, payloads=[0] * (LIMIT - 1000))
    refused: list[str | None] = []

    def enqueue(session: Session) -> None:
        try:
            for _ in range(LIMIT):
                session.enqueue(queue=queue, payload=1)
        except psycopg.Error as error:
            refused.append(error.sqlstate)

    threads = [threading.Thread(target=enqueue, args=[connect(autocommit=True)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["MQ010"] * len(threads)
    [unfinished] = row(
        connection, "select ready + delayed + leased from pgq.queue_stats where queue = %s", [queue]
    )
    assert LIMIT <= unfinished <= LIMIT * 1.05 + len(threads)
