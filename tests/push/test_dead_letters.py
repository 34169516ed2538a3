"""Messages that fail too often."""

from __future__ import annotations

from typing import Any

import pytest

from pgq.push import PushError
from support.faults import lose_answer
from support.log import committed_offsets, new_topic
from support.receiver import Received, Receiver, Reply
from support.session import Connect, Session
from support.waiting import PATIENCE, wait_until


@pytest.fixture
def dead(log: Session) -> str:
    """A topic for dead letters; its group is there to read it."""
    return new_topic(log)


def bad(*payloads: Any) -> Any:
    """Refuses every batch with one of them."""
    return lambda request: Reply(422 if {*payloads} & {*request.payloads} else 200)


def test_only_the_bad_message_goes(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any
) -> None:
    """The batch first, then each message by itself; what is good arrives in order."""
    for number in range(1, 5):
        log.publish(
            topic=topic,
            payload=number,
            key=f"k{number}",
            headers={"trace": number},
        )
    receiver.reply = bad(2)
    running = push(max_attempts=2, dead_letter_topic=dead, batch_size=4)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [4], PATIENCE)
    running.stop()
    assert [request.offsets for request in receiver.requests] == [
        [1, 2, 3, 4],
        [1, 2, 3, 4],
        [1],
        [2],
        [2],
        [3],
        [4],
    ]
    (letter,) = log.fetch(topic=dead, consumer_group="readers")
    assert (letter.payload, letter.key) == (2, "k2")
    published = letter.headers.pop("pgq_published_at")
    assert published
    assert letter.headers == {
        "trace": 2,
        "pgq_topic": topic,
        "pgq_group": "readers",
        "pgq_partition": 0,
        "pgq_offset": 2,
        "pgq_attempts": 2,
        "pgq_error": "HTTP 422",
    }
    assert running.counted("messages_total", "hook", "dead") == 1
    assert running.counted("messages_total", "hook", "accepted") == 3


def test_the_last_message_and_a_body(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any
) -> None:
    log.publish(topic=topic, body=b"\x00\xff")
    receiver.reply = lambda _: Reply(500)
    push(max_attempts=1, dead_letter_topic=dead, batch_size=10)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [1], PATIENCE)
    (letter,) = log.fetch(topic=dead, consumer_group="readers")
    assert (letter.payload, letter.body) == (None, b"\x00\xff")
    assert len(receiver.requests) == 1


def test_without_a_topic_the_partition_stops(
    log: Session, receiver: Receiver, push: Any, events: Any
) -> None:
    """Nobody tries it again until the group is moved past it; other partitions go on."""
    topic = new_topic(log, 2)
    log.publish_batch(topic=topic, payloads=[13], partition=0)
    log.publish_batch(topic=topic, payloads=[1, 2, 3], partition=1)
    receiver.reply = bad(13)
    running = push(topic=topic, max_attempts=3, batch_size=1, parallel=1)
    push(topic=topic, max_attempts=3, batch_size=1)
    assert events("partition stopped")[0]["offset"] == 1
    wait_until(lambda: committed_offsets(log, topic, "readers") == [0, 3], PATIENCE)
    assert len([r for r in receiver.requests if r.partition == 0]) == 3
    log.publish(topic=topic, payload=14, partition=0)
    log.seek(topic=topic, consumer_group="readers", partition=0, log_offset=2)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [2, 3], PATIENCE)
    assert len([r for r in receiver.requests if r.partition == 0]) == 4
    assert running


def test_nothing_is_published_without_the_lease(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """Publishing and committing are one transaction: who lost the partition buries nothing."""
    log.publish_batch(topic=topic, payloads=[1, 2])

    def reply(_: Received) -> Reply:
        if len(receiver.requests) == 1:
            log.seek(topic=topic, consumer_group="readers", partition=0, log_offset=2)
            return Reply(500)
        return Reply()

    receiver.reply = reply
    push(max_attempts=1, dead_letter_topic=dead, batch_size=1, lease="1h")
    wait_until(lambda: committed_offsets(log, topic, "readers") == [2], PATIENCE)
    assert events("lease lost")
    assert log.fetch(topic=dead, consumer_group="readers") == []


def test_a_topic_for_dead_letters_that_is_blocked(
    log: Session, shared_connect: Connect, dead: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """An open transaction that publishes there holds up the dead letters, and nothing else."""
    topic = new_topic(log, 8)
    for partition in range(8):
        log.publish_batch(topic=topic, payloads=[13 + partition], partition=partition)
    other = shared_connect()
    other.publish(topic=dead, payload=0)
    receiver.reply = lambda request: Reply(200 if request.payloads == [1] else 500)
    running = push(topic=topic, max_attempts=1, dead_letter_topic=dead, lease="5s")
    wait_until(lambda: len(events("attempts used up")) >= 8, PATIENCE)
    wait_until(lambda: blocked_by(log, other.pid), PATIENCE, "for the first dead letter")
    assert sum(committed_offsets(log, topic, "readers")) == 0
    other.rollback()
    wait_until(lambda: committed_offsets(log, topic, "readers") == [1] * 8, PATIENCE)
    running.stop()
    letters = log.fetch(topic=dead, consumer_group="readers")
    assert sorted(letter.payload for letter in letters) == list(range(13, 21))


def blocked_by(log: Session, pid: int) -> bool:
    """Whether a session waits for that one."""
    row = log.execute(
        "select exists (select from pg_stat_activity where %s = any (pg_blocking_pids(pid)))", [pid]
    ).fetchone()
    return bool(row[0])


def test_an_answer_of_the_database_is_lost(
    log: Session,
    topic: str,
    dead: str,
    receiver: Receiver,
    push: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The dead letter is there, and the worker does not know: it is not published again."""
    lost = lose_answer(monkeypatch, "both")
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    receiver.reply = bad(2)
    push(max_attempts=1, dead_letter_topic=dead)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [3], PATIENCE)
    assert lost
    assert [letter.payload for letter in log.fetch(topic=dead, consumer_group="readers")] == [2]
    assert receiver.requests[-1].offsets == [3]


def test_a_topic_for_dead_letters_must_be_there(topic: str, push: Any) -> None:
    running = push(max_attempts=1, dead_letter_topic="nowhere")
    with pytest.raises(PushError, match='there is no topic "nowhere" for dead letters'):
        running.ended()
    running.error = None
