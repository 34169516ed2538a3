"""drop_group: a group goes, its topic and the others stay."""

from __future__ import annotations

from support.log import committed_offsets, new_topic, offsets
from support.session import Session, contents, refused, unchanged


def test_it_is_gone_and_a_new_one_starts_anew(log: Session) -> None:
    """Afterwards it is unknown; one of the same name begins before the first message."""
    topic = new_topic(log, messages=2, groups=("g", "other"))
    log.consume(topic=topic, consumer_group="g")
    log.consume(topic=topic, consumer_group="other", max_messages=1)
    log.drop_group(topic=topic, consumer_group="g")
    refused("MQ003", log.consume, topic=topic, consumer_group="g")
    assert committed_offsets(log, topic, "g") == []
    log.create_group(topic=topic, consumer_group="g")
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [1, 2]
    assert committed_offsets(log, topic, "other") == [1]


def test_a_lease_goes_with_it(log: Session) -> None:
    """The token of a dropped group is of no use in a new one of the same name."""
    topic = new_topic(log, messages=2)
    token = log.poll(topic=topic, consumer_group="readers")[0].lease_token
    log.drop_group(topic=topic, consumer_group="readers")
    log.create_group(topic=topic, consumer_group="readers")
    arguments = {"topic": topic, "consumer_group": "readers", "partition": 0}
    refused("MQ006", log.commit_offset, committed_offset=2, lease_token=token, **arguments)
    assert len(log.poll(topic=topic, consumer_group="readers")) == 2


def test_twice_in_one_transaction(log: Session) -> None:
    """Made and dropped twice in one transaction; no row of it is left."""
    topic = new_topic(log, partitions=3, groups=())
    before = {table: rows for table, (rows, _) in contents(log).items()}
    with log.transaction():
        for _ in range(2):
            log.create_group(topic=topic, consumer_group="g")
            log.drop_group(topic=topic, consumer_group="g")
    assert {table: rows for table, (rows, _) in contents(log).items()} == before


def test_refusals(log: Session) -> None:
    """Unknown group, unknown topic, null: an error; dropping twice is one too."""
    topic, other = new_topic(log), new_topic(log, groups=("elsewhere",))
    with unchanged(log):
        refused("MQ003", log.drop_group, topic=topic, consumer_group="elsewhere")
        refused("MQ003", log.drop_group, topic=other, consumer_group="it's")
        refused("MQ001", log.drop_group, topic="no-such-topic", consumer_group="readers")
        refused("22004", log.drop_group, topic=None, consumer_group="readers")
        refused("22004", log.drop_group, topic=topic, consumer_group=None)
    log.drop_group(topic=topic, consumer_group="readers")
    refused("MQ003", log.drop_group, topic=topic, consumer_group="readers")
