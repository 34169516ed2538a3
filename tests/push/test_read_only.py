"""A database that only reads for a while is away: what was accepted is committed afterwards."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from support.away import read_only, read_only_at_once
from support.log import committed_offsets
from support.receiver import Receiver, Reply
from support.session import Session
from support.waiting import PATIENCE, wait_until


@pytest.mark.parametrize("all_sessions", [False, True], ids=["new sessions", "all sessions"])
def test_a_batch_is_not_sent_twice(
    log: Session,
    topic: str,
    receiver: Receiver,
    push: Any,
    events: Any,
    all_sessions: bool,
    request: pytest.FixtureRequest,
) -> None:
    if all_sessions:
        request.getfixturevalue("server")
    answered = threading.Event()
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    receiver.script(Reply(after=answered))
    running = push(poll="20ms", backoff="20ms")
    receiver.wait_for(1)
    with read_only_at_once(log) if all_sessions else read_only(log, "pgq push%"):
        answered.set()
        assert events("accepted")
        assert committed_offsets(log, topic, "readers") == [0]
    wait_until(lambda: committed_offsets(log, topic, "readers") == [3], PATIENCE, "for the commit")
    running.stop()
    assert len(receiver.requests) == 1


def test_it_begins_behind_it(
    log: Session, topic: str, receiver: Receiver, push: Any, events: Any
) -> None:
    log.publish(topic=topic, payload=1)
    with read_only(log, "pgq push%"):
        push()
        assert "read-only" in events("database away")[0]["reason"]
    receiver.wait_for(1)


def test_content_comes_in_utf8(
    log: Session, topic: str, receiver: Receiver, push: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever encoding the process asks for."""
    log.publish(topic=topic, payload='"€"', key="漢")
    with monkeypatch.context() as context:
        context.setenv("PGCLIENTENCODING", "LATIN1")
        push()
        receiver.wait_for(1)
    assert '"€"'.encode() in receiver.requests[0].body
