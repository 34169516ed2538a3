"""A server that is killed with -9 under load: what it has acknowledged is there afterwards."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import psycopg

from pgq.embedded import Server
from support.house import install_script
from support.queue import claim, enqueue, enqueue_many, new_queue, stats
from support.session import Session
from support.waiting import aside, wait_until

StartServer = Callable[..., Server]


def test_nothing_acknowledged_is_lost(start_server: StartServer) -> None:
    """Jobs enqueued are there, jobs acked stay so, and the queue works on, twice over."""
    server = start_server()
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        queue = new_queue(connection, lease="2 seconds", no_limit=["max_attempts"])

    enqueued: set[int] = set()
    acked: set[int] = set()
    twice: set[int] = set()
    lock = threading.Lock()

    def until_the_crash(work: Callable[[Session], None]) -> None:
        try:
            with Session.connect(server.dsn, autocommit=True) as session:
                while True:
                    work(session)
        except psycopg.OperationalError:
            return

    def produce(session: Session) -> None:
        if random.random() < 0.1:
            ids = enqueue_many(session, queue, 10)
        else:
            ids = [enqueue(session, queue, "x" * 500)]
        with lock:
            enqueued.update(ids)

    def consume(session: Session) -> None:
        for job in claim(session, queue, 3):
            assert job.payload is not None
            arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
            if random.random() < 0.1:
                assert session.nack(**arguments, delay="0")
            elif session.ack(**arguments):
                with lock:
                    twice.update({job.job_id} & acked)
                    acked.add(job.job_id)

    for _ in range(2):
        threads = [
            aside(lambda work=work: until_the_crash(work))  # type: ignore[misc]
            for work in (produce, produce, consume, consume)
        ]
        before = len(acked)
        wait_until(lambda n=before: len(acked) > n + 150, 60)  # type: ignore[misc]
        server.kill()
        for thread in threads:
            thread.result(60)
        server.restart()

    with Session.connect(server.dsn, autocommit=True) as connection:
        finished = {
            job_id
            for (job_id,) in connection.execute("select job_id from pgq.archived_jobs").fetchall()
        }
        # whoever got the answer can rely on it; an answer may have been lost on its way
        assert acked <= finished
        rest: set[int] = set()

        def drained() -> bool:
            for job in claim(connection, queue, 1000):
                assert job.payload is not None
                arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
                assert connection.ack(**arguments)
                rest.add(job.job_id)
            return stats(connection, queue) == {}

        # those that were leased come back when their leases end
        wait_until(drained, 30)
        assert not twice
        assert not rest & finished
        assert enqueued <= finished | rest
        assert connection.cleanup() == []
