"""The options of the data source pgq, and how it plans what to read; without a server."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

pytest.importorskip("pyspark")

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql.datasource import CaseInsensitiveDict

from pgq.spark import _source
from pgq.spark._read import OffsetRange
from pgq.spark._source import (
    SCHEMA,
    Bound,
    Checks,
    DataLossError,
    Kept,
    Log,
    PgqDataSource,
    Position,
    advance,
    parse_options,
    ranges_between,
    resolve,
    split,
)

URL = "jdbc:postgresql://db.example.org:6543/shop"
STRICT = Checks("t", fail_on_data_loss=True)
LAX = Checks("t", fail_on_data_loss=False)


def parsed(**options: str) -> _source.Options:
    return parse_options({"url": URL, "topic": "t", **options})


def error_of(**options: str) -> str:
    with pytest.raises(ValueError) as caught:
        parse_options(options)
    return str(caught.value)


# ---------------------------------------------------------------------------- options


def test_names_are_not_case_sensitive() -> None:
    options = parse_options(
        {"URL": URL, "Subscribe": "t", "STARTINGOFFSETS": "Earliest", "failondataloss": "FALSE"}
    )
    assert (options.topic, options.start) == ("t", Bound(earliest=True))
    assert not options.fail_on_data_loss


def test_defaults() -> None:
    options = parsed()
    assert (options.start, options.end) == (None, None)
    assert (options.max_offsets, options.min_partitions) == (None, None)
    assert options.fail_on_data_loss


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ("earliest", Bound(earliest=True)),
        ("latest", Bound()),
        ('{"t": {"0": 5, "1": -2, "2": -1}}', Bound(offsets={0: 5, 1: -2, 2: -1})),
        ('{"t": {"0": 5}, "@id": 9}', Bound(offsets={0: 5}, topic_id=9)),
    ],
)
def test_starting_offsets(given: str, bound: Bound) -> None:
    assert parsed(startingOffsets=given).start == bound


def test_a_timestamp_takes_the_place_of_offsets() -> None:
    options = parsed(startingTimestamp="1700000000123", startingOffsets="earliest")
    assert options.start == Bound(timestamp=1700000000123)
    assert parsed(endingTimestamp="0").end == Bound(timestamp=0)


@pytest.mark.parametrize(
    "name",
    [
        "startingOffsets",
        "endingOffsets",
        "startingTimestamp",
        "endingTimestamp",
        "maxOffsetsPerTrigger",
        "minPartitions",
        "failOnDataLoss",
    ],
)
@pytest.mark.parametrize("value", ["", "soon", "-1", "1.5", "[1]", "null", '{"t": 1}', "9" * 30])
def test_bad_values_are_refused_by_name(name: str, value: str) -> None:
    if value.isdecimal() and name in ("maxOffsetsPerTrigger", "minPartitions"):
        return
    assert name in error_of(url=URL, topic="t", **{name: value})


@pytest.mark.parametrize("value", ["0", "-5", "many"])
@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minPartitions"])
def test_counts_begin_at_one(name: str, value: str) -> None:
    assert name in error_of(url=URL, topic="t", **{name: value})


@pytest.mark.parametrize(
    "value",
    [
        '{"other": {"0": 5}}',
        '{"t": {"0": 5}, "other": {"0": 5}}',
        '{"t": {"zero": 5}}',
        '{"t": {"0": "five"}}',
        '{"t": {"0": 1.5}}',
        '{"t": {"0": true}}',
        '{"t": {"0": 0}}',
        '{"t": {"0": -3}}',
        '{"t": {"-1": 5}}',
        '{"t": {"0": 5}, "@id": "x"}',
    ],
)
@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_bad_offsets_are_refused(name: str, value: str) -> None:
    assert name in error_of(url=URL, topic="t", **{name: value})


@pytest.mark.parametrize("value", ["earliest", '{"t": {"0": -2}}'])
def test_nothing_ends_at_the_earliest(value: str) -> None:
    assert "earliest" in error_of(url=URL, topic="t", endingOffsets=value)


def test_unknown_options_are_named() -> None:
    message = error_of(url=URL, topic="t", startingOffset="earliest", kafka="SECRET")
    assert "'kafka', 'startingoffset'" in message
    assert "startingOffsets" in message
    assert "SECRET" not in message


def test_one_topic() -> None:
    assert "'topic' is missing" in error_of(url=URL)
    assert "'topic' is missing" in error_of(url=URL, topic=" ")
    assert "one topic" in error_of(url=URL, subscribe="a,b")
    assert "give one" in error_of(url=URL, topic="a", subscribe="a")


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://db.example.org:6543/shop?user=u&password=S3CRET",
        "postgresql://u:S3CRET@db.example.org:6543/shop",
        "postgres://u:S3CRET@db.example.org:6543/shop",
    ],
)
def test_where_the_database_is(url: str) -> None:
    options = parse_options({"url": url, "topic": "t"})
    place = conninfo_to_dict(options.conninfo)
    assert (place["host"], str(place["port"]), place["dbname"]) == (
        "db.example.org",
        "6543",
        "shop",
    )
    assert (place["user"], place["password"]) == ("u", "S3CRET")
    assert "S3CRET" not in repr(options)


@pytest.mark.parametrize("url", ["jdbc:postgresql://h/d", "postgresql://h/d"])
def test_credentials_beside_the_url(url: str) -> None:
    options = parse_options({"url": url, "topic": "t", "user": "u", "password": "it's \\ S3CRET"})
    place = conninfo_to_dict(options.conninfo)
    assert (place["user"], place["password"]) == ("u", "it's \\ S3CRET")
    assert "S3CRET" not in repr(options)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "jdbc:mysql://u:S3CRET@h/d",
        "host=h password=S3CRET",
        "postgresql://u:S3CRET@h:port/d?S3CRET",
        "postgresql://u:S3CRET@h/d?S3CRET=1",
    ],
)
def test_a_bad_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="'url'") as caught:
        parse_options({"url": url, "topic": "t"})
    assert "S3CRET" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def source(**options: str) -> PgqDataSource:
    return PgqDataSource(CaseInsensitiveDict({"url": URL, "topic": "t", **options}))


def test_options_of_streams_and_batches_are_told_apart() -> None:
    for options in ({"endingOffsets": "latest"}, {"endingTimestamp": "1"}):
        with pytest.raises(ValueError, match="for batches"):
            source(**options).streamReader(SCHEMA)
        source(**options).reader(SCHEMA)
    with pytest.raises(ValueError, match="maxOffsetsPerTrigger' is for streams"):
        source(maxOffsetsPerTrigger="1").reader(SCHEMA)
    with pytest.raises(ValueError, match="must not be 'latest'"):
        source(startingOffsets="latest").reader(SCHEMA)
    source(startingOffsets="latest").streamReader(SCHEMA)


def test_the_schema_is_fixed() -> None:
    for read in ("reader", "streamReader"):
        with pytest.raises(ValueError, match="schema of its own"):
            getattr(source(), read)(SCHEMA["value"].dataType)


def test_limits_need_a_spark_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an older one the option is an error, and everything else is there."""
    monkeypatch.setattr(_source, "HAS_LIMITS", False)
    with pytest.raises(ValueError, match=r"maxOffsetsPerTrigger.*4\.2"):
        source(maxOffsetsPerTrigger="1").streamReader(SCHEMA)
    reader = source().streamReader(SCHEMA)
    assert reader.latestOffset.__func__.__code__.co_argcount == 1


# ---------------------------------------------------------------------------- positions


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
    assert resolve(Bound(timestamp=1), topic, STRICT) == at({0: 5, 1: 1})
    assert resolve(Bound(offsets={0: -1, 1: -2}), topic, STRICT) == at({0: 9, 1: 1})
    assert resolve(Bound(offsets={0: 4, 1: 1}), topic, STRICT) == at({0: 4, 1: 1})


@pytest.mark.parametrize("offsets", [{0: 4}, {0: 4, 1: 1, 2: 1}, {}])
def test_offsets_are_given_for_each_partition(offsets: dict[int, int]) -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        resolve(Bound(offsets=offsets), log(p0=(3, 9), p1=(1, 1)), LAX)


def test_a_start_behind_the_end() -> None:
    topic = log(p0=(3, 9))
    with pytest.raises(DataLossError, match="offset 10 was asked for"):
        resolve(Bound(offsets={0: 10}), topic, STRICT)
    assert resolve(Bound(offsets={0: 10}), topic, LAX) == at({0: 9})
    assert resolve(Bound(offsets={0: 9}), topic, STRICT) == at({0: 9})


def test_a_start_in_an_earlier_topic() -> None:
    with pytest.raises(DataLossError, match="made anew"):
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
    with pytest.raises(DataLossError, match=r"offsets 3 to 4 .* failOnDataLoss"):
        advance(at({0: 3}), topic, STRICT, limit=None)
    # the limit is one of messages that are there
    assert advance(at({0: 3}), topic, LAX, limit=2) == at({0: 7})
    with pytest.raises(DataLossError):
        ranges_between(at({0: 3}), at({0: 7}), topic, STRICT)
    assert ranges_between(at({0: 3}), at({0: 7}), topic, LAX) == [OffsetRange(0, 5, 6)]
    assert ranges_between(at({0: 3}), at({0: 5}), topic, LAX) == []
    with pytest.raises(DataLossError, match="offsets 3 to 3 "):
        ranges_between(at({0: 3}), at({0: 4}), topic, STRICT)
    # an emptied partition is no batch
    assert advance(at({0: 3}), log(p0=(9, 9)), LAX, limit=None) == at({0: 3})


def test_a_new_partition_whose_beginning_is_gone() -> None:
    topic = log(p0=(1, 9), p1=(4, 6))
    with pytest.raises(DataLossError, match="partition 1: offsets 1 to 3"):
        advance(at({0: 9}), topic, STRICT, limit=None)
    assert advance(at({0: 9}), topic, LAX, limit=None) == at({0: 9, 1: 6})


def test_a_topic_that_ends_before_the_checkpoint() -> None:
    topic = log(p0=(1, 5), p1=(1, 5))
    with pytest.raises(DataLossError, match="come to offset 9, but the topic ends at 4"):
        advance(at({0: 9, 1: 2}), topic, STRICT, limit=None)
    # nothing goes back: what is published up to there has been read once, as far as one can know
    assert advance(at({0: 9, 1: 2}), topic, LAX, limit=None) == at({0: 9, 1: 5})
    with pytest.raises(DataLossError):
        ranges_between(at({0: 2}), at({0: 9}), topic, STRICT)
    assert ranges_between(at({0: 2}), at({0: 9}), topic, LAX) == [OffsetRange(0, 2, 4)]


@pytest.mark.parametrize("checks", [STRICT, LAX])
def test_a_batch_that_goes_back_is_refused(checks: Checks) -> None:
    with pytest.raises(DataLossError, match="twice"):
        ranges_between(at({0: 9}), at({0: 5}), log(p0=(1, 5)), checks)


def test_a_topic_made_anew() -> None:
    topic = log(8, p0=(1, 5))
    old, new = at({0: 3, 1: 9}), at({0: 5}, 8)
    with pytest.raises(DataLossError, match="made anew"):
        advance(old, topic, STRICT, limit=None)
    with pytest.raises(DataLossError, match="made anew"):
        ranges_between(old, at({0: 4, 1: 9}), topic, STRICT)
    assert advance(old, topic, LAX, limit=None) == new
    assert ranges_between(old, new, topic, LAX) == [OffsetRange(0, 1, 4)]
    assert ranges_between(old, at({0: 4, 1: 9}), topic, LAX) == []


@pytest.mark.parametrize("wanted", [None, 1, 2, 3, 7, 100, 5000])
def test_tasks_cover_each_message_once(wanted: int | None) -> None:
    ranges = [OffsetRange(0, 1, 1000), OffsetRange(1, 5, 5), OffsetRange(3, 10, 19)]
    tasks = split(ranges, wanted)
    assert len(tasks) >= min(wanted or 1, 1011)
    if wanted is None:
        assert len(tasks) == 3
    read = [
        (task.value.partition, offset)
        for task in tasks
        for offset in range(task.value.first_offset, task.value.last_offset + 1)
    ]
    assert len(read) == len(set(read)) == 1011
