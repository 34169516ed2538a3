"""Columns of Arrow as arrays of PostgreSQL in binary form; Python takes no step for each value."""

from __future__ import annotations

import struct
import sys
from array import array
from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

__all__ = ["Integers", "Texts", "register"]

_INT4, _INT4_ARRAY, _TEXT, _TEXT_ARRAY = 23, 1007, 25, 1009


class _Packed:
    """An array of one dimension, counted from 1, in the form in which it is sent."""

    def __init__(self, kind: int, size: int, values: bytes, *, has_nulls: bool) -> None:
        self.packed = struct.pack("!iiIii", 1, has_nulls, kind, size, 1) + values


class Integers(_Packed):
    """integer[], of a column of 32 bits without nulls."""

    def __init__(self, values: Any) -> None:
        numbers = _numbers(values)
        # before each number its length in bytes
        pairs = array("i", [4]) * (2 * len(numbers))
        pairs[1::2] = numbers
        super().__init__(_INT4, len(numbers), _big_endian(pairs).tobytes(), has_nulls=False)


class Texts(_Packed):
    """text[], of a column of texts, some of which may be null."""

    def __init__(self, values: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        # before each text its length in bytes, -1 for a null; Arrow puts them one behind the other
        size = len(values)
        content = values.cast(pa.binary())
        lengths = pc.fill_null(pc.binary_length(content), -1).cast(pa.int32())
        places = array("i", range(0, 4 * size + 1, 4))
        heads = [None, pa.py_buffer(places), pa.py_buffer(_big_endian(_numbers(lengths)))]
        before = pa.Array.from_buffers(pa.binary(), size, heads)
        joined = pc.binary_join_element_wise(before, pc.fill_null(content, b""), b"")
        _, offsets, data = joined.buffers()
        ends = memoryview(offsets).cast("i")
        first, last = ends[joined.offset], ends[joined.offset + size]
        super().__init__(
            _TEXT, size, bytes(memoryview(data)[first:last]), has_nulls=values.null_count > 0
        )


def register(cursor: psycopg.Cursor[Any]) -> None:
    """Let a cursor send these."""
    cursor.adapters.register_dumper(Integers, _IntegersDumper)
    cursor.adapters.register_dumper(Texts, _TextsDumper)


def _numbers(values: Any) -> array[int]:
    """What a column of 32 bits without nulls has."""
    place, size = values.offset, len(values)
    numbers = array("i")
    numbers.frombytes(memoryview(values.buffers()[1]).cast("B")[4 * place : 4 * (place + size)])
    return numbers


def _big_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: _Packed) -> bytes:
        return obj.packed


class _IntegersDumper(_PackedDumper):
    oid = _INT4_ARRAY


class _TextsDumper(_PackedDumper):
    oid = _TEXT_ARRAY
