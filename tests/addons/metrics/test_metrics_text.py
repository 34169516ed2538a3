"""metrics_text: Prometheus reads it, and finds what metrics returns."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.clock import Clock
from support.metrics import key_of
from support.queue import new_queue
from support.session import Session

AUTOVACUUM = "autovacuum worker"
ODD = [
    'quote " in it',
    "back\\slash",
    "a\\nb",
    'x": "y", z="',
    "ü 漢 \u2028 end",
    "{}, ,=",
    "\\",
    '\\"',
    ", ",
    '": "',
    ": ",
]
# What decides how a session reads a literal and writes a number.
READING = ["standard_conforming_strings = off", "extra_float_digits = -15"]


@pytest.mark.parametrize("setting", ["role = postgres", *READING])
def test_it_says_the_same(connection: Session, setting: str) -> None:
    """Whatever the names are; each metric has one HELP and one TYPE, in front of its lines."""
    connection.execute(f"set {setting}")
    for odd in ODD:
        connection.heartbeat(worker=odd)
        connection.heartbeat(worker=f"of {odd}", host=f"{odd}\n\t\r\x01{odd}")
    connection.create_topic(topic="a-b.c_d", partitions=2)
    connection.create_group(topic="a-b.c_d", consumer_group="g")
    connection.publish(topic="a-b.c_d", payload=1)
    new_queue(connection)
    text = connection.metrics_text()
    assert text.endswith("\n")
    connection.execute(f"reset {setting.split()[0]}")
    # autovacuum may begin or go on between the two calls
    rows = [row for row in connection.metrics() if row.labels.get("name") != AUTOVACUUM]
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("name") == AUTOVACUUM:
                continue
            key = key_of(sample.name, **sample.labels)
            assert key not in found
            found[key] = (family.type, family.documentation, sample.value)
    assert {*found} == {key_of(row.name, **row.labels) for row in rows}
    for row in rows:
        kind, text_of, value = found[key_of(row.name, **row.labels)]
        assert (kind, text_of) == (row.type, row.help)
        # PostgreSQL 14 learns of dead rows some time later
        if not row.name.endswith(("_seconds", "_dead_rows")):
            assert value == row.value, row.name
    lines = text.splitlines()
    helps = [line.split()[2] for line in lines if line.startswith("# HELP ")]
    assert len(helps) == len({*helps}) == len({row.name for row in rows})


def test_lines_of_groups(connection: Session, clock: Clock) -> None:
    """Each partition has its own lag and age; a group that counts attempts has a line more."""
    connection.create_topic(topic="t", partitions=3)
    connection.create_topic(topic="idle", partitions=1)
    connection.create_group(topic="t", consumer_group="plain")
    connection.create_group(
        topic="t", consumer_group="counting", max_attempts=3, dead_letter_topic="idle"
    )
    for partition in range(2):
        payloads = [1] * (partition + 1)
        connection.publish_batch(topic="t", payloads=payloads, partition=partition)
        clock.advance("1 hour")
    connection.commit_offset(topic="t", consumer_group="plain", partition=1, committed_offset=2)
    found = {
        key_of(sample.name, **sample.labels): sample.value
        for family in text_string_to_metric_families(connection.metrics_text())
        for sample in family.samples
        if sample.name.startswith(("pgq_topic", "pgq_group"))
    }

    def of(group: str, name: str, partition: int) -> float:
        labels = {"topic": "t", "partition": str(partition), "consumer_group": group}
        return found.pop(key_of(f"pgq_group_lag_{name}", **labels))

    assert [of("counting", "messages", n) for n in range(3)] == [1, 2, 0]
    assert [of("plain", "messages", n) for n in range(3)] == [1, 0, 0]
    ages = [of("counting", "seconds", n) for n in range(3)]
    assert ages == pytest.approx([7200, 3600, 0], abs=30)
    ages = [of("plain", "seconds", n) for n in range(3)]
    assert ages == pytest.approx([7200, 0, 0], abs=30)
    for topic, published in (("t", 3), ("idle", 0)):
        assert found.pop(key_of("pgq_topic_published_total", topic=topic)) == published
        assert found.pop(key_of("pgq_topic_messages", topic=topic)) == published
    for group, processed in (("plain", 2), ("counting", 0)):
        labels = {"topic": "t", "consumer_group": group}
        assert found.pop(key_of("pgq_group_processed_messages", **labels)) == processed
    labels = {"topic": "t", "consumer_group": "counting"}
    assert found.pop(key_of("pgq_group_failing_partitions", **labels)) == 0
    assert not found


@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e308", "0.1", "-0"])
def test_values(connection: Session, value: str) -> None:
    [(line,)] = connection.execute(
        "select pgq._exposition_line('m', '{}', '{\"a\": \"b\"}', %s::double precision)", [value]
    ).fetchall()
    [family] = text_string_to_metric_families(f"# TYPE m gauge\n{line}\n")
    [sample] = family.samples
    assert sample.labels == {"a": "b"}
    if value == "NaN":
        assert math.isnan(sample.value)
    else:
        assert sample.value == float(value)
