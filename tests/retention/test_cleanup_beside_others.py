"""What keeps cleanup from one thing must not keep it from the others, nor for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.clock import Clock
from support.queue import claim_one, enqueue, new_queue
from support.session import Connect, Session, new_name
from support.storage import actions, clean
from support.waiting import PATIENCE, blocked


@pytest.fixture
def log(connection: Session) -> Session:
    """The log in the database of this folder."""
    return connection


def class_of(log: Session, hours: int) -> str:
    """A topic with one message, and a group, in the class of this retention."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=1, retention=f"{hours} hours")
    log.create_group(topic=topic, consumer_group="readers")
    log.publish(topic=topic, payload=1)
    return topic


def states(log: Session, hours: int) -> list[str]:
    """The states of the segments of a class."""
    rows = log.execute(
        "select s.state from pgq.segment as s inner join pgq.storage_class as c"
        " using (storage_class_id) where c.retention = make_interval(hours => %s)"
        " order by s.opened_at, s.state",
        [hours],
    ).fetchall()
    return [state for (state,) in rows]


def first_offset(log: Session, topic: str) -> int:
    [place] = log.list_offsets(topic=topic)
    return int(place.first_offset)


# ----------------------------------------------------------------- transactions that have an id


@pytest.mark.parametrize("when", ["always", "since the sealing"])
def test_cleanup_in_transactions_that_have_written(
    connect: Connect, log: Session, clock: Clock, when: str
) -> None:
    """A program that notes each run beside it gets its segments closed and emptied as well."""
    class_of(log, 9)
    log.execute("create table if not exists public.runs (done text)")
    session = connect()

    def run() -> list[str]:
        session.execute("insert into public.runs values ('begun')")
        done = actions(session)
        session.commit()
        return done

    clock.advance("4 hours")
    assert "segment sealed" in (run() if when == "always" else actions(log))
    done = [action for _ in range(4) for action in run()]
    assert "segment closed" in done
    clock.advance("10 hours")
    assert "segment truncated" in [action for _ in range(4) for action in run()]


def test_a_transaction_that_has_written_waits_for_those_at_work(
    connect: Connect, log: Session, clock: Clock
) -> None:
    """It does not close a segment that a job is just being written to."""
    queue = new_queue(log, job_ttl="9 hours", retention="9 hours")
    enqueue(log, queue, "first")
    slow, session = connect(), connect()
    enqueue(slow, queue, "slow")
    clock.advance("4 hours")
    for _ in range(4):
        session.execute("select pg_current_xact_id()")
        assert "segment closed" not in actions(session)
        session.commit()
    slow.commit()
    clock.advance("8 hours")
    for _ in range(4):
        session.execute("select pg_current_xact_id()")
        actions(session)
        session.commit()
    [(leaves, kept)] = log.execute(
        "select count(distinct m.segment), count(*) from pgq.message as m"
        " inner join pgq.segment as s using (segment) where m.partition_id > 0"
    ).fetchall()
    assert (leaves, kept) == (1, 2)


def test_another_cleanup_is_not_waited_for(connect: Connect, log: Session, clock: Clock) -> None:
    """A sealed segment that the first one is closing is left to it by the second."""
    class_of(log, 9)
    clock.advance("4 hours")
    assert "segment sealed" in actions(log)
    first = connect()
    assert "segment closed" in actions(first)
    assert [target for action, target, _ in log.cleanup() if action == "busy"] == []
    first.rollback()
    assert "segment closed" in actions(log)


# ------------------------------------------------------------------------------------ busy classes


def _group(session: Session, topic: str) -> None:
    """Holds the topic."""
    session.create_group(topic=topic, consumer_group="new")


def _settings(session: Session, topic: str) -> None:
    """Holds the topic more strongly."""
    session.alter_topic(topic=topic, notify=True)


def _topic(session: Session, topic: str) -> None:
    """Holds the class."""
    session.create_topic(topic=new_name("topic"), retention="9 hours")


def _class(session: Session, topic: str) -> None:
    """Holds whatever it takes to open a segment."""
    session.create_topic(topic=new_name("topic"), retention="77 days")


def _queue(session: Session, topic: str) -> None:
    """Holds the class."""
    session.create_queue(queue=new_name("topic"), retention="9 hours")


@pytest.mark.parametrize("hold", [_group, _settings, _topic, _class, _queue])
def test_others_are_sealed_beside_a_class_that_is_busy(
    connect: Connect, log: Session, clock: Clock, hold: Callable[[Session, str], None]
) -> None:
    """What cannot go on now is left out, what comes before and after it is done."""
    busy = class_of(log, 9)
    for hours in (6, 12):
        class_of(log, hours)
    hold(connect(), busy)
    clock.advance("5 hours")
    for _ in range(3):
        actions(log)
    for hours in (6, 12):
        assert "open" in states(log, hours)
        assert len(states(log, hours)) == 2


def test_the_busy_class_follows_later(connect: Connect, log: Session, clock: Clock) -> None:
    busy = class_of(log, 9)
    session = connect()
    _group(session, busy)
    clock.advance("5 hours")
    actions(log)
    session.commit()
    clean(log)
    assert states(log, 9) == ["closed", "open"]


@pytest.mark.parametrize("readers", ["6", "9", "12", "6 9"])
def test_others_are_emptied_beside_a_leaf_that_is_read(
    connect: Connect, log: Session, clock: Clock, readers: str
) -> None:
    """An open transaction has read messages of one class, or of two; the others go."""
    topics = {hours: class_of(log, hours) for hours in (6, 9, 12)}
    clock.advance("5 hours")
    clean(log)
    clock.advance("20 hours")
    session = connect()
    read = [int(hours) for hours in readers.split()]
    for hours in read:
        assert session.fetch_range(topic=topics[hours], partition=0, first_offset=1, last_offset=1)
    assert "segment busy" in [action for _ in range(3) for action in actions(log)]
    for hours, topic in topics.items():
        assert first_offset(log, topic) == (1 if hours in read else 2)
    session.rollback()
    clean(log)
    assert [first_offset(log, topic) for topic in topics.values()] == [2, 2, 2]


def test_others_are_emptied_beside_jobs_that_are_being_finished(
    connect: Connect, log: Session, clock: Clock
) -> None:
    """A worker's open transaction holds a job whose payload is to be carried."""
    queue = new_queue(log, job_ttl="6 hours", retention="6 hours", lease="90 hours")
    enqueue(log, queue, 1)
    job = claim_one(log, queue)
    others = [class_of(log, hours) for hours in (9, 12)]
    clock.advance("5 hours")
    clean(log)
    clock.advance("20 hours")
    session = connect()
    assert session.ack(job_id=job.job_id, lease_token=job.lease_token)
    for _ in range(3):
        actions(log)
    assert [first_offset(log, topic) for topic in others] == [2, 2]


# ---------------------------------------------------------------------------- a clock that jumped


@pytest.mark.parametrize("stored", ["before", "during", "after"])
def test_sealing_goes_on_after_the_clock_has_jumped(
    log: Session, clock: Clock, stored: str
) -> None:
    """Ahead by a month and back: the segment in use since then is sealed when it is old enough."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=1, retention="9 hours")
    if stored == "before":
        log.publish(topic=topic, payload=1)
    clock.advance("30 days")
    if stored == "during":
        log.publish(topic=topic, payload=1)
    for _ in range(3):
        actions(log)
    clock.advance("-30 days")
    log.publish(topic=topic, payload=2)
    done = []
    for _ in range(4):
        clean(log)
        clock.advance("2 hours")
        done += clean(log)
    assert "segment sealed" in done
    if stored == "after":
        clock.advance("10 hours")
        clean(log)
        assert first_offset(log, topic) == 2


def test_what_was_closed_in_the_future_goes_in_time(log: Session, clock: Clock) -> None:
    """A segment is sealed, then closed while the clock is a month ahead."""
    topic = class_of(log, 9)
    clock.advance("4 hours")
    assert "segment sealed" in actions(log)
    clock.advance("30 days")
    actions(log)
    clock.advance("-30 days")
    for _ in range(4):
        clean(log)
        clock.advance("6 hours")
    clean(log)
    assert first_offset(log, topic) == 2


# ---------------------------------------------------------------------------- another cleanup


def test_two_that_trim_one_journal(connect: Connect, log: Session) -> None:
    """One that has less left to do than the other had takes back nothing of what that one noted."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=1)
    for group, rows in (("first", 16_000), ("second", 19_000)):
        log.create_group(topic=topic, consumer_group=group)
        log.execute(
            "insert into pgq.group_position"
            " (group_id, partition, seq, first_offset, next_offset, recorded_at)"
            " select l.group_id, 0, n, 1, 1, pgq._clock()"
            " from pgq.group_partition as l, generate_series(2, %s::integer) as n"
            " where l.consumer_group = %s",
            [rows, group],
        )
    holder, slow = connect(), connect(autocommit=True)
    holder.execute(
        "select from pgq.group_position where seq = 2 order by group_id limit 1 for update"
    )
    # without the lock_timeout of cleanup
    trimming = blocked(log, slow, lambda: slow.call("_clean_positions", objects="{(,)}"))
    assert "positions trimmed" in actions(log)
    holder.commit()
    trimming.result(PATIENCE)
    noted = log.execute(
        "select l.trimmed_seq, min(j.seq) from pgq.group_partition as l"
        " inner join pgq.group_position as j using (group_id) group by 1 order by 1"
    ).fetchall()
    assert noted == [(15_000, 15_000), (18_000, 18_000)]
