"""Columns of Arrow arrive in the database as they are."""

from __future__ import annotations

import random

import psycopg
import pytest

from support.session import Session

pa = pytest.importorskip("pyarrow")

TEXTS = ["", "a", None, "ü日本", "null", "{", "x" * 70_000, None, "\\"]


@pytest.mark.parametrize("part", [slice(0, 9), slice(2, 7), slice(2, 3), slice(5, 5), slice(4, 6)])
def test_texts(log: Session, part: slice) -> None:
    """With nulls or without, also as a part of a longer column."""
    from pgq.spark._encode import Texts, register

    column = pa.array(TEXTS, pa.string())[part]
    assert _arrives(log, "%b::text[]", Texts(column), register) == TEXTS[part]


@pytest.mark.parametrize("part", [slice(0, 5), slice(1, 3), slice(3, 3)])
def test_integers(log: Session, part: slice) -> None:
    """From the least to the greatest."""
    from pgq.spark._encode import Integers, register

    numbers = [0, -1, 2**31 - 1, -(2**31), random.Random(7).randint(0, 1000)]
    column = pa.array(numbers, pa.int32())[part]
    assert _arrives(log, "%b::integer[]", Integers(column), register) == numbers[part]


def _arrives(log: Session, place: str, value: object, register: object) -> object:
    with psycopg.connect(log.info.dsn) as connection, connection.cursor() as cursor:
        register(cursor)  # type: ignore[operator]
        cursor.execute(f"select {place}".encode(), [value])
        row = cursor.fetchone()
        assert row is not None
        return row[0]
