"""The grammar of bounds: what may stand where a read begins and where it ends."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pgq.spark._bounds import Bound, moment

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("where", "bound"),
    [
        ("earliest", Bound(earliest=True)),
        (" Earliest ", Bound(earliest=True)),
        ("latest", Bound()),
        (NOON, Bound(time=NOON)),
        ({0: 5, 1: -2, 2: -1}, Bound(offsets={0: 5, 1: -2, 2: -1})),
        ('{"t": {"0": 5, "1": -2, "2": -1}}', Bound(offsets={0: 5, 1: -2, 2: -1})),
        ('{"t": {"0": 5}, "@id": 9}', Bound(offsets={0: 5}, topic_id=9)),
        ('{"t": {"0": 5}, "@id": 9, "@from": {"0": 1}}', Bound(offsets={0: 5}, topic_id=9)),
    ],
    ids=str,
)
def test_where_to_start(where: Any, bound: Bound) -> None:
    assert Bound.start("start", "t", where) == bound


@pytest.mark.parametrize("where", ["latest", NOON, {0: 5, 1: -1}, '{"t": {"0": 5}}'], ids=str)
def test_where_to_end(where: Any) -> None:
    """In the same words."""
    assert Bound.end("end", "t", where) == Bound.start("end", "t", where)


@pytest.mark.parametrize("where", ["earliest", {0: 1, 1: -2}, '{"t": {"0": -2}}'], ids=str)
def test_nothing_ends_at_the_earliest(where: Any) -> None:
    with pytest.raises(ValueError, match=r"^'end' is .* earliest"):
        Bound.end("end", "t", where)


@pytest.mark.parametrize("where", ["earliest", NOON, {0: -1}], ids=str)
def test_a_batch_does_not_start_at_the_latest(where: Any) -> None:
    """Other starts are those of a batch as well."""
    bound = Bound.start("start", "t", where)
    assert bound.of_batch("start") is bound
    with pytest.raises(ValueError, match="'start' must not be 'latest'"):
        Bound.start("start", "t", "latest").of_batch("start")


@pytest.mark.parametrize(
    "where",
    [
        "",
        "soon",
        "first",
        "null",
        "[1]",
        '{"t": 1}',
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
        {0: 0},
        {0: -3},
        {-1: 5},
        {0: 1.5},
        {0: True},
        {0: None},
        {"zero": 1},
    ],
    ids=str,
)
def test_bad_bounds_are_refused_by_name(where: Any) -> None:
    for check in (Bound.start, Bound.end):
        with pytest.raises(ValueError, match=r"^'name' "):
            check("name", "t", where)


def test_a_time_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="'start' needs a time zone"):
        Bound.start("start", "t", datetime(2026, 1, 1))


def test_a_time_as_an_option() -> None:
    """Milliseconds since 1970."""
    assert moment("name", "0") == datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert moment("name", "1767268800001") == NOON + timedelta(milliseconds=1)
    for text in ("", "-1", "1.5", "soon", "9" * 30):
        with pytest.raises(ValueError, match=r"'name' is .* milliseconds"):
            moment("name", text)
