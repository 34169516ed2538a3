"""The options of the data source pgq; without a server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("pyspark")

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql.datasource import CaseInsensitiveDict

from pgq.spark import _source
from pgq.spark._bounds import Bound
from pgq.spark._fetch import SCHEMA
from pgq.spark._options import Options, parse_options
from pgq.spark._source import PgqDataSource
from pgq.spark._topics import Bounds, Topics

URL = "jdbc:postgresql://db.example.org:6543/shop"


def parsed(**options: str) -> Options:
    return parse_options({"url": URL, "topic": "t", **options})


def error_of(**options: str) -> str:
    with pytest.raises(ValueError) as caught:
        parse_options(options)
    return str(caught.value)


def test_names_are_not_case_sensitive() -> None:
    options = parse_options(
        {"URL": URL, "Subscribe": "t", "STARTINGOFFSETS": "Earliest", "failondataloss": "FALSE"}
    )
    assert options.topics == Topics(("t",))
    assert options.start == Bounds(Bound(earliest=True))
    assert not options.fail_on_data_loss


def test_defaults() -> None:
    options = parsed()
    assert (options.start, options.end) == (None, None)
    assert (options.max_offsets, options.min_partitions) == (None, None)
    assert options.fail_on_data_loss


def test_bounds() -> None:
    """As the grammar of bounds has them; a timestamp takes the place of offsets."""
    offsets = '{"t": {"0": 5, "1": -2}}'
    options = parsed(startingOffsets=offsets, endingOffsets="latest")
    assert (options.start, options.end) == (Bounds(Bound(offsets={0: 5, 1: -2})), Bounds(Bound()))
    options = parsed(startingTimestamp="1700000000123", startingOffsets="earliest")
    moment = datetime(2023, 11, 14, 22, 13, 20, 123000, timezone.utc)
    assert options.start == Bounds(Bound(time=moment))
    options = parsed(endingTimestamp="0")
    assert (options.start, options.end) == (
        None,
        Bounds(Bound(time=datetime(1970, 1, 1, tzinfo=timezone.utc))),
    )


@pytest.mark.parametrize(
    "name",
    [
        "startingOffsets",
        "endingOffsets",
        "startingTimestamp",
        "endingTimestamp",
        "startingOffsetsByTimestamp",
        "endingOffsetsByTimestamp",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "minPartitions",
        "failOnDataLoss",
    ],
)
@pytest.mark.parametrize("value", ["", "soon", "-1", "1.5", "[1]", "null", '{"t": 1}', "9" * 30])
def test_bad_values_are_refused_by_name(name: str, value: str) -> None:
    if value.isdecimal() and name in (
        *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions"),
    ):
        return
    assert name in error_of(url=URL, topic="t", **{name: value})


@pytest.mark.parametrize("value", ["0", "-5", "many"])
@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minPartitions"])
def test_counts_begin_at_one(name: str, value: str) -> None:
    assert name in error_of(url=URL, topic="t", **{name: value})


def test_a_consumer_group_has_a_name() -> None:
    assert parsed(consumerGroup=" readers").consumer_group == "readers"
    assert "'consumerGroup' is empty" in error_of(url=URL, topic="t", consumerGroup=" ")


def test_unknown_options_are_named() -> None:
    message = error_of(url=URL, topic="t", startingOffset="earliest", kafka="SECRET")
    assert "'kafka', 'startingoffset'" in message
    assert "startingOffsets" in message
    assert "SECRET" not in message


def test_topics() -> None:
    assert parse_options({"url": URL, "subscribe": "b, a,b"}).topics == Topics(("a", "b"))
    assert parse_options({"url": URL, "subscribePattern": "a.*"}).topics == Topics(pattern="a.*")
    assigned = parse_options({"url": URL, "assign": '{"a": [0, 2]}'}).topics
    assert assigned == Topics(("a",), assigned={"a": frozenset({0, 2})})
    assert "'topic' is missing" in error_of(url=URL)
    assert "'topic' is missing" in error_of(url=URL, topic=" ")
    assert "one topic" in error_of(url=URL, topic="a,b")
    assert "give one" in error_of(url=URL, topic="a", subscribe="a")
    assert "give one" in error_of(url=URL, assign="{}", subscribePattern="a")
    assert "'subscribePattern' is no regular" in error_of(url=URL, subscribePattern="a(")
    for wrong in ("a", "{}", '{"a": 1}', '{"a": []}', '{"a": ["0"]}', '{"a": [-1]}', "[1]"):
        assert "'assign'" in error_of(url=URL, assign=wrong)


def test_bounds_of_several_topics() -> None:
    both = {"url": URL, "subscribe": "a,b"}
    offsets = '{"a": {"0": 5}, "b": {"0": -2}, "@id": {"a": 7, "b": 8}}'
    start = parse_options({**both, "startingOffsets": offsets}).start
    assert start is not None
    assert start.of("a") == Bound(offsets={0: 5}, topic_id=7)
    assert start.of("b") == Bound(offsets={0: -2}, topic_id=8)
    start = parse_options({**both, "startingOffsets": "latest"}).start
    assert start is not None
    assert start.of("a") == start.of("b") == Bound()
    for name in ("startingOffsets", "startingOffsetsByTimestamp"):
        for wrong in ('{"a": {"0": 5}}', '{"a": {"0": 5}, "b": {"0": 5}, "c": {"0": 5}}'):
            assert f"{name!r} must have a part for each topic" in error_of(**both, **{name: wrong})
    times = '{"a": {"0": 0}, "b": {"0": "1700000000123", "1": 0}}'
    start = parse_options({**both, "startingOffsetsByTimestamp": times}).start
    assert start is not None
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert start.of("a") == Bound(times={0: epoch})
    assert start.of("b").times == {
        0: datetime(2023, 11, 14, 22, 13, 20, 123000, timezone.utc),
        1: epoch,
    }
    # as with Kafka's source: a time for all, times of partitions, offsets
    start = parse_options(
        {**both, "startingOffsetsByTimestamp": times, "startingTimestamp": "0"}
    ).start
    assert start == Bounds(Bound(time=epoch))


def test_least_and_longest() -> None:
    options = parsed(minOffsetsPerTrigger="5", maxTriggerDelay="90s")
    assert (options.min_offsets, options.max_delay) == (5, timedelta(seconds=90))
    assert parsed().max_delay == timedelta(minutes=15)
    assert "is more than" in error_of(
        url=URL, topic="t", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4"
    )


@pytest.mark.parametrize("url", ["jdbc:postgresql://h/d", "postgresql://h/d"])
def test_how_to_connect(url: str) -> None:
    """By the names of the JDBC driver, or those of libpq."""
    given = {
        "sslmode": "verify-full",
        "sslrootcert": "/etc/ca.pem",
        "sslpassword": "S3CRET",
        "connectTimeout": "7",
        "target_session_attrs": "standby",
        "ApplicationName": "loader",
        "keepalives_idle": "9",
    }
    options = parse_options({"url": url, "topic": "t", **given})
    place = conninfo_to_dict(options.conninfo)
    assert {name: str(place[name]) for name in place if name not in ("host", "port", "dbname")} == {
        "sslmode": "verify-full",
        "sslrootcert": "/etc/ca.pem",
        "sslpassword": "S3CRET",
        "connect_timeout": "7",
        "target_session_attrs": "standby",
        "application_name": "loader",
        "keepalives_idle": "9",
    }
    assert "S3CRET" not in repr(options)
    place = conninfo_to_dict(
        parse_options(
            {"url": url, "topic": "t", "ssl": "true", "targetServerType": "primary"}
        ).conninfo
    )
    assert (place["sslmode"], place["target_session_attrs"]) == ("verify-full", "read-write")
    place = conninfo_to_dict(
        parse_options({"url": f"{url}?sslmode=require", "topic": "t", "ssl": "true"}).conninfo
    )
    assert place["sslmode"] == "require"
    assert "'targetServerType' is 'any one'" in error_of(
        url=url, topic="t", targetServerType="any one"
    )


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
    with pytest.raises(ValueError, match="consumerGroup' is for streams"):
        source(consumerGroup="readers").reader(SCHEMA)
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
