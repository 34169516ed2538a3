"""Where a query stands in several topics; without a server."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pgq.errors import OffsetOutOfRange
from pgq.messages import OffsetRange
from pgq.spark._positions import Checks, Kept, Log, Position, pack
from pgq.spark._topics import Topics, advance, ranges


def checks(strict: bool = True) -> Any:
    return defaultdict(lambda: Checks("some", strict))


def log(topic_id: int, *kept: tuple[int, int]) -> Log:
    return Log(topic_id, {number: Kept(*places) for number, places in enumerate(kept)})


ONE, BOTH, ANY = Topics(("a",)), Topics(("a", "b")), Topics(pattern="[ab]")
OLD = {"a": {"0": 4, "1": 2}, "@id": 3}
NEW = {"a": {"0": 4, "1": 2}, "b": {"0": 1}, "@id": {"a": 3, "b": 8}}


@pytest.mark.parametrize("topics", [ONE, BOTH, ANY])
def test_positions_of_one_topic_are_read_everywhere(topics: Topics) -> None:
    """As checkpoints have them from before there were several."""
    position = Position(3, {0: 4, 1: 2})
    assert topics.from_json(OLD) == {"a": position}
    began = {**OLD, "@from": {"0": 1, "1": 1}}
    assert topics.from_json(began) == {"a": Position(3, {0: 4, 1: 2}, {0: 1, 1: 1})}
    if topics is ONE:
        assert topics.as_json({"a": position}) == OLD
        assert topics.as_json(topics.from_json(began)) == began


@pytest.mark.parametrize("topics", [BOTH, ANY])
def test_positions_of_several_topics(topics: Topics) -> None:
    for found in (NEW, {**NEW, "@from": {"b": {"0": 1}}}, {"@id": {}}):
        assert topics.as_json(topics.from_json(found)) == found
    assert topics.from_json(NEW)["b"] == Position(8, {0: 1})
    assert ONE.from_json({"a": {"0": 4}, "@id": {"a": 3}}) == {"a": Position(3, {0: 4})}


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        (ONE, NEW),
        (ONE, {"b": {"0": 1}, "@id": 8}),
        (Topics(pattern="a"), NEW),
        (BOTH, {"c": {"0": 1}, "@id": 8}),
        (BOTH, {"logOffset": 7}),
        (BOTH, {}),
    ],
)
def test_positions_of_other_topics_are_refused(topics: Topics, found: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs a checkpoint of its own"):
        topics.from_json(found)


def test_a_limit_is_shared_by_what_waits() -> None:
    logs = {"a": log(3, (1, 61)), "b": log(8, (1, 31), (1, 11))}
    start = {"a": Position(3, {0: 1}), "b": Position(8, {0: 1, 1: 1})}
    end, waiting = advance(start, logs, checks(), limit=10)
    assert waiting == 100
    assert end == {"a": Position(3, {0: 7}), "b": Position(8, {0: 4, 1: 2})}
    end, _ = advance(start, logs, checks(), limit=None)
    assert end == {"a": Position(3, {0: 61}), "b": Position(8, {0: 31, 1: 11})}
    assert advance(end, logs, checks(), limit=None) == (end, 0)
    found = ranges(start, end, logs, checks())
    assert found == [
        *(("a", OffsetRange(0, 1, 60)), ("b", OffsetRange(0, 1, 30)), ("b", OffsetRange(1, 1, 10))),
    ]
    assert [[(topic, len(part)) for topic, part in task] for task in pack(found, 40)] == [
        [("a", 33)],
        [("a", 27), ("b", 6)],
        [("b", 24), ("b", 10)],
    ]


def test_a_topic_that_came_later_begins_where_it_does() -> None:
    """A batch that is repeated begins there too, whatever retention has removed by then."""
    start = {"a": Position(3, {0: 5})}
    logs = {"a": log(3, (1, 5)), "b": log(8, (3, 9))}
    end, _ = advance(start, logs, checks(), limit=None)
    assert end["b"] == Position(8, {0: 9}, {0: 3})
    again = ANY.from_json(ANY.as_json(end))
    assert ranges(start, again, logs, checks()) == [("b", OffsetRange(0, 3, 8))]
    with pytest.raises(OffsetOutOfRange, match="offsets 3 to 4"):
        ranges(start, again, {**logs, "b": log(8, (5, 9))}, checks())
    # not before there is something in it, nor where it came too late for this run
    assert advance(start, {**logs, "b": log(8, (1, 1))}, checks(), limit=None)[0] == start
    assert advance(start, logs, checks(), limit=None, target={"a": logs["a"]})[0] == start


def test_a_topic_that_was_dropped() -> None:
    start = {"a": Position(3, {0: 5}), "b": Position(8, {0: 2})}
    logs = {"a": log(3, (1, 5))}
    with pytest.raises(OffsetOutOfRange, match="it was dropped"):
        advance(start, logs, checks(), limit=None)
    assert advance(start, logs, checks(strict=False), limit=None)[0] == {"a": start["a"]}
