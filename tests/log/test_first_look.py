"""Where a member looks: where its session begins, where it has just found something, everywhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plans.counting import Reader
from support.clock import Clock
from support.session import Session, row
from support.storage import actions

PARTITIONS = 16
MANY = 1024
LIMIT = {"max_attempts": 3, "dead_letter_topic": "dead"}


@pytest.fixture
def topic(connection: Session) -> Iterator[str]:
    """Of many partitions; sessions begin at partition 0, and time stands still."""
    connection.execute("set track_functions = 'pl'")
    begin_at(connection, 0)
    note_at(connection, 0)
    connection.create_topic(topic="dead", partitions=1)
    connection.create_topic(topic="t", partitions=PARTITIONS)
    connection.create_group(topic="t", consumer_group="g")
    with connection.transaction():
        yield "t"


def begin_at(session: Session, place: int) -> None:
    """Where on the ring all sessions begin."""
    session.execute(
        "create or replace function pgq._hash_position() returns integer language sql stable"
        f" as 'select {place}'"
    )


def note_at(session: Session, moment: int) -> None:
    """Which tenth of a second it is."""
    session.execute(
        "create or replace function pgq._found_in(group_id bigint) returns text language sql"
        f" volatile as $$ select concat_ws(' ', _found_in.group_id, {moment}) $$"
    )


def looks(session: Session) -> int:
    """How often this transaction has looked at all partitions."""
    return int(
        row(
            session,
            "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions"
            " where funcname = '_claim_any'",
        )[0]
    )


def looked_at(session: Session) -> int:
    """How many partitions this transaction has looked at beside others."""
    return int(
        row(
            session,
            "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions"
            " where funcname = '_newest'",
        )[0]
    )


def take(session: Session, way: str = "consume", topic: str = "t", group: str = "g") -> int:
    """One message; its partition."""
    [found] = session.call(way, topic=topic, consumer_group=group, max_messages=1)
    if way == "poll":
        session.commit_offset(
            topic=topic,
            consumer_group=group,
            partition=found.partition,
            committed_offset=found.log_offset,
            lease_token=found.lease_token,
        )
    return int(found.partition)


@pytest.mark.parametrize("way", ["consume", "claim_offsets", "poll"])
def test_all_partitions_are_looked_at_once(connection: Session, topic: str, way: str) -> None:
    """Not for each of the messages of one that is elsewhere."""
    connection.publish_batch(topic=topic, payloads=list(range(9)), partition=5)
    assert {take(connection, way) for _ in range(9)} == {5}
    assert looks(connection) == 1
    connection.publish(topic=topic, payload=9, partition=11)
    assert take(connection, way) == 11
    assert looks(connection) == 2


def test_it_counts_for_a_moment(connection: Session, topic: str) -> None:
    """Then all are looked at again, and the one comes that was read longest ago."""
    for partition in (5, 6):
        connection.publish_batch(topic=topic, payloads=[1, 2, 3, 4], partition=partition)
    first = take(connection)
    assert [take(connection) for _ in range(2)] == [first, first]
    note_at(connection, 1)
    assert [take(connection) for _ in range(2)] == [11 - first, 11 - first]
    note_at(connection, 2)
    assert take(connection) == first
    assert looks(connection) == 3


def test_where_a_session_begins_comes_first(connection: Session, topic: str) -> None:
    """A partition that was found does not keep it from others."""
    connection.publish_batch(topic=topic, payloads=[1, 2, 3], partition=5)
    assert take(connection) == 5
    connection.publish_batch(topic=topic, payloads=[1, 2, 3], partition=0)
    assert take(connection) == 0
    begin_at(connection, 5 * 1024 // PARTITIONS)
    assert take(connection) == 5
    assert looks(connection) == 1


def test_where_another_member_reads_the_place_that_was_found_comes_next(
    dsn: str, topic: str
) -> None:
    """A member that meets another one does not look at all partitions because of that."""
    with Session.connect(dsn) as member, Session.connect(dsn) as other:
        member.execute("set track_functions = 'pl'")
        member.publish_batch(topic=topic, payloads=[1, 2, 3], partition=5)
        assert take(member) == 5
        member.publish_batch(topic=topic, payloads=[1, 2, 3], partition=0)
        member.commit()
        assert take(other) == 0
        before = looks(member)
        assert [take(member), take(member)] == [5, 5]
        assert looks(member) == before


def test_it_says_nothing_about_other_groups(connection: Session, topic: str) -> None:
    """Nor about groups of other topics: else each would be read where the other is."""
    connection.create_group(topic=topic, consumer_group="other")
    connection.create_topic(topic="u", partitions=PARTITIONS)
    connection.create_group(topic="u", consumer_group="g")
    for number in range(2):
        connection.publish(topic=topic, payload=number, partition=5)
        connection.publish(topic="u", payload=number, partition=5)
    for number in range(2):
        for name, group in ((topic, "g"), (topic, "other"), ("u", "g")):
            assert take(connection, topic=name, group=group) == 5
        assert looks(connection) == 3 * number + 3


def test_where_the_usual_way_does_not_lead_nothing_is_noted(
    connection: Session, topic: str
) -> None:
    """Where attempts are counted in few partitions, or one is named, or offsets are given late."""
    connection.create_group(topic=topic, consumer_group="limited", **LIMIT)
    connection.create_topic(topic="later", partitions=PARTITIONS, deferred=True)
    connection.create_group(topic="later", consumer_group="g")
    connection.publish(topic=topic, payload=1, partition=5)
    connection.publish(topic="later", payload=1, partition=5)
    assert take(connection, group="limited") == 5
    assert take(connection, topic="later") == 5
    assert len(connection.consume(topic=topic, consumer_group="g", partition=5)) == 1
    assert row(connection, "select current_setting('pgq.found_in', true)") == (None,)


def test_nor_where_it_leads_to_an_older_segment(
    connection: Session, clock: Clock, topic: str
) -> None:
    """So a partition that is behind gets its turns."""
    connection.create_topic(topic="u", partitions=PARTITIONS, retention="1 day")
    connection.create_group(topic="u", consumer_group="g")
    connection.publish(topic="u", payload=1, partition=5)
    clock.advance("20 hours")
    assert "segment sealed" in actions(connection)
    connection.publish(topic="u", payload=2, partition=5)
    assert take(connection, topic="u") == 5
    assert row(connection, "select current_setting('pgq.found_in', true)") == (None,)
    assert take(connection, topic="u") == 5
    assert row(connection, "select current_setting('pgq.found_in', true)") != (None,)


def test_what_is_rolled_back_is_forgotten(connection: Session, topic: str) -> None:
    """With the position that it belongs to."""
    connection.publish(topic=topic, payload=1, partition=5)
    with connection.transaction(force_rollback=True):
        assert take(connection) == 5
    assert row(connection, "select nullif(current_setting('pgq.found_in'), '')") == (None,)
    assert take(connection) == 5
    assert looks(connection) == 2


def test_a_place_that_is_gone(connection: Session, topic: str) -> None:
    """All messages are found whatever the session thinks."""
    connection.publish(topic=topic, payload=1, partition=5)
    assert take(connection) == 5
    for nonsense in (-1, 0, 1023, 5000):
        connection.execute("select set_config('pgq.found_at', %s, false)", [str(nonsense)])
        connection.publish(topic=topic, payload=1, partition=5)
        assert take(connection) == 5


@pytest.fixture
def wide(connection: Session, topic: str) -> str:
    """Of very many partitions, with a group that counts attempts."""
    connection.create_topic(topic="wide", partitions=MANY)
    connection.create_group(topic="wide", consumer_group="g", **LIMIT)
    connection.execute("select setseed(0.5)")
    return "wide"


@pytest.mark.parametrize("way", ["consume", "claim_offsets", "poll"])
def test_where_attempts_are_counted_few_claims_look_at_all_partitions(
    connection: Session, wide: str, way: str
) -> None:
    """One in 64 of 1,024, with or without something to read where the session begins."""
    for partition in (0, 5):
        connection.publish_batch(topic=wide, payloads=list(range(800)), partition=partition)
        found = [take(connection, way, wide) for _ in range(800)]
        assert found.count(partition) > 700
    assert 6 * MANY <= looked_at(connection) <= 60 * MANY


def test_where_attempts_are_counted_a_slow_member_looks_at_all_partitions(
    connection: Session, wide: str
) -> None:
    """It takes them in turns, as what was found counts for a moment only."""
    for partition in (0, 5):
        connection.publish_batch(topic=wide, payloads=list(range(20)), partition=partition)
    found = []
    for moment in range(40):
        note_at(connection, moment)
        found.append(take(connection, topic=wide))
    assert found in ([0, 5] * 20, [5, 0] * 20)


def test_what_is_found_near_is_not_noted(connection: Session, wide: str) -> None:
    """The place that was found by a look at all stays the next one."""
    connection.publish_batch(topic=wide, payloads=list(range(200)), partition=500)
    assert take(connection, topic=wide) == 500
    for _ in range(50):
        connection.publish(topic=wide, payload=1, partition=0)
        assert {take(connection, topic=wide), take(connection, topic=wide)} == {0, 500}
    assert looked_at(connection) < 20 * MANY


def test_a_long_journal_is_not_read(dsn: str, topic: str) -> None:
    """What a claim reads does not depend on how many there were since the last cleanup."""
    reader = Reader(dsn)
    reader.call("create_topic", topic="wide", partitions=64)
    reader.call("create_group", topic="wide", consumer_group="g", **LIMIT)
    reader.run(
        "select pgq.publish_batch('wide', array_fill('1'::jsonb, array[3000]), partition => 0)", {}
    )
    for _ in range(3):
        reader.run(
            "select count(*) from generate_series(1, 900) as n,"
            " pgq.consume('wide', 'g', least(n, 1))",
            {},
        )
        fewest = min(
            reader.last.entries
            for _ in range(20)
            if reader.call("consume", topic="wide", consumer_group="g", max_messages=1)
        )
        assert fewest < 100
    reader.close()


def test_of_few_partitions_all_are_looked_at(connection: Session, topic: str) -> None:
    """In turns, so that what has failed comes again at once."""
    connection.create_group(topic=topic, consumer_group="limited", **LIMIT)
    for partition in (0, 5):
        connection.publish_batch(topic=topic, payloads=[1, 2, 3], partition=partition)
    found = [take(connection, group="limited") for _ in range(6)]
    assert sorted(found[:2]) == sorted(found[2:4]) == sorted(found[4:]) == [0, 5]


def test_what_has_failed_comes_again_beside_a_busy_partition(
    connection: Session, wide: str
) -> None:
    """Though the session begins at another one, where there always is something to read."""
    connection.publish(topic=wide, payload=1, partition=5)
    [failed] = connection.poll(topic=wide, consumer_group="g")
    connection.nack_offsets(
        topic=wide, consumer_group="g", partition=5, lease_token=failed.lease_token
    )
    connection.publish_batch(topic=wide, payloads=list(range(2000)), partition=0)
    found = [take(connection, "consume", wide) for _ in range(600)]
    assert found.count(5) == 1
    assert found.count(0) == 599


def test_attempts_are_counted_where_only_one_partition_is_looked_at(
    connection: Session, wide: str
) -> None:
    """The first attempt, and those of what has failed there."""
    connection.create_group(topic="dead", consumer_group="g")
    connection.publish(topic=wide, payload=1, partition=0)
    for attempt in range(1, 4):
        [tried] = connection.poll(topic=wide, consumer_group="g")
        assert tried.attempt == attempt
        connection.nack_offsets(
            topic=wide, consumer_group="g", partition=0, lease_token=tried.lease_token
        )
    assert connection.poll(topic=wide, consumer_group="g") == []
    assert len(connection.consume(topic="dead", consumer_group="g")) == 1


def test_members_of_a_group_that_counts_attempts_pass_by_each_other(dsn: str, topic: str) -> None:
    """Who finds that another one has the partition where it looks does not wait for it."""
    with Session.connect(dsn) as member, Session.connect(dsn) as other:
        member.execute("set track_functions = 'pl'")
        member.execute("select setseed(0.5)")
        member.create_topic(topic="wide", partitions=MANY)
        member.create_group(topic="wide", consumer_group="g", **LIMIT)
        member.publish_batch(topic="wide", payloads=list(range(200)), partition=5)
        assert take(member, topic="wide") == 5
        member.publish_batch(topic="wide", payloads=[1, 2], partition=0)
        member.commit()
        assert take(other, topic="wide") == 0
        before = looked_at(member)
        assert {take(member, topic="wide") for _ in range(100)} == {5}
        assert looked_at(member) - before < 20 * MANY
