"""Values become JSON without loss, and the same JSON in both ways of writing."""

from __future__ import annotations

from typing import Any

import pytest

from support.log import new_topic
from support.session import Session
from support.writer import messages

TIME = "2026-07-01T12:00:00.123456"
VALUES = {
    "timestamp'2026-07-01 12:00:00.123456'": f"{TIME}+02:00",
    "timestamp_ntz'2026-07-01 12:00:00.123456'": TIME,
    "timestamp_ntz'2026-03-29 02:30:00'": "2026-03-29T02:30:00.000000",  # not there in Berlin
    "timestamp'1890-01-01 12:00:00.5'": "1890-01-01T12:00:00.500000+00:53:28",
    "timestamp'12026-01-01 00:00:00'": "+12026-01-01T00:00:00.000000+01:00",
    "date'2026-07-01'": "2026-07-01",
    "cast(null as int)": None,
    "true": True,
    "9223372036854775807": 9223372036854775807,
    "cast(1.10 as decimal(10, 2))": 1.1,
    "cast('NaN' as double)": "NaN",
    "X'00ff'": "AP8=",
    "'é\\n\"'": 'é\n"',
    "map('a', cast(null as int), 'b', 1)": {"a": None, "b": 1},
    "named_struct('a', cast(null as string))": {"a": None},
}


@pytest.fixture
def berlin(spark: Any) -> Any:
    """The session in a zone with summer time."""
    name = "spark.sql.session.timeZone"
    was = spark.conf.get(name)
    spark.conf.set(name, "Europe/Berlin")
    yield spark
    spark.conf.set(name, was)


def nested() -> tuple[str, Any]:
    """All values in structs, arrays and maps."""
    parts, wanted = [], {}
    for number, (value, json) in enumerate(VALUES.items()):
        parts.append(
            f"'v{number}', {value}, 'a{number}', array({value}), 'm{number}', map('k', {value})"
        )
        wanted |= {f"v{number}": json, f"a{number}": [json], f"m{number}": {"k": json}}
    return f"named_struct({', '.join(parts)})", wanted


def test_all_types_in_both_ways(berlin: Any, broker: Any, save: Any, own: Session) -> None:
    from pgq.spark import to_json

    topic, other = new_topic(own), new_topic(own)
    value, wanted = nested()
    frame = berlin.sql(f"select {value} as payload")
    broker.publish(frame, topic=topic)
    save(frame.select(to_json("payload").alias("payload")), topic=other)
    assert messages(own, topic, "payload") == [(wanted,)]
    as_text = "payload::text"
    assert messages(own, other, as_text) == messages(own, topic, as_text)


@pytest.mark.parametrize("form", ["map('h', {})", "array(named_struct('key', 'h', 'value', {}))"])
def test_times_in_headers(berlin: Any, broker: Any, own: Session, form: str) -> None:
    """They have the digits and the zone that they have in a payload."""
    topic = new_topic(own)
    values = {value: json for value, json in VALUES.items() if value.startswith("timestamp")}
    values |= {"cast(null as timestamp)": None, "12": "12", "date'2026-07-01'": "2026-07-01"}
    for value in values:
        broker.publish(
            berlin.sql(f"select 'x' as value, {form.format(value)} as headers"), topic=topic
        )
    found = messages(own, topic, "headers")
    assert found == [({"h": json},) for json in values.values()]


def test_a_time_as_the_key_of_a_header(berlin: Any, broker: Any, own: Session) -> None:
    topic = new_topic(own)
    key = f"timestamp_ntz'{TIME}'"
    broker.publish(berlin.sql(f"select 'x' as value, map({key}, 1) as headers"), topic=topic)
    assert messages(own, topic, "headers") == [({TIME: "1"},)]


@pytest.mark.parametrize("form", ["map('h', {})", "array(named_struct('key', 'h', 'value', {}))"])
@pytest.mark.parametrize("value", ["1", "timestamp'2026-07-01 12:00:00'"])
def test_the_data_source_takes_headers_of_texts(
    spark: Any, save: Any, own: Session, form: str, value: str
) -> None:
    """What Spark would have to change is refused before any task runs."""
    frame = spark.sql(f"select 'x' as value, {form.format(value)} as headers")
    with pytest.raises(Exception, match=r"column headers is .*; it must be a map of texts"):
        save(frame, topic=new_topic(own))
