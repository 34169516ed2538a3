"""Push workers as processes: told to stop, killed with -9, and without their database."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

pytest.importorskip("httpx", reason="no httpx: pip install 'pgq-sql[push]'")

from pgq.embedded import Server
from support.house import install_script
from support.log import committed_offsets, new_topic
from support.push_config import settings
from support.receiver import Received, Receiver, Reply, first_deliveries
from support.session import Session
from support.waiting import wait_until

LONG = 120.0


class Process:
    """``pgq push``, with its log."""

    def __init__(self, config: Path, dsn: str, log: Path) -> None:
        self._log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pgq", "push", "--config", config],
                env={**os.environ, "DATABASE_URL": dsn},
                stdout=subprocess.DEVNULL,
                stderr=file,
            )

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line for line in found if line["message"] == name]

    def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]] | None:
            assert self.process.poll() is None, self._log.read_text()
            events = self.events(event)
            return events if len(events) >= count else None

        return wait_until(found, LONG, f"for the event {event}") or []

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(LONG)


StartProcess = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path, shared_dsn: str, receiver: Receiver) -> Iterator[StartProcess]:
    started: list[Process] = []

    def start(topic: str, dsn: str = shared_dsn, **others: Any) -> Process:
        config = tmp_path / f"push{len(started)}.toml"
        config.write_text(settings(topic, receiver.url, **others))
        process = Process(config, dsn, config.with_suffix(".log"))
        started.append(process)
        return process

    yield start
    receiver.released.set()
    for process in started:
        process.process.kill()
        process.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it(
    log: Session, receiver: Receiver, start: StartProcess, number: int
) -> None:
    topic = new_topic(log)
    process = start(topic)
    log.publish(topic=topic, payload=1)
    (line,) = process.wait_for("accepted")
    assert {name: line[name] for name in ("level", "push", "partition", "status", "attempt")} == {
        "level": "info",
        "push": "hook",
        "partition": 0,
        "status": 200,
        "attempt": 1,
    }
    wait_until(lambda: committed_offsets(log, topic, "readers") == [1], LONG)
    assert process.stop(number) == 0
    assert process.events("stopped")


def test_what_is_not_there_is_said_at_the_start(tmp_path: Path, shared_dsn: str) -> None:
    config = tmp_path / "push.toml"
    config.write_text(settings("nowhere", "http://127.0.0.1:1/"))
    done = subprocess.run(
        [sys.executable, "-m", "pgq", "push", "--config", config, "--database", shared_dsn],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 1
    assert 'pgq: unknown topic "nowhere"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_one_of_two_is_killed(log: Session, receiver: Receiver, start: StartProcess) -> None:
    """Nothing is lost, each partition stays in order; only what was under way comes again."""
    partitions, each = 4, 30
    topic = new_topic(log, partitions, messages=each)
    killed: list[int] = []

    def reply(request: Received) -> Reply:
        # each of the requests that are under way then is one that the kill interrupts
        return Reply(after=receiver.released if not killed and len(receiver.requests) > 8 else None)

    receiver.reply = reply
    shared = {"max_messages": 4, "concurrency": 2, "lease": "4s", "timeout": "5m"}
    processes = [start(topic, **shared) for _ in range(2)]
    wait_until(lambda: len(receiver.requests) >= 8 + 4, LONG, "for requests of both")
    before = sum(committed_offsets(log, topic, "readers"))
    assert 0 < before < partitions * each
    processes[0].process.kill()
    processes[0].process.wait()
    killed.append(1)
    receiver.released.set()
    wait_until(
        lambda: committed_offsets(log, topic, "readers") == [each] * partitions,
        LONG,
        "for everything",
    )
    assert processes[1].stop() == 0
    expected = {partition: list(range(1, each + 1)) for partition in range(partitions)}
    assert first_deliveries(receiver.requests) == expected
    names = [request.headers["webhook-id"] for request in receiver.requests]
    assert 1 <= len(names) - len({*names}) <= 4


@pytest.mark.slow
def test_attempts_are_counted_over_kills(
    log: Session, receiver: Receiver, start: StartProcess
) -> None:
    """A message in whose request the worker dies, or that is refused: so many in all, not each."""
    topic, dead = new_topic(log, messages=3), new_topic(log)
    shared = {"max_messages": 1, "lease": "1s", "timeout": "5m"}
    shared |= {"max_attempts": 5, "dead_letter_topic": dead}
    dying: list[Process] = []

    def reply(request: Received) -> Reply:
        if request.offsets != [2]:
            return Reply()
        tries = sum(earlier.offsets == [2] for earlier in receiver.requests)
        if tries in (2, 4):
            # the one that has sent it, by itself
            dying[-1].process.kill()
            return Reply(after=receiver.released)
        return Reply(500)

    receiver.reply = reply
    for _ in range(2):
        dying.append(start(topic, **shared))
        dying[-1].process.wait(LONG)
    for process in [start(topic, **shared) for _ in range(2)]:
        process.wait_for("started")
    wait_until(lambda: committed_offsets(log, topic, "readers") == [3], LONG)
    sent = [request.offsets for request in receiver.requests]
    assert sent == [[1], *[[2]] * 5, [3]]
    (letter,) = log.fetch(topic=dead, consumer_group="readers")
    assert letter.headers["pgq_attempts"] == 5
    assert letter.headers["pgq_error"] == "HTTP 500"


@pytest.mark.slow
def test_many_kills_and_failures(log: Session, receiver: Receiver, start: StartProcess) -> None:
    """Workers that are killed again and again, before a receiver that fails in every way."""
    partitions, each = 6, 400
    topic = new_topic(log, partitions, messages=each)
    drawn = random.Random(20261122)
    kinds = [Reply(500), Reply(503, {"retry-after": "0"}), Reply(cut="before"), Reply(301)]

    def reply(_: Received) -> Reply:
        return drawn.choice(kinds) if drawn.random() < 0.3 else Reply()

    receiver.reply = reply
    shared = {"max_messages": 25, "lease": "3s", "timeout": "10s"}
    processes = [start(topic, **shared) for _ in range(3)]
    for kill in range(3):
        receiver.wait_for(15 * (kill + 1), LONG)
        victim = processes[kill]
        victim.process.kill()
        victim.process.wait()
        processes.append(start(topic, **shared))
    wait_until(
        lambda: committed_offsets(log, topic, "readers") == [each] * partitions,
        LONG,
        "for everything",
    )
    expected = {partition: list(range(1, each + 1)) for partition in range(partitions)}
    assert first_deliveries(receiver.requests) == expected


@pytest.mark.slow
def test_one_of_two_is_held_up(log: Session, receiver: Receiver, start: StartProcess) -> None:
    """A worker that stands still longer than its lease sends nothing more when it goes on."""
    topic = new_topic(log, messages=6)
    answered = threading.Event()
    receiver.script(Reply(after=answered))
    shared = {"max_messages": 2, "lease": "3s", "timeout": "5m"}
    held_up = start(topic, **shared)
    receiver.wait_for(1, LONG)
    held_up.process.send_signal(signal.SIGSTOP)
    other = start(topic, **shared)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [6], LONG)
    answered.set()
    held_up.process.send_signal(signal.SIGCONT)
    assert other.stop() == 0
    log.publish(topic=topic, payload=7)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [7], LONG)
    assert held_up.stop() == 0
    offsets = [request.offsets for request in receiver.requests]
    assert offsets == [[1, 2], [1, 2], [3, 4], [5, 6], [7]]


@pytest.mark.slow
def test_the_database_crashes(
    start_server: Callable[..., Server], receiver: Receiver, start: StartProcess
) -> None:
    """What was accepted meanwhile is committed when the database is back, and not sent again."""
    server = start_server()
    with Session.connect(server.dsn, autocommit=True) as log:
        log.execute(install_script())
        topic = new_topic(log, messages=5)
    receiver.script(Reply(after=receiver.released))
    process = start(topic, server.dsn, lease="60s", timeout="5m", max_messages=3)
    receiver.wait_for(1, LONG)
    server.kill()
    receiver.released.set()
    process.wait_for("accepted")
    server.start()
    with Session.connect(server.dsn, autocommit=True) as log:
        wait_until(lambda: committed_offsets(log, topic, "readers") == [5], LONG)
        log.publish(topic=topic, payload=6)
        wait_until(lambda: committed_offsets(log, topic, "readers") == [6], LONG)
    assert [request.offsets for request in receiver.requests] == [[1, 2, 3], [4, 5], [6]]
    server.kill()
    assert process.wait_for("database away")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn)
    assert process.stop() == 0


@pytest.mark.slow
def test_the_database_comes_later(
    start_server: Callable[..., Server], receiver: Receiver, start: StartProcess
) -> None:
    server = start_server()
    with Session.connect(server.dsn, autocommit=True) as log:
        log.execute(install_script())
        topic = new_topic(log, messages=1)
    server.kill()
    process = start(topic, server.dsn)
    process.wait_for("database away", 2)
    server.start()
    receiver.wait_for(1, LONG)
    assert process.stop() == 0
