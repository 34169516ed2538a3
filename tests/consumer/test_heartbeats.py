"""Consumers tell that they are alive."""

from __future__ import annotations

import threading
from typing import Any

from pgq import Client
from pgq.messages import WorkerInfo
from support.waiting import PATIENCE, wait_until
from support.working import working


def test_what_it_says(dsn: str, client: Client, kind: Any) -> None:
    client.connection.execute("delete from pgq.worker")
    answered = threading.Event()

    def handle(payloads: list[int]) -> None:
        assert answered.wait(PATIENCE)

    def seen(running: int) -> WorkerInfo:
        [found] = wait_until(
            lambda: [one for one in client.monitor.list_workers() if one.running == running],
            PATIENCE,
            f"for a consumer that has {running} messages",
        )
        return found

    consumer = kind("all", conninfo=dsn, poll=0.05, heartbeat=0.05)
    consumer.handler("events", batch=3)(handle)
    client.publish_batch("events", [1, 2, 3], partition=0)
    with working(consumer):
        found = seen(3)
        assert (found.kind, found.sources) == ("consumer", ["events"])
        assert found.details == {"consumer_group": "all"}
        answered.set()
        assert seen(0).worker == found.worker
    assert client.monitor.list_workers() == []
