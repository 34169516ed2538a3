"""The consumer group that shows where a stream stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import sql

from support.away import read_only
from support.log import committed_offsets, new_topic
from support.session import Connect, Session, new_name
from support.stream import Stream
from support.waiting import aside, wait_until, wait_until_blocked

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]
GROUP = "readers"


def lags(own: Session, topic: str) -> list[int]:
    """The lag of the group in each partition."""
    rows = own.execute(
        "select lag from pgq.group_lag where topic = %s and consumer_group = %s order by partition",
        [topic, GROUP],
    )
    return [row[0] for row in rows]


# ---------------------------------------------------------------------------- with Spark


@pytest.mark.slow
@pytest.mark.parametrize("source", ["pgq", "pgq_plain"])
def test_the_lag_of_a_stream(stream: Stream, plain: str, own: Session, source: str) -> None:
    """None once it has read all; what is not done yet is lag."""
    stream.source = source
    topic = new_topic(own, partitions=2, messages=3)
    during: list[list[int]] = []
    stream.before_commit = lambda batch_id: during.append(lags(own, topic))
    query = stream.start(
        topic, available_now=False, startingOffsets="earliest", consumerGroup=GROUP
    )
    query.processAllAvailable()
    wait_until(lambda: lags(own, topic) == [0, 0], what="for the group to follow")
    own.publish_batch(topic=topic, payloads=[4, 5], partition=1)
    query.processAllAvailable()
    wait_until(lambda: lags(own, topic) == [0, 0], what="for the group to follow")
    query.stop()
    assert during == [[3, 3], [0, 2]]


@pytest.mark.slow
def test_the_checkpoint_decides(stream: Stream, own: Session) -> None:
    """Wherever the group was moved; one that was moved back catches up."""
    topic = new_topic(own, messages=3)
    own.seek(topic=topic, consumer_group=GROUP, start="latest")
    assert stream.run(topic, startingOffsets="earliest", consumerGroup=GROUP) == [
        [(0, 1), (0, 2), (0, 3)]
    ]
    own.publish(topic=topic, payload=4)
    own.seek(topic=topic, consumer_group=GROUP, start="earliest")

    def fail(batch_id: int) -> None:
        raise RuntimeError("pgq: not this time")

    stream.before_commit = fail
    assert "not this time" in stream.fail(topic, consumerGroup=GROUP)
    assert committed_offsets(own, topic, GROUP) == [3]
    own.seek(topic=topic, consumer_group=GROUP, start="latest")
    stream.before_commit = lambda batch_id: None
    assert stream.run(topic, consumerGroup=GROUP)[1:] == [[(0, 4)]]


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["right", "group"])
def test_it_fails_at_the_start(stream: Stream, own: Session, missing: str) -> None:
    """With one error that says what is missing, and before anything is read."""
    topic = new_topic(own, messages=1, groups=(GROUP,) if missing == "right" else ())
    role = new_name("reader")
    own.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
    own.execute(
        sql.SQL(
            "grant usage on schema pgq to {0};"
            " grant execute on function pgq.list_offsets, pgq.check_range, pgq.fetch_packed to {0}"
        ).format(sql.Identifier(role))
    )
    user = {"user": role} if missing == "right" else {}
    said = {
        "right": "permission denied for function commit_offset",
        "group": f'unknown consumer group "{GROUP}"',
    }
    try:
        text = stream.fail(topic, startingOffsets="earliest", consumerGroup=GROUP, **user)
    finally:
        own.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(role)))
    place = f"'consumerGroup' is '{GROUP}', which cannot be moved in topic '{topic}'"
    assert text.count(f"ValueError: {place}: {said[missing]}") == 1
    assert stream.batches() == []


# ---------------------------------------------------------------------------- the reader alone


class Reader:
    """The reader of a stream, asked as Spark asks it."""

    def __init__(self, options: dict[str, str]) -> None:
        from pgq.spark._options import parse_options
        from pgq.spark._source import _PlainStreamReader

        self._reader = _PlainStreamReader(parse_options(options))
        self._at = self._reader.initialOffset()

    def ask(self) -> dict[str, Any]:
        """Say that the batch before is done, and plan the next one."""
        end = self._reader.latestOffset()
        if end != self._at:
            self._reader.partitions(self._at, end)
            self._at = end
        return end

    def close(self) -> None:
        self._reader.stop()


@pytest.fixture
def reader(location: Location) -> Iterator[Callable[..., Reader]]:
    """Make a reader with these options."""
    url, properties = location
    made = []

    def make(**options: str) -> Reader:
        place = {"url": url, **properties, "startingOffsets": "earliest", "consumerGroup": GROUP}
        made.append(Reader({**place, **options}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_it_is_never_moved_back(
    own: Session, reader: Callable[..., Reader], caplog: pytest.LogCaptureFixture
) -> None:
    """A group that is ahead stays, which is told once; then it is followed."""
    topic = new_topic(own, messages=4)
    own.seek(topic=topic, consumer_group=GROUP, partition=0, log_offset=4)
    one = reader(topic=topic, startingOffsets=json.dumps({topic: {"0": 2}}))
    for _ in range(2):
        one.ask()
    assert committed_offsets(own, topic, GROUP) == [4]
    own.publish(topic=topic, payload=5)
    one.ask()
    one.ask()
    assert committed_offsets(own, topic, GROUP) == [5]
    assert caplog.text.count("is ahead of the stream") == 1


def test_a_group_that_another_member_has_leased(
    own: Session, reader: Callable[..., Reader], caplog: pytest.LogCaptureFixture
) -> None:
    """The position is left to the member, which is told once; then it is followed again."""
    topic = new_topic(own, messages=2)
    one = reader(topic=topic)
    one.ask()
    (held,) = own.poll(topic=topic, consumer_group=GROUP, max_messages=1)
    for _ in range(3):
        one.ask()
    assert committed_offsets(own, topic, GROUP) == [0]
    assert caplog.text.count("is not leased to this member") == 1
    own.release_poll(topic=topic, consumer_group=GROUP, partition=0, lease_token=held.lease_token)
    own.publish(topic=topic, payload=3)
    one.ask()
    one.ask()
    assert committed_offsets(own, topic, GROUP) == [3]


def test_a_group_that_is_locked(
    own: Session,
    connect: Connect,
    reader: Callable[..., Reader],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step of another consumer does not stop the stream, which tries again after a while.

    With another position at once.
    """
    from pgq.spark import _group

    topic = new_topic(own, messages=2)
    one = reader(topic=topic)
    one.ask()

    def ask_beside_a_step() -> None:
        with connect() as other:
            other.claim_offsets(topic=topic, consumer_group=GROUP, max_messages=1)
            one.ask()
            other.rollback()

    ask_beside_a_step()
    assert "lock timeout" in caplog.text
    one.ask()
    assert committed_offsets(own, topic, GROUP) == [0]
    own.publish(topic=topic, payload=3)
    one.ask()
    one.ask()
    assert committed_offsets(own, topic, GROUP) == [3]
    own.publish(topic=topic, payload=4)
    one.ask()
    monkeypatch.setattr(_group, "_PAUSE", 0.0)
    ask_beside_a_step()
    assert committed_offsets(own, topic, GROUP) == [3]
    one.ask()
    assert committed_offsets(own, topic, GROUP) == [4]


@pytest.mark.parametrize("patience", ["0s", "60s"])
def test_the_server_is_lost_while_it_is_told(
    own: Session,
    connect: Connect,
    reader: Callable[..., Reader],
    caplog: pytest.LogCaptureFixture,
    patience: str,
) -> None:
    """The stream goes on, and the next time it is told."""
    topic = new_topic(own, messages=2)
    one = reader(topic=topic, retryTimeout=patience, ApplicationName="to be lost")
    one.ask()
    (pid,) = own.execute(
        "select pid from pg_stat_activity where application_name = 'to be lost'"
        " and datname = current_database()"
    ).fetchone()
    own.publish(topic=topic, payload=3)
    with connect() as other:
        other.claim_offsets(topic=topic, consumer_group=GROUP, max_messages=1)
        asked = aside(one.ask)
        wait_until_blocked(own, pid)
        own.execute("select pg_terminate_backend(%s)", [pid])
        other.rollback()
    assert asked.result(30)[topic] == {"0": 4}
    assert committed_offsets(own, topic, GROUP) == [0 if patience == "0s" else 2]
    assert "was not moved" in caplog.text or patience == "60s"
    one.ask()
    assert committed_offsets(own, topic, GROUP) == [3]


def test_a_topic_that_comes_later(
    own: Session, reader: Callable[..., Reader], caplog: pytest.LogCaptureFixture
) -> None:
    """Without the group, which is told once: the others are followed, and it is, once it has it."""
    first = new_topic(own, messages=1)
    one = reader(subscribePattern="topic-.*")
    one.ask()
    second = new_topic(own, messages=1, groups=())
    for payload in range(2, 5):
        one.ask()
        own.publish(topic=first, payload=payload)
        own.publish(topic=second, payload=payload)
    one.ask()
    assert committed_offsets(own, first, GROUP) == [3]
    assert caplog.text.count(f"topic '{second}' was not moved: unknown consumer group") == 1
    # a run that starts then is not refused
    reader(subscribePattern="topic-.*").ask()
    own.create_group(topic=second, consumer_group=GROUP)
    one.ask()
    assert committed_offsets(own, second, GROUP) == [4]


def test_a_pattern_whose_topics_have_no_such_group(
    own: Session, reader: Callable[..., Reader]
) -> None:
    new_topic(own, messages=1)
    new_topic(own, messages=1)
    with pytest.raises(
        ValueError, match=r"'consumerGroup' is 'raeders', .*: unknown consumer group"
    ):
        reader(subscribePattern="topic-.*", consumerGroup="raeders").ask()


def test_a_server_that_only_reads(own: Session, reader: Callable[..., Reader]) -> None:
    """As a standby does."""
    topic = new_topic(own, messages=1)
    with (
        read_only(own, "nobody"),
        pytest.raises(ValueError, match=r"'consumerGroup' is .*: .* in a read-only transaction"),
    ):
        reader(topic=topic).ask()


def test_a_topic_that_was_created_again(own: Session, reader: Callable[..., Reader]) -> None:
    """Its group is not moved to offsets of the topic before."""
    topic = new_topic(own, messages=3)
    one = reader(topic=topic, failOnDataLoss="false")
    one.ask()
    own.drop_topic(topic=topic)
    own.create_topic(topic=topic)
    own.create_group(topic=topic, consumer_group=GROUP)
    own.publish_batch(topic=topic, payloads=[1, 2, 3, 4], partition=0)
    one.ask()
    assert committed_offsets(own, topic, GROUP)[0] == 0
    one.ask()
    assert committed_offsets(own, topic, GROUP)[0] == 4
