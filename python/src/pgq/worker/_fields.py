"""JSON values as dataclasses, and as what their fields hold, without a library."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pgq._durations import is_naive

__all__ = ["Unfit", "Unknown", "reader"]

Read = Callable[[Any], Any]

_NAMES: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    list: "an array",
    str: "a text",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}
_ARRAYS = (list, set, frozenset, tuple)
_NO_KEYS = (bool, int, float)
"""What the names of an object, which are texts, do not turn into."""


class Unknown(TypeError):
    """A type that is not read here."""


class Unfit(ValueError):
    """A value that is not of the type, with the path to it."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(f"{path.lstrip('.')}: {what}" if path else what)
        self._what = what
        self._path = path

    def below(self, step: str) -> Unfit:
        """The same, seen from what the value is a part of."""
        return Unfit(self._what, step + self._path)


def reader(kind: Any, known: dict[Any, Read] | None = None) -> Read:
    """What makes a value of a type out of a value of JSON; it raises Unfit.

    Unknown: the type, or one inside it, is none of those that are read here.
    """
    known = {} if known is None else known
    if kind in (Any, object):
        return lambda value: value
    if kind is None or kind in _NAMES:
        return _plain(kind or type(None))
    if kind in _FROM_TEXT:
        return _from_text(kind, _FROM_TEXT[kind])
    if dataclasses.is_dataclass(kind):
        return known[kind] if kind in known else _dataclass(kind, known)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of(kind, [member.value for member in kind])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return _one_of(None, arguments)
    if origin in (typing.Union, types.UnionType):
        return _union([reader(one, known) for one in arguments])
    if origin is dict and arguments[0] not in _NO_KEYS:
        return _object(*(reader(one, known) for one in arguments))
    if origin in _ARRAYS:
        each = [reader(one, known) for one in arguments if one is not ...]
        return _array(origin, each, fixed=origin is tuple and ... not in arguments)
    raise Unknown(f"{kind} is not read without a library")


def _wants(kind: type, value: Any) -> Any:
    """The value, which has to be of this type."""
    fits = isinstance(value, (int, float) if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        found = _NAMES.get(type(value), type(value).__name__)
        raise Unfit(f"{_NAMES[kind]} is wanted, not {found}")
    return value


def _plain(kind: type) -> Read:
    return lambda value: _wants(kind, value)


def _moment(text: str) -> datetime:
    # Python 3.10 does not know the Z
    found = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)
    if is_naive(found):
        raise Unfit(f"{text[:80]!r} has no time zone")
    return found


_FROM_TEXT: dict[type, Read] = {
    Decimal: Decimal,
    UUID: UUID,
    date: date.fromisoformat,
    datetime: _moment,
    time: time.fromisoformat,
}


def _from_text(kind: type, convert: Read) -> Read:
    def read(value: Any) -> Any:
        if kind is Decimal and type(value) in (int, float, Decimal):
            return value if isinstance(value, Decimal) else Decimal(str(value))
        text = _wants(str, value)
        try:
            return convert(text)
        except Unfit:
            raise
        except (ArithmeticError, ValueError):
            raise Unfit(f"{text[:80]!r} is no {kind.__name__}") from None

    return read


def _one_of(kind: type[Enum] | None, values: typing.Iterable[Any]) -> Read:
    allowed = [*values]

    def read(value: Any) -> Any:
        for one in allowed:
            if type(one) is type(value) and one == value:
                return value if kind is None else kind(value)
        raise Unfit(f"{value!r:.80} is none of {', '.join(map(repr, allowed))}")

    return read


def _union(each: list[Read]) -> Read:
    def read(value: Any) -> Any:
        refused: list[Unfit] = []
        for one in each:
            try:
                return one(value)
            except Unfit as error:
                refused.append(error)
        raise Unfit(" or ".join(dict.fromkeys(map(str, refused))))

    return read


def _object(key: Read, item: Read) -> Read:
    def read(value: Any) -> Any:
        made = {}
        for name, one in _wants(dict, value).items():
            try:
                made[key(name)] = item(one)
            except Unfit as error:
                raise error.below(f".{name}") from None
        return made

    return read


def _array(kind: Callable[[Any], Any], each: list[Read], *, fixed: bool) -> Read:
    def read(value: Any) -> Any:
        items = _wants(list, value)
        if fixed and len(items) != len(each):
            raise Unfit(f"{len(each)} items are wanted, not {len(items)}")
        made = []
        for place, one in enumerate(items):
            try:
                made.append(each[place if fixed else 0](one))
            except Unfit as error:
                raise error.below(f"[{place}]") from None
        return kind(made)

    return read


def _dataclass(kind: Any, known: dict[Any, Read]) -> Read:
    readers: dict[str, Read] = {}
    required: set[str] = set()

    def read(value: Any) -> Any:
        given = _wants(dict, value)
        made = {}
        for name, read_field in readers.items():
            if name not in given:
                if name in required:
                    raise Unfit("is missing", f".{name}")
                continue
            try:
                made[name] = read_field(given[name])
            except Unfit as error:
                raise error.below(f".{name}") from None
        try:
            return kind(**made)
        except (TypeError, ValueError) as error:  # of its __post_init__
            raise Unfit(str(error)) from None

    known[kind] = read  # before its fields: one of them may be of the same type
    hints = typing.get_type_hints(kind)
    for one in dataclasses.fields(kind):
        if one.init:
            readers[one.name] = reader(hints[one.name], known)
            if one.default is one.default_factory is dataclasses.MISSING:
                required.add(one.name)
    return read
