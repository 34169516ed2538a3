"""The options of the data source pgq; without a server."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

pytest.importorskip("pyspark")

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql.datasource import CaseInsensitiveDict

from pgq.spark import _source
from pgq.spark._bounds import Bound
from pgq.spark._fetch import SCHEMA
from pgq.spark._options import Options, parse_options
from pgq.spark._source import PgqDataSource

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
    assert (options.topic, options.start) == ("t", Bound(earliest=True))
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
    assert (options.start, options.end) == (Bound(offsets={0: 5, 1: -2}), Bound())
    options = parsed(startingTimestamp="1700000000123", startingOffsets="earliest")
    assert options.start == Bound(time=datetime(2023, 11, 14, 22, 13, 20, 123000, timezone.utc))
    options = parsed(endingTimestamp="0")
    assert (options.start, options.end) == (
        None,
        Bound(time=datetime(1970, 1, 1, tzinfo=timezone.utc)),
    )


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
