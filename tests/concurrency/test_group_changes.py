"""Making, altering and dropping a group beside its members, and beside changes of its topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from log_support import (
    PATIENCE,
    Log,
    blocked,
    committed_offsets,
    new_topic,
    offsets,
)

OpenLog = Callable[..., Log]
READERS = {"consumer_group": "readers"}


def test_create_group_while_partitions_are_added(open_log: OpenLog, log: Log) -> None:
    """Whichever comes first, the group has a position in every partition."""
    topic = new_topic(log, groups=())
    one, two = open_log(), open_log(autocommit=True)
    one.alter_topic(topic=topic, partitions=3)
    waiting = blocked(log, two, lambda: two.create_group(topic=topic, consumer_group="g"))
    one.commit()
    waiting.result(PATIENCE)
    one.create_group(topic=topic, consumer_group="h")
    waiting = blocked(log, two, lambda: two.alter_topic(topic=topic, partitions=5))
    one.commit()
    waiting.result(PATIENCE)
    assert [len(committed_offsets(log, topic, group)) for group in "gh"] == [5, 5]


def test_a_group_from_the_latest_reads_what_was_open(open_log: OpenLog, log: Log) -> None:
    """What a publisher had not committed when the group was made comes after its start."""
    topic = new_topic(log, messages=2, groups=())
    publisher = open_log()
    publisher.publish(topic=topic, payload=3)
    log.create_group(topic=topic, consumer_group="g", start="latest")
    publisher.commit()
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [3]


@pytest.mark.parametrize("function", ["drop_group", "drop_topic"])
def test_dropping_waits_for_a_member(open_log: OpenLog, log: Log, function: str) -> None:
    """The member ends its transaction first; no position is left behind."""
    topic = new_topic(log, messages=2)
    (group_id,) = log.execute(
        "select group_id from pgq.consumer_group join pgq.topic using (topic_id) where topic = %s",
        [topic],
    ).fetchall()[0]
    member, dropper, late = open_log(), open_log(autocommit=True), open_log(autocommit=True)
    assert offsets(member.consume(topic=topic, max_messages=1, **READERS)) == [1]
    names = {"topic": topic, **READERS} if function == "drop_group" else {"topic": topic}
    waiting = blocked(log, dropper, lambda: getattr(dropper, function)(**names))
    # who comes now waits as well, and then finds nothing
    claiming = blocked(log, late, lambda: late.consume(topic=topic, partition=0, **READERS))
    assert offsets(member.consume(topic=topic, max_messages=1, **READERS)) == [2]
    member.commit()
    waiting.result(PATIENCE)
    with pytest.raises(psycopg.Error) as caught:
        claiming.result(PATIENCE)
    assert caught.value.sqlstate == ("MQ003" if function == "drop_group" else "MQ001")
    left = log.execute(
        "select count(*) from pgq.group_position where group_id = %s", [group_id]
    ).fetchone()
    assert left == (0,)


@pytest.mark.parametrize("function", ["commit_offset", "seek", "claim_offsets", "release_poll"])
def test_a_member_that_waited_while_its_group_was_made_anew(
    open_log: OpenLog, log: Log, function: str
) -> None:
    """A group is dropped and made again in one transaction: who waited works with the new one."""
    topic = new_topic(log, messages=5)
    token = log.poll(topic=topic, **READERS)[0].lease_token
    renewer, member = open_log(), open_log(autocommit=True)
    renewer.drop_group(topic=topic, **READERS)
    renewer.create_group(topic=topic, **READERS)
    options: dict[str, Any] = {
        "commit_offset": {"last_offset": 2},
        "seek": {"start": "latest"},
        "claim_offsets": {"max_messages": 3},
        "release_poll": {"lease_token": token},
    }[function]
    waiting = blocked(
        log,
        member,
        lambda: getattr(member, function)(topic=topic, partition=0, **READERS, **options),
    )
    renewer.commit()
    result = waiting.result(PATIENCE)
    expected = {
        "commit_offset": (2, 2),
        "seek": ([(0, 6)], 5),
        "claim_offsets": ([(0, 1, 3)], 3),
        "release_poll": (False, 0),
    }
    assert (result, committed_offsets(log, topic, "readers")[0]) == expected[function]
