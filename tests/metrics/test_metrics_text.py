"""metrics_text: Prometheus reads it, and finds what metrics returns."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.metrics import key_of
from support.queue import new_queue
from support.session import Session

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


def test_it_says_the_same(connection: Session) -> None:
    """Whatever the names are; each metric has one HELP and one TYPE, in front of its lines."""
    for odd in ODD:
        connection.heartbeat(worker=odd)
        connection.heartbeat(worker=f"of {odd}", host=f"{odd}\n\t\r\x01{odd}")
    connection.create_topic(topic="a-b.c_d", partitions=2)
    connection.create_group(topic="a-b.c_d", consumer_group="g")
    connection.publish(topic="a-b.c_d", payload=1)
    new_queue(connection)
    text = connection.metrics_text()
    assert text.endswith("\n")
    rows = connection.metrics()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = key_of(sample.name, **sample.labels)
            assert key not in found
            found[key] = (family.type, family.documentation, sample.value)
    assert {*found} == {key_of(row.name, **row.labels) for row in rows}
    for row in rows:
        kind, text_of, value = found[key_of(row.name, **row.labels)]
        assert (kind, text_of) == (row.type, row.help)
        if not row.name.endswith("_seconds"):
            assert value == row.value, row.name
    lines = text.splitlines()
    helps = [line.split()[2] for line in lines if line.startswith("# HELP ")]
    assert len(helps) == len({*helps}) == len({row.name for row in rows})


@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e308", "0.1", "-0"])
def test_values(connection: Session, value: str) -> None:
    [(line,)] = connection.execute(
        "select pgq._exposition_line('m', '{\"a\": \"b\"}', %s::double precision)", [value]
    ).fetchall()
    [family] = text_string_to_metric_families(f"# TYPE m gauge\n{line}\n")
    [sample] = family.samples
    assert sample.labels == {"a": "b"}
    if value == "NaN":
        assert math.isnan(sample.value)
    else:
        assert sample.value == float(value)
