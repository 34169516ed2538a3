"""list_topics: all topics and their settings."""

from __future__ import annotations

from support.session import Session, new_name


def test_by_name(log: Session) -> None:
    """Every topic stands there once, ordered by name, as create_topic and alter_topic gave it."""
    names = [new_name("list-b"), new_name("list-a")]
    made = [log.create_topic(topic=name, partitions=2) for name in names]
    made[0] = log.alter_topic(topic=names[0], notify=True)
    rows = log.list_topics()
    assert [row for row in rows if row in made] == sorted(made)
    assert len({row.topic for row in rows}) == len(rows)


def test_twice_in_one_transaction(log: Session) -> None:
    """It sees what its own transaction did."""
    with log.transaction():
        before = log.list_topics()
        made = log.create_topic(topic=new_name("topic"))
        assert {*log.list_topics()} == {*before, made}
        log.drop_topic(topic=made.topic)
        assert log.list_topics() == before
