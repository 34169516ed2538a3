"""Writing values as JSON: payloads, headers, results and progress."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn
from uuid import UUID

from psycopg.types.json import Json, Jsonb

from pgq._durations import NAIVE, is_naive
from pgq._unreadable import Unreadable
from pgq.errors import UnreadablePayload

__all__ = ["DEFAULT", "Encoder", "Encoding", "encode"]

Encoder = Callable[[Any], Any]
"""Gets a value that JSON does not have, and returns one that it has, or whose parts are encoded in
their turn. TypeError: there is none."""

_INSTEAD: dict[type, str] = {bytes: "; send it as the body", set: "; make it a list"}

_LEAVES = (bytes, bytearray, memoryview, datetime, date, time, timedelta, UUID, Decimal)


def encode(value: Any) -> Any:
    """What is sent for a value that JSON does not have: the encoder of each client by default.

    A dataclass, a model of pydantic and a struct of msgspec are objects of their fields. A date, a
    time, and a datetime with a zone are texts in ISO 8601; a UUID and a Decimal are their texts, a
    member of an enum its value. For all else there is a TypeError: naive datetimes, sets, bytes.

    An encoder of one's own handles its types and leaves the others to this one::

        def encoder(value):
            return value.cents if isinstance(value, Money) else pgq.encode(value)


        client = pgq.connect("postgresql://…", encoder=encoder)
    """
    if type(value) is Unreadable:
        raise UnreadablePayload(value)
    if isinstance(value, Enum):
        return value.value
    if is_naive(value):
        raise TypeError(NAIVE)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal) and not value.is_finite():
        raise TypeError(f"{value} is not in JSON")
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    return _fields(value)


def _fields(value: Any) -> Any:
    kind = type(value)
    if is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in fields(kind)}
    if hasattr(kind, "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value, builtin_types=_LEAVES, enc_hook=encode)
    if hasattr(kind, "__pydantic_core_schema__"):
        return value.model_dump(by_alias=True)
    raise TypeError(f"{kind.__name__} is not in JSON{_INSTEAD.get(kind, '')}")


class Encoding:
    """Makes the texts of JSON values with an encoder."""

    def __init__(self, encoder: Encoder) -> None:
        if not callable(encoder):
            raise TypeError(f"encoder is {encoder!r}, must be a function of a value")
        self.encoder = encoder
        self._write = json.JSONEncoder(default=encoder, allow_nan=False).encode

    def text(self, name: str, value: Any) -> str:
        """The text of a value; a TypeError says what part of it has none, by its path."""
        try:
            return self._write(value)
        except UnreadablePayload:
            raise
        except Exception as error:
            with suppress(RecursionError):
                self._blame(name, value)
            raise TypeError(f"{name}: {error}") from error

    def jsonb(self, name: str, value: Any) -> Jsonb | None:
        """A value for an argument; None: it is not given. Json and Jsonb keep their own `dumps`."""
        if value is None:
            return None
        if isinstance(value, (Json, Jsonb)):
            if value.dumps is not None:
                return Jsonb(value.dumps(value.obj), _as_is)
            value = value.obj
        return Jsonb(self.text(name, value), _as_is)

    def _blame(self, path: str, value: Any) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            _refuse(path, f"{value} is not in JSON")
        if value is None or isinstance(value, (str, int, float)):
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                if key is not None and not isinstance(key, (str, int, float)):
                    _refuse(path, f"{type(key).__name__} as a key; make it a text")
                self._blame(f"{path}.{key}", inner)
        elif isinstance(value, (list, tuple)):
            for place, inner in enumerate(value):
                self._blame(f"{path}[{place}]", inner)
        else:
            try:
                inner = self.encoder(value)
            except Exception as error:
                _refuse(path, error)
            self._blame(path, inner)


def _refuse(path: str, why: object) -> NoReturn:
    raise TypeError(f"{path}: {why}") from (why if isinstance(why, Exception) else None)


def _as_is(text: Any) -> Any:
    return text


DEFAULT = Encoding(encode)
