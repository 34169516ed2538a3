"""A push worker tells that it is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from support.push_config import settings
from support.receiver import Receiver, Reply
from support.session import Session
from support.waiting import PATIENCE, wait_until


def test_while_it_runs(
    log: Session, topic: str, receiver: Receiver, run_push: Any, shared_dsn: str
) -> None:
    """It says what it sends, and is forgotten when it ends."""
    answered = threading.Event()
    receiver.script(Reply(after=answered))
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    running = run_push('heartbeat = "20ms"\n' + settings(topic, receiver.url), shared_dsn)
    receiver.wait_for(1)

    def mine(count: int) -> Callable[[], list[Any]]:
        return lambda: [
            one
            for one in log.list_workers()
            if (one.kind, one.sources, one.running) == ("push", [topic], count)
        ]

    [first] = wait_until(mine(3), PATIENCE, "for a heartbeat with three messages")
    answered.set()
    [second] = wait_until(mine(0), PATIENCE, "for a heartbeat without one")
    assert (second.worker, second.started_at) == (first.worker, first.started_at)
    running.stop()
    assert first.worker not in [one.worker for one in log.list_workers()]


def test_a_database_without_them(
    log: Session, topic: str, receiver: Receiver, run_push: Any, shared_dsn: str, events: Any
) -> None:
    """It says so once, and sends."""
    log.execute("alter function pgq.heartbeat rename to _heartbeat")
    try:
        run_push('heartbeat = "1ms"\n' + settings(topic, receiver.url), shared_dsn)
        for number in range(1, 4):
            log.publish(topic=topic, payload=number)
            receiver.wait_for(number)
        [said] = events("no heartbeat")
    finally:
        log.execute("alter function pgq._heartbeat rename to heartbeat")
    assert said["off"] is True
