"""Members of a group side by side: disjoint claims, leases, commits."""

from __future__ import annotations

import itertools
import random

import psycopg
import pytest

from support.clock import Clock
from support.log import committed_offsets, new_topic, offsets
from support.poison import new_pair
from support.session import Connect, Session
from support.waiting import PATIENCE, aside, blocked

READERS = {"consumer_group": "readers"}


# ---------------------------------------------------------------------------- disjoint


@pytest.mark.parametrize("function", ["claim_offsets", "consume", "poll"])
def test_two_members_never_get_the_same(
    shared_connect: Connect, log: Session, function: str
) -> None:
    """While one has its transaction open, the other one gets another partition, or nothing."""
    topic = new_topic(log, partitions=2, messages=3)
    one, two, three = shared_connect(), shared_connect(), shared_connect()
    first = getattr(one, function)(topic=topic, **READERS)
    second = getattr(two, function)(topic=topic, **READERS)
    assert {first[0].partition, second[0].partition} == {0, 1}
    assert getattr(three, function)(topic=topic, **READERS) == []
    three.commit()
    one.rollback()
    again = getattr(three, function)(topic=topic, **READERS)
    assert again[0].partition == first[0].partition
    assert len(again) == len(first)


def test_a_claim_of_a_named_partition_waits_its_turn(shared_connect: Connect, log: Session) -> None:
    """The second member goes on where the first one ends, or gets the range that it gave back."""
    topic = new_topic(log, messages=6)
    one, two = shared_connect(), shared_connect(autocommit=True)
    arguments = {"topic": topic, "max_messages": 2, "partition": 0, **READERS}
    assert one.claim_offsets(**arguments) == [(0, 1, 2)]
    waiting = blocked(log, two, lambda: two.claim_offsets(**arguments))
    one.commit()
    assert waiting.result(PATIENCE) == [(0, 3, 4)]
    assert one.claim_offsets(**arguments) == [(0, 5, 6)]
    waiting = blocked(log, two, lambda: two.claim_offsets(**arguments))
    one.rollback()
    assert waiting.result(PATIENCE) == [(0, 5, 6)]


def test_a_poll_of_a_named_partition_that_gets_leased(
    shared_connect: Connect, log: Session
) -> None:
    """Who waited for the member that leases the partition gets nothing."""
    topic = new_topic(log, messages=2)
    one, two = shared_connect(), shared_connect(autocommit=True)
    assert len(one.poll(topic=topic, **READERS)) == 2
    waiting = blocked(log, two, lambda: two.poll(topic=topic, partition=0, **READERS))
    one.commit()
    assert waiting.result(PATIENCE) == []


def test_groups_do_not_block_each_other(shared_connect: Connect, log: Session) -> None:
    """An open claim of one group holds nothing of another."""
    topic = new_topic(log, messages=2, groups=("a", "b"))
    one, two = shared_connect(), shared_connect()
    two.execute("set lock_timeout = '2s'")
    assert one.claim_offsets(topic=topic, consumer_group="a", partition=0) == [(0, 1, 2)]
    assert two.claim_offsets(topic=topic, consumer_group="b", partition=0) == [(0, 1, 2)]


def test_members_do_not_wait_for_publishers(shared_connect: Connect, log: Session) -> None:
    """A partition with an open publisher is read up to what is committed, and vice versa."""
    topic = new_topic(log, messages=2)
    publisher, member = shared_connect(), shared_connect()
    for session in (publisher, member):
        session.execute("set lock_timeout = '2s'")
    publisher.publish(topic=topic, payload=3)
    assert offsets(member.consume(topic=topic, **READERS)) == [1, 2]
    publisher.publish(topic=topic, payload=4)
    publisher.commit()
    assert offsets(member.consume(topic=topic, **READERS)) == [3, 4]


def shared(log: Session, *, counted: bool, messages: int) -> tuple[str, int]:
    """A topic and its partitions, which share so many messages.

    Where attempts are counted there are so many partitions that members seldom look at all.
    """
    if counted:
        return new_pair(log, partitions=20, messages=messages // 20, max_attempts=3)[0], 20
    return new_topic(log, partitions=3, messages=messages // 3), 3


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("function", ["claim_offsets", "consume"])
def test_many_members_share_the_work(
    shared_connect: Connect, log: Session, function: str, counted: bool
) -> None:
    """Six members, some of which roll back: every offset once, the ranges without a gap."""
    topic, partitions = shared(log, counted=counted, messages=600)

    def work(number: int) -> list[tuple[int, int, int]]:
        member, dice = shared_connect(), random.Random(number)
        mine = []
        while True:
            rows = getattr(member, function)(
                topic=topic, max_messages=dice.randint(1, 15), **READERS
            )
            if not rows:
                member.commit()
                if sum(committed_offsets(member, topic, "readers")) == 600:
                    return mine
                member.commit()
                continue
            if function == "consume":
                assert offsets(rows) == list(
                    range(rows[0].log_offset, rows[0].log_offset + len(rows))
                )
                taken = (rows[0].partition, rows[0].log_offset, rows[-1].log_offset)
            else:
                ((partition, first, last),) = rows
                taken = (partition, first, last)
            if dice.random() < 0.2:
                member.rollback()
            else:
                member.commit()
                mine.append(taken)

    members = [aside(lambda number=number: work(number)) for number in range(6)]
    ranges = sorted(itertools.chain(*(member.result(PATIENCE) for member in members)))
    for partition in range(partitions):
        own = [(first, last) for number, first, last in ranges if number == partition]
        assert own[0][0] == 1
        assert own[-1][1] == 600 // partitions
        assert all(last + 1 == first for (_, last), (first, _) in itertools.pairwise(own))


@pytest.mark.parametrize("counted", [False, True])
def test_many_polling_members_share_the_work(
    shared_connect: Connect, log: Session, counted: bool
) -> None:
    """Four members with leases and partial commits: every message once, in order."""
    topic, partitions = shared(log, counted=counted, messages=300)

    def work(number: int) -> list[tuple[int, int]]:
        member, dice = shared_connect(autocommit=True), random.Random(number)
        mine: list[tuple[int, int]] = []
        while sum(committed_offsets(member, topic, "readers")) < 300:
            rows = member.poll(topic=topic, max_messages=7, **READERS)
            if not rows:
                continue
            done = rows if dice.random() < 0.7 else rows[: dice.randint(1, len(rows))]
            held = {"partition": rows[0].partition, "lease_token": rows[0].lease_token}
            member.commit_offset(
                topic=topic, committed_offset=done[-1].log_offset, **held, **READERS
            )
            mine += [(row.partition, row.log_offset) for row in done]
            member.release_poll(topic=topic, **held, **READERS)
        return mine

    members = [aside(lambda number=number: work(number)) for number in range(4)]
    done = list(itertools.chain(*(member.result(PATIENCE) for member in members)))
    offsets_each = range(1, 300 // partitions + 1)
    assert sorted(done) == [(p, offset) for p in range(partitions) for offset in offsets_each]


# ---------------------------------------------------------------------------- leases and locks


def test_open_transactions_and_leases_are_skipped_alike(
    shared_connect: Connect, log: Session, shared_clock: Clock
) -> None:
    """Of three partitions one is claimed, one leased: the third is left; then what becomes free."""
    topic = new_topic(log, partitions=3, messages=1)
    claiming = shared_connect()
    claimed = claiming.claim_offsets(topic=topic, **READERS)[0].partition
    leased = log.poll(topic=topic, **READERS)[0].partition
    (third,) = log.claim_offsets(topic=topic, **READERS)
    assert {claimed, leased, third.partition} == {0, 1, 2}
    assert log.claim_offsets(topic=topic, **READERS) == []
    shared_clock.advance("31 seconds")
    assert log.claim_offsets(topic=topic, **READERS)[0].partition == leased
    claiming.rollback()
    assert log.claim_offsets(topic=topic, **READERS)[0].partition == claimed


def test_a_stale_commit_that_waited_for_the_takeover(
    shared_connect: Connect, log: Session, shared_clock: Clock
) -> None:
    """The old member commits just while another one takes its partition: it has lost the lease."""
    topic = new_topic(log, messages=2)
    stale = log.poll(topic=topic, **READERS)[0].lease_token
    shared_clock.advance("31 seconds")
    taker, late = shared_connect(), shared_connect(autocommit=True)
    token = taker.poll(topic=topic, **READERS)[0].lease_token
    arguments = {"topic": topic, "partition": 0, "committed_offset": 2, **READERS}
    waiting = blocked(log, late, lambda: late.commit_offset(lease_token=stale, **arguments))
    taker.commit()
    with pytest.raises(psycopg.Error) as caught:
        waiting.result(PATIENCE)
    assert caught.value.sqlstate == "MQ006"
    assert log.commit_offset(lease_token=token, **arguments) == 2


def test_a_stale_commit_whose_taker_gives_up(
    shared_connect: Connect, log: Session, shared_clock: Clock
) -> None:
    """When the takeover is rolled back, the late commit counts."""
    topic = new_topic(log, messages=2)
    stale = log.poll(topic=topic, **READERS)[0].lease_token
    shared_clock.advance("31 seconds")
    taker, late = shared_connect(), shared_connect(autocommit=True)
    taker.poll(topic=topic, **READERS)
    waiting = blocked(
        log,
        late,
        lambda: late.commit_offset(
            topic=topic, partition=0, committed_offset=2, lease_token=stale, **READERS
        ),
    )
    taker.rollback()
    assert waiting.result(PATIENCE) == 2


@pytest.mark.parametrize("function", ["extend_poll", "release_poll", "commit_offset"])
def test_a_seek_ends_a_lease_under_the_members_hands(
    shared_connect: Connect, log: Session, function: str
) -> None:
    """A member that calls while a seek is open waits, and then has no lease any more."""
    topic = new_topic(log, messages=3)
    token = log.poll(topic=topic, **READERS)[0].lease_token
    operator, member = shared_connect(), shared_connect(autocommit=True)
    operator.seek(topic=topic, partition=0, log_offset=2, **READERS)
    arguments = {"topic": topic, "partition": 0, "lease_token": token, **READERS}
    if function == "commit_offset":
        arguments["committed_offset"] = 3
    waiting = blocked(log, member, lambda: getattr(member, function)(**arguments))
    operator.commit()
    if function == "commit_offset":
        with pytest.raises(psycopg.Error) as caught:
            waiting.result(PATIENCE)
        assert caught.value.sqlstate == "MQ006"
    else:
        assert waiting.result(PATIENCE) is False
    assert committed_offsets(log, topic, "readers") == [1]


# ---------------------------------------------------------------------------- commits


def test_racing_first_commits(shared_connect: Connect, log: Session) -> None:
    """Two members commit for the first time at once: both succeed, the higher one counts."""
    topic = new_topic(log, messages=5)
    arguments = {"topic": topic, "partition": 0, **READERS}
    for first, second in ((2, 4), (5, 3)):
        one, two = shared_connect(), shared_connect(autocommit=True)
        one.commit_offset(committed_offset=first, **arguments)
        waiting = blocked(
            log,
            two,
            lambda two=two, second=second: two.commit_offset(committed_offset=second, **arguments),
        )
        one.commit()
        assert waiting.result(PATIENCE) == max(first, second)
    assert committed_offsets(log, topic, "readers") == [5]


def test_racing_commits_end_at_the_highest(shared_connect: Connect, log: Session) -> None:
    """Many commits in any order never move a position back."""
    topic = new_topic(log, messages=100)

    def commit(number: int) -> list[int]:
        member, dice = shared_connect(autocommit=True), random.Random(number)
        return [
            member.commit_offset(
                topic=topic, partition=0, committed_offset=dice.randint(1, 100), **READERS
            )
            for _ in range(30)
        ]

    members = [aside(lambda number=number: commit(number)) for number in range(4)]
    answers = [member.result(PATIENCE) for member in members]
    assert all(own == sorted(own) for own in answers)
    assert committed_offsets(log, topic, "readers") == [max(own[-1] for own in answers)]


def test_seeks_of_all_partitions_do_not_deadlock(shared_connect: Connect, log: Session) -> None:
    """They take the partitions in one order."""
    topic = new_topic(log, partitions=4, messages=2)

    def move(start: str) -> None:
        member = shared_connect(autocommit=True)
        for _ in range(20):
            member.seek(topic=topic, start=start, **READERS)

    for mover in [aside(lambda start=start: move(start)) for start in ("earliest", "latest")]:
        mover.result(PATIENCE)
    assert set(committed_offsets(log, topic, "readers")) in ({0}, {2})
