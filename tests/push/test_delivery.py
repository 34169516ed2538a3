"""What is sent, when it is committed, and what is sent again."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from pgq.push import PushError
from support.clock import Clock
from support.faults import lose_answer
from support.log import committed_offsets, new_topic
from support.push_config import settings
from support.receiver import Received, Receiver, Reply, first_deliveries
from support.session import Session
from support.waiting import PATIENCE, wait_until

OLD = "whsec_" + base64.b64encode(b"o" * 24).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()


def committed(log: Session, topic: str, offset: int) -> None:
    wait_until(
        lambda: committed_offsets(log, topic, "readers") == [offset],
        PATIENCE,
        f"for a commit of {offset}",
    )


def leased(log: Session, topic: str) -> bool:
    return log.execute(
        "select leased_until is not null from pgq.group_lag where topic = %s", [topic]
    ).fetchone()[0]


def test_messages_arrive_as_they_are(
    log: Session, topic: str, receiver: Receiver, push: Any
) -> None:
    text = '{"n": 12345678901234567890.123456789012345678901, "ü": [null, "\\u2028"]}'
    log.execute("select pgq.publish(%s, %s::jsonb, key => 'k ü')", [topic, text])
    log.publish(topic=topic, payload=None, body=b"\x00\xff", headers={"a": 1})
    log.execute("select pgq.publish(%s, 'null'::jsonb)", [topic])
    push(max_messages=3, headers={"Authorization": "Bearer x"})
    (request,) = receiver.wait_for(1)
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == "Bearer x"
    assert {name: request.content[name] for name in ("topic", "consumer_group", "partition")} == {
        "topic": topic,
        "consumer_group": "readers",
        "partition": 0,
    }
    assert b'"n": 12345678901234567890.123456789012345678901' in request.body
    first, second, third = request.content["messages"]
    assert (first["log_offset"], first["key"], first["headers"]) == (1, "k ü", None)
    assert first["payload"]["ü"] == [None, "\u2028"]
    assert "body" not in first
    assert datetime.fromisoformat(first["published_at"]).utcoffset() == timedelta(0)
    assert (second["headers"], base64.b64decode(second["body"])) == ({"a": 1}, b"\x00\xff")
    assert "payload" not in second
    assert third["payload"] is None
    committed(log, topic, 3)
    assert not leased(log, topic)


def test_json_that_python_cannot_read(
    log: Session,
    topic: str,
    receiver: Receiver,
    push: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It arrives exactly, in UTF-8 whatever the encoding of the client is."""
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    deep, long = "[" * 3000 + "]" * 3000, f'{{"ä": {"1" * 5001}}}'
    for text in (deep, long):
        log.execute("select pgq.publish(%s, %s::jsonb, headers => %s)", [topic, text, long])
    push(max_messages=2)
    # the receiver of these tests cannot read it either
    committed(log, topic, 2)
    (request,) = receiver.wait_for(1)
    assert request.body.count(b'"payload":%s}' % deep.encode()) == 1
    assert request.body.count(long.encode()) == 3


def test_later_messages_follow(log: Session, topic: str, receiver: Receiver, push: Any) -> None:
    running = push(max_messages=2)
    for number in range(5):
        log.publish(topic=topic, payload=number)
    committed(log, topic, 5)
    assert first_deliveries(receiver.requests) == {0: [1, 2, 3, 4, 5]}
    assert all(len(request.offsets) <= 2 for request in receiver.requests)
    running.stop()
    assert running.counted("messages_total", "hook") == 5
    assert running.counted("requests_total", "hook", "accepted") == len(receiver.requests)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500),
        Reply(404),
        Reply(410),
        Reply(301, {"location": "/elsewhere"}),
        Reply(307, {"location": "http://127.0.0.1:1/"}),
        Reply(cut="before"),
    ],
    ids=lambda reply: f"{reply.status}{reply.cut}",
)
def test_what_fails_is_sent_again(
    log: Session, topic: str, receiver: Receiver, push: Any, reply: Reply
) -> None:
    """The same batch under the same name, though more has been published; nothing is followed."""
    log.publish_batch(topic=topic, payloads=[1, 2])

    def answer(_: Received) -> Reply:
        if len(receiver.requests) == 1:
            log_more()
        return reply if len(receiver.requests) <= 2 else Reply()

    def log_more() -> None:
        log.publish(topic=topic, payload=3)

    receiver.reply = answer
    push()
    committed(log, topic, 3)
    requests = receiver.requests
    assert [request.offsets for request in requests] == [[1, 2], [1, 2], [1, 2], [3]]
    names = [request.headers["webhook-id"] for request in requests]
    assert names[0] == names[1] == names[2] != names[3]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_commits(
    log: Session, topic: str, receiver: Receiver, push: Any, status: int
) -> None:
    log.publish(topic=topic, payload=1)
    receiver.reply = lambda _: Reply(status)
    push()
    committed(log, topic, 1)
    assert len(receiver.requests) == 1


def test_a_status_counts_though_its_body_is_cut(
    log: Session, topic: str, receiver: Receiver, push: Any
) -> None:
    log.publish(topic=topic, payload=1)
    receiver.script(Reply(500, cut="middle"), Reply(200, cut="middle"))
    push()
    committed(log, topic, 1)
    assert len(receiver.requests) == 2


@pytest.mark.parametrize("way", ["silent", "drip"])
def test_a_receiver_that_hangs(
    log: Session, topic: str, receiver: Receiver, push: Any, events: Any, way: str
) -> None:
    """The time is that of the whole request: an answer that never ends is none."""
    log.publish(topic=topic, payload=1)
    receiver.script(Reply(drip=True) if way == "drip" else Reply(after=receiver.released))
    push(timeout="200ms")
    committed(log, topic, 1)
    assert events("not accepted")[0]["error"] == "no answer within 0.2 s"


def test_a_receiver_that_dies_and_comes_back(
    log: Session, topic: str, receiver: Receiver, push: Any, events: Any
) -> None:
    push(max_messages=1)
    log.publish(topic=topic, payload=1)
    committed(log, topic, 1)
    receiver.die()
    log.publish(topic=topic, payload=2)
    assert events("not accepted")[0]["error"].startswith("no ")
    assert committed_offsets(log, topic, "readers") == [1]
    receiver.start()
    committed(log, topic, 2)
    assert first_deliveries(receiver.requests) == {0: [1, 2]}


def test_an_answer_of_the_database_is_lost(
    log: Session, topic: str, receiver: Receiver, push: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit has happened, and the worker does not know: nothing is sent again."""
    lost = lose_answer(monkeypatch, "commit")
    log.publish_batch(topic=topic, payloads=[1, 2, 3])
    push(max_messages=2)
    committed(log, topic, 3)
    assert lost
    assert [request.offsets for request in receiver.requests] == [[1, 2], [3]]


def test_a_topic_that_is_made_anew(
    log: Session, topic: str, receiver: Receiver, push: Any, events: Any
) -> None:
    """It has the same offsets as before, but other messages: they have another name."""
    push()
    log.publish(topic=topic, payload=1)
    committed(log, topic, 1)
    log.drop_topic(topic=topic)
    assert "unknown topic" in events("claim failed")[0]["reason"]
    log.create_topic(topic=topic, partitions=1)
    log.publish(topic=topic, payload=2)
    log.create_group(topic=topic, consumer_group="readers")
    committed(log, topic, 1)
    first, second = receiver.requests
    assert first.offsets == second.offsets == [1]
    assert first.headers["webhook-id"] != second.headers["webhook-id"]


def test_the_group_is_created_as_wanted(
    log: Session, receiver: Receiver, push: Any, events: Any
) -> None:
    topic = new_topic(log, messages=3, groups=())
    push(topic=topic, start="latest", out_of_range="skip")
    assert events("started") == [{"pushes": ["hook"]}]
    log.publish(topic=topic, payload=4)
    committed(log, topic, 4)
    assert [request.offsets for request in receiver.requests] == [[4]]
    (group,) = log.list_groups(topic=topic)
    assert group.out_of_range == "skip"


def test_a_group_whose_next_message_is_gone(
    connection: Session, dsn: str, clock: Clock, receiver: Receiver, run_push: Any, events: Any
) -> None:
    """Nothing is skipped in silence: the log says so until the group is moved; others go on."""
    topic = new_topic(connection, 4, messages=3)
    for partition in (0, 1, 3):
        connection.commit_offset(
            topic=topic, consumer_group="readers", partition=partition, committed_offset=3
        )
    connection.publish(topic=new_topic(connection, groups=()), payload=0)
    for move in ("3 days", "0", "8 days", "0"):
        clock.advance(move)
        connection.cleanup()
    for partition in range(4):
        connection.publish(topic=topic, payload=4, partition=partition)
    run_push(settings(topic, receiver.url), dsn)
    assert "partition 2 is out of range" in events("claim failed")[0]["reason"]
    wait_until(
        lambda: committed_offsets(connection, topic, "readers") == [4, 4, 0, 4],
        PATIENCE,
        "for the other partitions",
    )
    connection.seek(topic=topic, consumer_group="readers", partition=2, start="earliest")
    wait_until(
        lambda: committed_offsets(connection, topic, "readers") == [4] * 4,
        PATIENCE,
        "for the last one",
    )
    assert [request.offsets for request in receiver.requests] == [[4]] * 4


def test_a_partition_that_is_not_there(topic: str, push: Any) -> None:
    running = push(partitions=[0, 1])
    with pytest.raises(PushError, match=f'topic "{topic}" has no partition 1'):
        running.ended()
    running.error = None


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_obeyed(
    log: Session, topic: str, receiver: Receiver, push: Any, events: Any, form: str
) -> None:
    log.publish(topic=topic, payload=1)
    later = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=3600), usegmt=True)
    value = "3600" if form == "seconds" else later
    receiver.script(Reply(503, {"retry-after": value}), Reply(429, {"retry-after": "1"}))
    running = push(max_retry_after="300ms")
    committed(log, topic, 1)
    asked, shorter = [fact["pause"] for fact in events("not accepted")]
    assert (asked, shorter) == (0.3, 0.3)
    running.stop()
    receiver.script(Reply(503, {"retry-after": value}))
    log.publish(topic=topic, payload=2)
    push()
    wait_until(lambda: len(events("not accepted")) == 3, PATIENCE)
    assert 3500 < events("not accepted")[2]["pause"] <= 3600


def test_signatures(log: Session, topic: str, receiver: Receiver, push: Any) -> None:
    """Both keys sign during a rotation; a library of others verifies it."""
    log.publish(topic=topic, payload={"text": "grüße"})
    receiver.script(Reply(500))
    push(secrets=[NEW, OLD])
    first, second = receiver.wait_for(2)
    for request in (first, second):
        for secret in (NEW, OLD):
            assert Webhook(secret).verify(request.body, request.headers) == request.content
        with pytest.raises(WebhookVerificationError):
            Webhook(NEW).verify(request.body + b" ", request.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(NEW).verify(request.body, {**request.headers, "webhook-id": "msg_other"})
        other = "whsec_" + base64.b64encode(b"x" * 32).decode()
        with pytest.raises(WebhookVerificationError):
            Webhook(other).verify(request.body, request.headers)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_no_signature_without_a_secret(
    log: Session, topic: str, receiver: Receiver, push: Any
) -> None:
    log.publish(topic=topic, payload=1)
    push()
    (request,) = receiver.wait_for(1)
    assert "webhook-signature" not in request.headers
    assert request.headers["webhook-id"].startswith("msg_")


def test_partitions_are_sent_beside_each_other(log: Session, receiver: Receiver, push: Any) -> None:
    """One that hangs holds up itself alone; those that are not named are left alone."""
    topic = new_topic(log, 4, messages=3)

    def reply(request: Received) -> Reply:
        return Reply(after=receiver.released if request.partition == 2 else None)

    receiver.reply = reply
    push(topic=topic, max_messages=1, partitions=[0, 2, 3])
    wait_until(
        lambda: committed_offsets(log, topic, "readers") == [3, 0, 0, 3],
        PATIENCE,
        "for two partitions",
    )
    receiver.released.set()
    wait_until(
        lambda: committed_offsets(log, topic, "readers") == [3, 0, 3, 3],
        PATIENCE,
        "for the third",
    )
    assert first_deliveries(receiver.requests) == {p: [1, 2, 3] for p in (0, 2, 3)}


def test_nothing_secret_is_logged(
    log: Session,
    topic: str,
    receiver: Receiver,
    push: Any,
    caplog: pytest.LogCaptureFixture,
    events: Callable[[str], Any],
) -> None:
    caplog.set_level("DEBUG")
    log.publish(topic=topic, payload='"payload-that-is-private"', key="key-that-is-private")
    receiver.script(Reply(500))
    push(
        secrets=[NEW],
        headers={"Authorization": "Bearer token-that-is-private"},
        url=f"{receiver.url}?key=url-that-is-private",
    )
    events("accepted")
    committed(log, topic, 1)
    own = [record for record in caplog.records if record.name.startswith("pgq")]
    assert own
    written = "\n".join(f"{record.getMessage()} {vars(record)}" for record in own)
    assert "private" not in written
    assert NEW not in written
