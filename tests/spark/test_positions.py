"""Where reads and streams begin, how far they go, and what they say when messages are missing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

import pytest

pytest.importorskip("pyspark")

from pgq.errors import OffsetOutOfRange
from pgq.messages import OffsetRange
from pgq.spark._bounds import Bound
from pgq.spark._positions import (
    Checks,
    Kept,
    Log,
    Position,
    advance,
    pack,
    plan,
    ranges_between,
    resolve,
    sample,
    task_size,
)

STRICT = Checks("t", fail_on_data_loss=True)
LAX = Checks("t", fail_on_data_loss=False)
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
ONE = datetime(2026, 1, 1, 13, tzinfo=timezone.utc)


def log(topic_id: int = 7, **kept: tuple[int, int]) -> Log:
    """What a topic has: ``p0=(first, after)`` and so on."""
    return Log(topic_id, {int(name[1:]): Kept(*place) for name, place in kept.items()})


def at(offsets: Mapping[int, int], topic_id: int = 7) -> Position:
    return Position(topic_id, offsets)


def test_a_position_is_written_in_one_way() -> None:
    written = at({10: 1, 9: 2}).as_json("t")
    assert list(written["t"]) == ["9", "10"]
    assert Position.from_json("t", written) == at({9: 2, 10: 1})


def test_a_checkpoint_of_another_topic_is_refused() -> None:
    with pytest.raises(ValueError, match="'other'"):
        Position.from_json("t", at({0: 1}).as_json("other"))


def test_the_first_batch_begins_where_it_was_planned_to() -> None:
    """Spark asks for the start anew when it repeats that batch; the end knows better."""
    initial = Position(7, {0: 3}, {0: 3})
    assert advance(initial, log(p0=(1, 3)), STRICT, limit=None) is initial
    end = advance(initial, log(p0=(1, 9)), STRICT, limit=2)
    assert end == Position(7, {0: 5}, {0: 3})
    assert Position.from_json("t", end.as_json("t")) == end
    for asked in (initial, Position(7, {0: 9}, {0: 9}), Position(7, {0: 1}, {0: 1})):
        assert ranges_between(asked, end, log(p0=(1, 12)), STRICT) == [OffsetRange(0, 3, 4)]
        assert ranges_between(asked, initial, log(p0=(1, 12)), STRICT) == []
    # the second one begins where the first ended
    second = advance(end, log(p0=(1, 9)), STRICT, limit=None)
    assert second == at({0: 9})
    assert ranges_between(end, second, log(p0=(1, 9)), STRICT) == [OffsetRange(0, 5, 8)]


def test_where_to_start() -> None:
    topic = Log(7, {0: Kept(3, 9, 5), 1: Kept(1, 1, 1)})
    assert resolve(Bound(earliest=True), topic, STRICT) == at({0: 3, 1: 1})
    assert resolve(Bound(), topic, STRICT) == at({0: 9, 1: 1})
    assert resolve(Bound(time=NOON), topic, STRICT) == at({0: 5, 1: 1})
    assert resolve(Bound(offsets={0: -1, 1: -2}), topic, STRICT) == at({0: 9, 1: 1})
    assert resolve(Bound(offsets={0: 4, 1: 1}), topic, STRICT) == at({0: 4, 1: 1})


@pytest.mark.parametrize("offsets", [{0: 4}, {0: 4, 1: 1, 2: 1}, {}])
def test_offsets_are_given_for_each_partition(offsets: dict[int, int]) -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        resolve(Bound(offsets=offsets), log(p0=(3, 9), p1=(1, 1)), LAX)


def test_a_start_behind_the_end() -> None:
    topic = log(p0=(3, 9))
    with pytest.raises(OffsetOutOfRange, match="offset 10 was asked for"):
        resolve(Bound(offsets={0: 10}), topic, STRICT)
    assert resolve(Bound(offsets={0: 10}), topic, LAX) == at({0: 9})
    assert resolve(Bound(offsets={0: 9}), topic, STRICT) == at({0: 9})


def test_a_start_in_an_earlier_topic() -> None:
    with pytest.raises(OffsetOutOfRange, match="created again"):
        resolve(Bound(offsets={0: 1}, topic_id=6), log(p0=(1, 9)), STRICT)


def test_nothing_new_leaves_the_position_as_it_is() -> None:
    start = at({0: 9})
    assert advance(start, log(p0=(1, 9)), STRICT, limit=None) == start
    # a new partition counts from its first message on
    assert advance(start, log(p0=(1, 9), p1=(1, 1)), STRICT, limit=None) == start
    assert advance(start, log(p0=(1, 9), p1=(1, 2)), STRICT, limit=None) == at({0: 9, 1: 2})


def test_a_limit_is_kept_and_shared_in_proportion() -> None:
    topic = log(p0=(1, 901), p1=(1, 101), p2=(1, 1))
    start = at({0: 1, 1: 1, 2: 1})
    assert advance(start, topic, STRICT, limit=100) == at({0: 91, 1: 11, 2: 1})
    for limit in range(1, 1002):
        end = advance(start, topic, STRICT, limit=limit)
        assert sum(end.offsets.values()) - 3 == min(limit, 1000)


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_no_partition_waits_for_ever(limit: int) -> None:
    """One partition fills faster than it is read; the others are read to their ends."""
    kept = {0: 1_000, 1: 4, 2: 4, 3: 4}
    position = at({})
    for _ in range(40):
        topic = log(**{f"p{p}": (1, after) for p, after in kept.items()})
        position = advance(position, topic, STRICT, limit=limit)
        kept[0] += 1_000
    assert [position[p] for p in (1, 2, 3)] == [4, 4, 4]
    assert position[0] > 1


def test_what_comes_after_the_target_is_left() -> None:
    target = log(p0=(1, 5))
    later = log(p0=(1, 9), p1=(1, 9))
    assert advance(at({0: 3}), later, STRICT, limit=None, target=target) == at({0: 5})
    for position in (at({0: 5}), at({0: 7})):
        assert advance(position, later, STRICT, limit=None, target=target) == position


def test_what_retention_removed() -> None:
    topic = log(p0=(5, 9))
    with pytest.raises(OffsetOutOfRange, match=r"offsets 3 to 4 .* failOnDataLoss"):
        advance(at({0: 3}), topic, STRICT, limit=None)
    # the limit is one of messages that are there
    assert advance(at({0: 3}), topic, LAX, limit=2) == at({0: 7})
    with pytest.raises(OffsetOutOfRange):
        ranges_between(at({0: 3}), at({0: 7}), topic, STRICT)
    assert ranges_between(at({0: 3}), at({0: 7}), topic, LAX) == [OffsetRange(0, 5, 6)]
    assert ranges_between(at({0: 3}), at({0: 5}), topic, LAX) == []
    with pytest.raises(OffsetOutOfRange, match="offsets 3 to 3 "):
        ranges_between(at({0: 3}), at({0: 4}), topic, STRICT)
    # an emptied partition is no batch
    assert advance(at({0: 3}), log(p0=(9, 9)), LAX, limit=None) == at({0: 3})


def test_a_new_partition_whose_beginning_is_gone() -> None:
    topic = log(p0=(1, 9), p1=(4, 6))
    with pytest.raises(OffsetOutOfRange, match="partition 1: offsets 1 to 3"):
        advance(at({0: 9}), topic, STRICT, limit=None)
    assert advance(at({0: 9}), topic, LAX, limit=None) == at({0: 9, 1: 6})


def test_a_topic_that_ends_before_the_checkpoint() -> None:
    topic = log(p0=(1, 5), p1=(1, 5))
    with pytest.raises(OffsetOutOfRange, match="come to offset 9, but the topic ends at 4"):
        advance(at({0: 9, 1: 2}), topic, STRICT, limit=None)
    # nothing goes back: what is published up to there has been read once, as far as one can know
    assert advance(at({0: 9, 1: 2}), topic, LAX, limit=None) == at({0: 9, 1: 5})
    with pytest.raises(OffsetOutOfRange):
        ranges_between(at({0: 2}), at({0: 9}), topic, STRICT)
    assert ranges_between(at({0: 2}), at({0: 9}), topic, LAX) == [OffsetRange(0, 2, 4)]


@pytest.mark.parametrize("checks", [STRICT, LAX])
def test_a_batch_that_goes_back_is_refused(checks: Checks) -> None:
    with pytest.raises(OffsetOutOfRange, match="twice"):
        ranges_between(at({0: 9}), at({0: 5}), log(p0=(1, 5)), checks)


def test_a_topic_made_anew() -> None:
    topic = log(8, p0=(1, 5))
    old, new = at({0: 3, 1: 9}), at({0: 5}, 8)
    with pytest.raises(OffsetOutOfRange, match="created again"):
        advance(old, topic, STRICT, limit=None)
    with pytest.raises(OffsetOutOfRange, match="created again"):
        ranges_between(old, at({0: 4, 1: 9}), topic, STRICT)
    assert advance(old, topic, LAX, limit=None) == new
    assert ranges_between(old, new, topic, LAX) == [OffsetRange(0, 1, 4)]
    assert ranges_between(old, at({0: 4, 1: 9}), topic, LAX) == []


@pytest.mark.parametrize("wanted", [None, 1, 2, 3, 7, 100, 5000])
def test_tasks_cover_each_message_once(wanted: int | None) -> None:
    ranges = [OffsetRange(0, 1, 1000), OffsetRange(1, 5, 5), OffsetRange(3, 10, 19)]
    size = task_size(1011, wanted)
    tasks = pack([("readings", part) for part in ranges], size)
    assert len(tasks) >= min(wanted or 1, 1011)
    if wanted is None:
        assert len(tasks) == 1
    read = [
        (part.partition, offset)
        for task in tasks
        for _, part in task
        for offset in range(part.first_offset, part.last_offset + 1)
    ]
    assert len(read) == len(set(read)) == 1011
    lengths = [sum(len(part) for _, part in task) for task in tasks]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1


def test_a_task_has_so_many_messages_or_bytes() -> None:
    assert task_size(10**6, None) == task_size(10**6, None, 100.0) == 250_000
    assert task_size(10**6, None, 2.0**20) == 128
    assert task_size(10**6, 10**5, 2.0**20) == 10
    assert task_size(10**6, None, 2.0**30) == task_size(3, 5) == 1


def test_what_tells_how_large_messages_are() -> None:
    parts = [("a", OffsetRange(0, 1, 600)), ("b", OffsetRange(2, 5, 405))]
    assert sample(parts) == ("a", OffsetRange(0, 591, 600))
    assert sample([*parts[:1], ("b", OffsetRange(2, 5, 404))]) is None
    assert sample([]) is None


def test_what_retention_removed_beyond_the_end_of_a_batch() -> None:
    """A batch that was planned long ago has nothing left, and the next one goes on behind it."""
    topic = log(p0=(9, 12), p1=(1, 4))
    start, end = at({0: 3, 1: 1}), at({0: 5, 1: 3})
    with pytest.raises(OffsetOutOfRange, match="offsets 3 to 4 "):
        ranges_between(start, end, topic, STRICT)
    assert ranges_between(start, end, topic, LAX) == [OffsetRange(1, 1, 2)]
    assert advance(end, topic, LAX, limit=None) == at({0: 12, 1: 4})


# ---------------------------------------------------------------------------- batches


def test_a_batch_lies_between_two_bounds() -> None:
    """Each time is asked about once; partitions in between that have nothing are left out."""
    asked = []
    kept = {0: (3, 9), 1: (1, 1)}

    def log_at(moment: datetime | None) -> Log:
        asked.append(moment)
        places = {None: (None, None), NOON: (4, 1), ONE: (7, 1)}[moment]
        return Log(7, {p: Kept(first, after, places[p]) for p, (first, after) in kept.items()})

    for start, end, expected in (
        (Bound(earliest=True), Bound(), [OffsetRange(0, 3, 8)]),
        (Bound(time=NOON), Bound(), [OffsetRange(0, 4, 8)]),
        (Bound(time=NOON), Bound(time=ONE), [OffsetRange(0, 4, 6)]),
        (Bound(earliest=True), Bound(time=NOON), [OffsetRange(0, 3, 3)]),
        (Bound(offsets={0: 5, 1: -1}), Bound(time=ONE), [OffsetRange(0, 5, 6)]),
        # an end before the start is no error
        (Bound(time=ONE), Bound(time=NOON), []),
    ):
        asked.clear()
        assert plan(start, end, log_at, STRICT) == expected
        assert asked == [start.time] + ([end.time] if end.time else [])


def test_a_partition_that_is_added_while_a_batch_is_planned() -> None:
    """Is for the next one."""
    logs = iter([Log(7, {0: Kept(1, 5, 2)}), Log(7, {0: Kept(1, 9, 7), 1: Kept(1, 9, 1)})])
    found = plan(Bound(time=NOON), Bound(time=ONE), lambda moment: next(logs), STRICT)
    assert found == [OffsetRange(0, 2, 6)]
