"""Rows that are refused: the data source says which, once, or sends them to a topic and goes on."""

from __future__ import annotations

from typing import Any

import pytest

from support.log import new_topic
from support.session import Session
from support.writer import assert_nothing_left, messages

REASON = r"RowRefused: row 8 of task 0: column {}"

REFUSED = [
    ("""if(id = 7, '{"a":', '1') as payload""", r"payload is no JSON .*'{\"a\":'"),
    ("""if(id = 7, '"\\\\ud800"', '1') as payload""", "payload is no JSON"),
    ("""if(id = 7, 'NaN', '1') as payload""", "payload is no JSON .*NaN"),
    ("if(id = 7, '1e999999', '1') as payload", "payload is no JSON .*too large"),
    ("'x' as value, if(id = 7, '[]', '{}') as headers", "headers is no JSON object: '\\[\\]'"),
    ("'x' as value, if(id = 7, X'FF', X'61') as key", r"key is not valid UTF-8: b'\\xff'"),
    ("'x' as value, if(id = 7, 'a\\0b', 'a') as key", r"key has a NUL.*: 'a\\x00b'"),
    ("if(id = 7, null, 'x') as value", "value: a message must not be null"),
    (
        "'x' as value, map('h', if(id = 7, X'FF', X'61')) as headers",
        r"headers is not valid UTF-8: b'\\xff'",
    ),
]


def rows(spark: Any, columns: str) -> Any:
    return spark.sql(f"select {columns} from range(0, 20, 1, 2)")


@pytest.mark.parametrize(("columns", "reason"), REFUSED)
def test_the_data_source_names_the_row(
    spark: Any, save: Any, own: Session, columns: str, reason: str
) -> None:
    topic = new_topic(own)
    with pytest.raises(Exception, match=REASON.format(reason)):
        save(rows(spark, columns), topic=topic)
    assert messages(own, topic) == []
    assert_nothing_left(own)


LARGE = "repeat('x', 5000)"
LARGE_JSON = f"concat('\"', {LARGE}, '\"')"


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("if(id = 50, '{', '1') as payload", "row 51 of task 0"),
        (f"if(id = 50, {LARGE}, '1') as value", "row 51 of task 0: .*max_message_bytes"),
        (
            f"if(id = 50, {LARGE_JSON}, '1') as payload",
            "task 0: .*max_message_bytes",
        ),
    ],
    ids=["malformed", "large", "large JSON"],
)
def test_it_is_not_tried_again(
    spark: Any, save: Any, own: Session, column: str, reason: str
) -> None:
    """Also where the database finds it: a task that fails would be tried four times."""
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    frame = spark.range(0, 100, 1, 1).selectExpr(column)
    topic = new_topic(own)
    own.alter_topic(topic=topic, max_message_bytes=1024)
    with pytest.raises(Exception, match=f"RowRefused: {reason}"):
        save(frame.mapInArrow(count, frame.schema), topic=topic)
    assert seen.value == 100


def test_publish_names_malformed_json(spark: Any, broker: Any, own: Session) -> None:
    from pgq.spark import RowRefused

    topic = new_topic(own)
    for columns, reason in REFUSED[:5]:
        with pytest.raises(RowRefused, match=f"^row 8 of task 0: column {reason}"):
            broker.publish(rows(spark, columns), topic=topic)
    assert messages(own, topic) == []
    assert_nothing_left(own)


def test_what_the_server_says_reaches_the_user(spark: Any, broker: Any, own: Session) -> None:
    """With its detail and its hint, from the driver's calls and from tasks."""
    from pgq.errors import UnknownPartition, UnknownTopic

    frame = spark.sql("select 'x' as value, 7 as partition")
    with pytest.raises(UnknownTopic) as unknown:
        broker.publish(frame, topic="none")
    assert "HINT:  pgq.create_topic creates it" in str(unknown.value)
    assert str(unknown.value.hint).startswith("pgq.create_topic creates it")
    with pytest.raises(UnknownPartition) as missing:
        broker.publish(frame, topic=new_topic(own))
    assert "unknown partition 7" in str(missing.value.diag.message_primary)


@pytest.mark.parametrize("by_column", [False, True])
def test_bad_rows_go_to_a_topic(spark: Any, save: Any, own: Session, by_column: bool) -> None:
    topic, bad = new_topic(own), new_topic(own)
    payload = """case id when 3 then '{' when 5 then null else cast(id as string) end as payload"""
    key = "case id when 7 then 'a\\0b' when 3 then 'three' else 'k' end as key"
    frame = rows(spark, f"{payload}, {key}, '{topic}' as topic")
    frame = frame if by_column else frame.drop("topic")
    options = {"producer": "p", "seq": 1, "badRowsTopic": bad}
    for _ in range(2):
        save(frame, **options, **({} if by_column else {"topic": topic}))
        good = [row for (row,) in messages(own, topic, "payload")]
        assert sorted(good) == sorted(set(range(20)) - {3, 5, 7})
        found = messages(own, bad, "body, key, headers")
        assert sorted((body, key) for body, key, _ in found) == [
            (b"", "k"),
            (b"7", None),
            (b"{", "three"),
        ]
        headers = {body: told for body, _, told in found}
        assert headers[b"7"] == {
            "error": "column key has a NUL, which no text in PostgreSQL can have: 'a\\x00b'",
            "row": "8",
            "task": "0",
            "topic": topic,
        }


def test_bad_rows_of_a_queue(spark: Any, save: Any, own: Session) -> None:
    own.create_queue(queue="work")
    bad = new_topic(own)
    save(rows(spark, "if(id = 7, '{', '1') as payload"), queue="work", badRowsTopic=bad)
    assert own.execute("select count(*) from pgq.peek_jobs('work')").fetchone() == (19,)
    assert messages(own, bad, "body, headers ->> 'queue'") == [(b"{", "work")]


def test_they_do_not_go_where_all_go(spark: Any, save: Any, own: Session) -> None:
    with pytest.raises(Exception, match="'badRowsTopic' is where all rows go"):
        save(rows(spark, "'x' as value"), topic="readings", badRowsTopic="readings")


def test_content_that_python_cannot_read_is_read(
    spark: Any, broker: Any, own: Session, location: Any
) -> None:
    """The value is a text: a number of any length, and any nesting."""
    from pgq.spark import register

    register(spark)
    topic = new_topic(own)
    texts = ["1" * 5001, "[" * 2000 + "]" * 2000]
    for text in texts:
        own.execute("select pgq.publish(%s, %s::jsonb, headers => '{\"h\": 1}')", [topic, text])
    url, properties = location
    source = spark.read.format("pgq").options(url=url, **properties, topic=topic).load()
    for frame in (broker.read(topic=topic), source):
        found = frame.selectExpr("cast(value as string) as value").collect()
        assert sorted(row["value"] for row in found) == sorted(texts)


@pytest.mark.parametrize(
    "other", ["'j' as key", "'k' as key, map('h', 'b') as headers", "'k' as key, 1 as partition"]
)
def test_the_digest_covers_all_columns(
    spark: Any, broker: Any, save: Any, own: Session, other: str
) -> None:
    """Other keys, headers or partitions under the same name are an error, in both ways."""
    topic = new_topic(own, 2)
    name = {"topic": topic, "producer": "p", "seq": 1}

    def frame(columns: str) -> Any:
        return spark.sql(f"select 'x' as value, {columns} from range(3)")

    parts = {
        "key": "'k' as key",
        "headers": "map('h', 'a') as headers",
        "partition": "0 as partition",
    }
    columns = ", ".join(part for column, part in parts.items() if f"as {column}" in other)
    assert not broker.publish(frame(columns), **name).duplicate
    assert broker.publish(frame(columns), **name).duplicate
    save(frame(columns), **name)
    for write in (broker.publish, save):
        with pytest.raises(Exception, match="with other messages"):
            write(frame(other), **name)
