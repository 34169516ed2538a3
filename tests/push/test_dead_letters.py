"""Messages that fail too often: the group counts their attempts, and gives them up."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from pgq.errors import UnknownTopic
from pgq.push import _running
from pgq.push._worker import Worker
from support.faults import lose_answer
from support.log import committed_offsets, new_topic
from support.receiver import Received, Receiver, Reply, first_deliveries
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
    running = push(max_attempts=2, dead_letter_topic=dead, max_messages=4)
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
    assert running.counted("messages_total", "hook") == 3


def test_the_last_message_and_a_body(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any
) -> None:
    log.publish(topic=topic, body=b"\x00\xff")
    receiver.reply = lambda _: Reply(500)
    push(max_attempts=1, dead_letter_topic=dead, max_messages=10)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [1], PATIENCE)
    (letter,) = log.fetch(topic=dead, consumer_group="readers")
    assert (letter.payload, letter.body) == (None, b"\x00\xff")
    assert len(receiver.requests) == 1


def test_the_same_batch_comes_again(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """Under the same name, though more has been published, and later each time."""
    log.publish_batch(topic=topic, payloads=[1, 2])

    def reply(_: Received) -> Reply:
        log.publish(topic=topic, payload=3)
        return Reply(500 if len(receiver.requests) <= 4 else 200)

    receiver.reply = reply
    push(max_attempts=9, dead_letter_topic=dead, backoff="10ms", backoff_max="1h")
    wait_until(lambda: committed_offsets(log, topic, "readers")[0] >= 3, PATIENCE)
    assert [request.offsets for request in receiver.requests][:5] == [[1, 2]] * 5
    assert len({request.headers["webhook-id"] for request in receiver.requests[:5]}) == 1
    failed = events("not accepted")
    assert [fact["attempt"] for fact in failed] == [1, 2, 3, 4]
    for number, fact in enumerate(failed):
        assert 0.005 * 2**number <= fact["pause"] <= 0.01 * 2**number


def test_what_fails_is_not_claimed_early(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """A Retry-After holds for all workers: until then nobody gets the partition."""
    log.publish(topic=topic, payload=1)
    receiver.script(Reply(503, {"retry-after": "1800"}))
    workers = [push(max_attempts=9, dead_letter_topic=dead) for _ in range(2)]
    assert events("not accepted")[0]["pause"] == 1800
    for worker in workers:
        worker.stop()
    row = log.execute(
        "select leased_until - clock_timestamp(), attempt from pgq.group_lag where topic = %s",
        [topic],
    ).fetchone()
    assert timedelta(seconds=1700) < row[0] <= timedelta(seconds=1800)
    assert row[1] == 1
    assert len(receiver.requests) == 1


def test_it_looks_again_in_time(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any
) -> None:
    """Whoever gave something back does not wait a whole interval for it."""
    log.publish_batch(topic=topic, payloads=[1, 2])
    receiver.reply = bad(1)
    push(max_attempts=2, dead_letter_topic=dead, max_messages=1, poll="1h")
    wait_until(lambda: committed_offsets(log, topic, "readers") == [2], PATIENCE)


def test_two_workers_count_together(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any
) -> None:
    """Whichever of them has it: so many attempts in all, and one dead letter."""
    topic = new_topic(log, 4, messages=6)
    receiver.reply = lambda request: Reply(500 if 3 in request.offsets else 200)
    workers = [
        push(topic=topic, max_attempts=3, dead_letter_topic=dead, max_messages=1, concurrency=2)
        for _ in range(2)
    ]
    wait_until(lambda: committed_offsets(log, topic, "readers") == [6] * 4, PATIENCE)
    for worker in workers:
        worker.stop()
    sent = Counter((r.partition, *r.offsets) for r in receiver.requests)
    assert sent == {(p, o): 3 if o == 3 else 1 for p in range(4) for o in range(1, 7)}
    assert len(log.fetch(topic=dead, consumer_group="readers")) == 4
    assert first_deliveries(receiver.requests) == {p: [*range(1, 7)] for p in range(4)}


def test_without_a_limit_it_is_tried_for_ever(log: Session, receiver: Receiver, push: Any) -> None:
    """The partition stays there until the group is moved past it; other partitions go on."""
    topic = new_topic(log, 2)
    log.publish_batch(topic=topic, payloads=[13], partition=0)
    log.publish_batch(topic=topic, payloads=[1, 2, 3], partition=1)
    receiver.reply = bad(13)
    push(topic=topic, max_messages=1)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [0, 3], PATIENCE)
    receiver.wait_for(3 + 10)
    log.publish(topic=topic, payload=14, partition=0)
    log.seek(topic=topic, consumer_group="readers", partition=0, log_offset=2)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [2, 3], PATIENCE)


def test_a_limit_that_the_group_gets_later(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any
) -> None:
    """The settings are those of the group, whoever changes them, also while a worker is at it."""
    log.publish_batch(topic=topic, payloads=[13, 1])
    receiver.reply = bad(13)
    push(max_messages=1)
    receiver.wait_for(3)
    log.alter_group(topic=topic, consumer_group="readers", max_attempts=2, dead_letter_topic=dead)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [2], PATIENCE)
    (letter,) = log.fetch(topic=dead, consumer_group="readers")
    assert letter.headers["pgq_attempts"] == 2


def test_the_group_gets_the_settings(log: Session, topic: str, dead: str, push: Any) -> None:
    """What the file says counts; what it does not say stays as it is."""

    def group() -> Any:
        (found,) = log.list_groups(topic=topic)
        return found.out_of_range, found.max_attempts, found.dead_letter_topic

    push(max_attempts=2, dead_letter_topic=dead, out_of_range="skip").stop()
    assert group() == ("skip", 2, dead)
    push(max_attempts=3, dead_letter_topic=dead).stop()
    assert group() == ("skip", 3, dead)
    push().stop()
    assert group() == ("skip", 3, dead)


def test_nothing_is_given_up_without_the_lease(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """Who lost the partition counts nothing, and publishes no dead letter."""
    log.publish_batch(topic=topic, payloads=[1, 2])

    def reply(_: Received) -> Reply:
        if len(receiver.requests) == 1:
            log.seek(topic=topic, consumer_group="readers", partition=0, log_offset=2)
            return Reply(500)
        return Reply()

    receiver.reply = reply
    push(max_attempts=1, dead_letter_topic=dead, max_messages=1, lease="1h")
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
    wait_until(lambda: len(events("not accepted")) >= 8, PATIENCE)
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
    """The failure was noted, and the worker does not know: it is not noted again."""
    lost = lose_answer(monkeypatch, "give_back")
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    receiver.reply = bad(2)
    push(max_attempts=2, dead_letter_topic=dead, max_messages=1)
    wait_until(lambda: committed_offsets(log, topic, "readers") == [3], PATIENCE)
    assert lost
    assert [letter.payload for letter in log.fetch(topic=dead, consumer_group="readers")] == [2]
    assert [request.offsets for request in receiver.requests] == [[1], [2], [2], [3]]


def test_a_stop_in_a_pause_keeps_the_count(
    log: Session, topic: str, dead: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """A failure counts when it has happened; a request that a stop cuts off does not count."""
    log.publish(topic=topic, payload=1)
    receiver.script(Reply(500), then=Reply(after=receiver.released))
    running = push(max_attempts=3, dead_letter_topic=dead, timeout="1h")
    receiver.wait_for(2)
    running.told_to_stop()
    running.stop()
    row = log.execute(
        "select attempt, last_error from pgq.group_lag where topic = %s", [topic]
    ).fetchone()
    assert row == (1, "HTTP 500")


def test_a_cancellation_that_is_lost(
    log: Session,
    topic: str,
    dead: str,
    receiver: Receiver,
    push: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As asyncio.wait_for loses one that comes with its result: the worker ends all the same."""
    run = Worker.run

    async def losing(worker: Worker) -> None:
        task = asyncio.create_task(run(worker))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await task

    monkeypatch.setattr(Worker, "run", losing)
    monkeypatch.setattr(_running, "_CANCEL_AGAIN", 0.1)
    log.publish(topic=topic, payload=1)
    receiver.script(then=Reply(after=receiver.released))
    running = push(max_attempts=3, dead_letter_topic=dead, timeout="1h")
    receiver.wait_for(1)
    running.told_to_stop()
    running.stop()


def test_a_topic_for_dead_letters_must_be_there(topic: str, push: Any) -> None:
    running = push(max_attempts=1, dead_letter_topic="nowhere")
    with pytest.raises(UnknownTopic, match='unknown topic "nowhere"'):
        running.ended()
    running.error = None
