"""cleanup where several parts or objects fail: which of them it tries again, and when."""

from __future__ import annotations

from support.bulk import begin
from support.clock import Clock
from support.failing import cleaned, failing, failures, ids, many_queues, raising
from support.session import Connect, Session, row
from support.storage import seal_and_close


def test_parts_with_many_failures_take_turns(connection: Session, clock: Clock) -> None:
    """None takes all tries of the others, for ever."""
    queues = many_queues(connection, clock, 40)
    for number in range(3):
        connection.create_topic(topic=f"t{number}", partitions=1, deferred=True)
        connection.publish(topic=f"t{number}", payload=1)
    [bad] = ids(connection, "select partition_id from pgq.partition where topic = 't1'")
    with failing(connection, "delete on pgq.job", f"old.queue_id > {queues[1]}"):
        connection.execute(
            "create trigger pgq_test_other before insert on pgq.assignment for each row"
            f" when (new.partition_id = {bad}) execute function public.pgq_test_raise()"
        )
        try:
            for _ in range(3):
                connection.cleanup()
            assert [
                connection.list_offsets(topic=f"t{number}")[0].last_offset for number in range(3)
            ] == [1, 0, 1]
            assert ("offsets", "t1", "22P02") in failures(connection)
            for _ in range(40):
                if ("more", "jobs") not in cleaned(connection):
                    break
            for part in ("jobs", "offsets"):  # tried again, both in one call
                clock.advance("1 minute")
                (moment,) = row(connection, "select pgq._clock()")
                connection.cleanup()
                assert part in {
                    each.part
                    for each in connection.list_cleanup_failures()
                    if each.tried_at >= moment
                }
        finally:
            connection.execute("drop trigger pgq_test_other on pgq.assignment")


def test_a_set_that_stops_before_what_fails(connection: Session, clock: Clock) -> None:
    """It has not worked again: the time since when it fails stays."""
    topics = [f"t{number}" for number in range(13)]
    for hours, topic in enumerate(topics, 3):
        connection.create_topic(topic=topic, partitions=1, retention=f"{hours} hours")
        connection.publish(topic=topic, payload=1)
    segments = ids(connection, "select segment from pgq.partition order by topic_id")
    seal_and_close(connection, clock, "2 days")
    clock.advance("3 days")
    connection.execute(
        "update pgq.segment set closed_at = closed_at + make_interval(secs => segment)"
    )
    spoiled = f"old.segment = any('{{{','.join(map(str, segments))}}}')"
    with failing(connection, "delete on pgq.segment", spoiled):
        for _ in range(20):
            if ("more", "truncation") not in cleaned(connection):
                break
        first = {each.target: each.failed_since for each in connection.list_cleanup_failures()}
        assert len(first) == 13
    clock.advance("1 minute")
    with failing(connection, "delete on pgq.segment", f"old.segment = {max(segments)}"):
        connection.cleanup()
        left = {each.target: each.failed_since for each in connection.list_cleanup_failures()}
        assert left[f"segment {max(segments)}"] == first[f"segment {max(segments)}"]
        for _ in range(4):
            connection.cleanup()
        [still] = connection.list_cleanup_failures()
        assert still.failed_since == first[f"segment {max(segments)}"]


def test_a_lock_does_not_hold_up_other_tries(connection: Session, clock: Clock) -> None:
    """What is locked when it is tried again is behind the others then."""
    many_queues(connection, clock, 30)
    with failing(connection, "delete on pgq.job", "old.queue_id > 0"):
        for _ in range(30):
            if ("more", "jobs") not in cleaned(connection):
                break
        assert len(failures(connection)) == 30
        raising(connection, "55P03")
        before = {each.target for each in connection.list_cleanup_failures()}
        (moment,) = row(connection, "select pgq._clock()")
        clock.advance("1 minute")
        for _ in range(3):
            connection.cleanup()
        found = connection.list_cleanup_failures()
        assert {each.target for each in found if each.tried_at > moment} == before
        assert {each.error_code for each in found} == {"22P02"}


def test_a_part_that_meets_a_lock_loses_its_turn(
    connection: Session, connect: Connect, clock: Clock
) -> None:
    """The parts before it are run object by object meanwhile."""
    queues = many_queues(connection, clock, 12)
    connection.create_topic(topic="t", partitions=1, deferred=True)
    connection.publish(topic="t", payload=1)
    spoiled = f"old.queue_id > {queues[5]}"
    with failing(connection, "delete on pgq.job", spoiled), connect() as other:
        connection.execute(
            "insert into pgq.cleanup_failure"
            " (part, failed_since, tried_at, error_code, error)"
            " values ('offsets', pgq._clock(), pgq._clock(), '22P02', 'x')"
        )
        other.execute("begin")
        other.execute("lock table pgq.assignment")
        for _ in range(4):
            connection.cleanup()
        other.execute("rollback")
        assert row(connection, "select count(*) from pgq.job") == (6,)


def test_three_parts_with_many_failures(connection: Session, clock: Clock) -> None:
    """The last one waits for no more than one call of each other."""
    many_queues(connection, clock, 60)
    for number in range(60):
        connection.create_topic(topic=f"t{number}", partitions=1, deferred=True)
        connection.publish(topic=f"t{number}", payload=1)
        begin(connection, topic=f"t{number}", producer="p", seq=1, timeout="2 hours")
    clock.advance("1 day")
    with failing(connection, "delete on pgq.job", "true"):
        connection.execute(
            "create trigger pgq_test_other before delete on pgq.bulk_write for each row"
            " execute function public.pgq_test_raise()"
        )
        [bad] = ids(connection, "select partition_id from pgq.partition where topic = 't7'")
        connection.execute(
            "create trigger pgq_test_third before insert on pgq.assignment for each row"
            f" when (new.partition_id = {bad}) execute function public.pgq_test_raise()"
        )
        try:
            for _ in range(4):
                connection.cleanup()
            done = "select count(distinct partition_id) from pgq.assignment"
            assert row(connection, done) == (59,)
        finally:
            connection.execute("drop trigger pgq_test_other on pgq.bulk_write")
            connection.execute("drop trigger pgq_test_third on pgq.assignment")


def test_what_is_busy_when_it_is_tried_again(
    connection: Session, connect: Connect, clock: Clock
) -> None:
    """It has not worked: the time since when it fails stays."""
    connection.create_topic(topic="t", partitions=1, retention="3 hours")
    connection.publish(topic="t", payload=1)
    [segment] = ids(connection, "select segment from pgq.partition")
    seal_and_close(connection, clock, "1 day")
    clock.advance("1 day")
    with failing(connection, "delete on pgq.segment", "true"), connect() as other:
        connection.cleanup()
        [first] = connection.list_cleanup_failures()
        clock.advance("1 minute")
        with other.transaction():
            other.execute(f"select from pgq.message_{segment}".encode())
            connection.cleanup()
        [later] = connection.list_cleanup_failures()
    assert later.failed_since == first.failed_since < later.tried_at
    assert later.error == first.error
