"""How a method call becomes a statement; nothing of either client's I/O."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import psycopg

from pgq._durations import IN_SECONDS, duration, moment
from pgq._encoding import Encoding
from pgq._signatures import SIGNATURES


def _adapted(name: str, kind: str, value: Any, encoding: Encoding) -> Any:
    """An argument as psycopg is to send it."""
    if value is None:
        return None
    if kind == "jsonb":
        return encoding.jsonb(name, value)
    if kind == "jsonb[]":
        return [encoding.jsonb(f"{name}[{place}]", one) for place, one in enumerate(value)]
    if kind == "interval":
        return duration(name, value, numbers=name in IN_SECONDS)
    return list(value) if kind.endswith("[]") else moment(name, value)


def call(
    function: str,
    arguments: Mapping[str, Any],
    returns: type[Any] | str | None,
    encoding: Encoding,
) -> tuple[bytes, list[Any]]:
    """Build the call of a function; arguments that are None take their defaults.

    A required one has none: it is passed as null, which the function refuses by its name. `returns`
    is a dataclass for rows of its fields, the name of the only column wanted, or None for a
    function that returns one value.
    """
    types, required, _ = SIGNATURES[function]
    given = tuple(
        name for name, value in arguments.items() if value is not None or name in required
    )
    values = [_adapted(name, types[name], arguments[name], encoding) for name in given]
    known = (function, given, returns)
    if known not in _statements:
        _statements[known] = _call_statement(*known)
    return _statements[known], values


def view(
    name: str, returns: type[Any], conditions: Mapping[str, str | None]
) -> tuple[bytes, list[Any]]:
    """Build the reading of a view; conditions that are None are left out."""
    given = {column: value for column, value in conditions.items() if value is not None}
    return _view_statement(name, tuple(given), returns), list(given.values())


# The text of a statement is made once, so that psycopg recognises it and prepares it. Columns are
# named: a later version of a function may return more of them.
_statements: dict[tuple[str, tuple[str, ...], type[Any] | str | None], bytes] = {}


def _call_statement(
    function: str, given: tuple[str, ...], returns: type[Any] | str | None
) -> bytes:
    types = SIGNATURES[function].arguments
    arguments = ", ".join(f"{name} => {_placeholder(types[name])}" for name in given)
    if returns is None:
        return f"select pgq.{function}({arguments})".encode()
    columns = f'"{returns}"' if isinstance(returns, str) else _columns(returns)
    return f"select {columns} from pgq.{function}({arguments})".encode()


def _view_statement(name: str, given: tuple[str, ...], returns: type[Any]) -> bytes:
    conditions = " and ".join(f'"{column}" = %s::text' for column in given)
    where = f" where {conditions}" if given else ""
    return f"select {_columns(returns)} from pgq.{name}{where} order by 1, 2, 3".encode()


def _placeholder(kind: str) -> str:
    # Arrays travel in binary: their text form takes several times as long to write and to read.
    return f"{'%b' if kind.endswith('[]') else '%s'}::{kind}"


def _columns(returns: type[Any]) -> str:
    return ", ".join(f'"{field.name}"' for field in fields(returns))


def storable(value: Any, info: psycopg.ConnectionInfo) -> Any:
    """A text, or the texts of a JSON value, with escapes for what the database cannot have.

    That is NUL, lone surrogates, and what one of the two encodings lacks.
    """
    if isinstance(value, Mapping):
        return {storable(name, info): storable(inner, info) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(inner, info) for inner in value]
    if not isinstance(value, str):
        return value
    text = value.replace("\0", "\\0")
    for encoding in () if text.isascii() else _encodings(info):
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _encodings(info: psycopg.ConnectionInfo) -> Iterator[str]:
    """Those of the client and the server, by names that Python knows."""
    for parameter in ("client_encoding", "server_encoding"):
        name = info.parameter_status(parameter) or "UTF8"
        name = name.replace("WIN", "cp").replace("KOI8", "KOI8_")
        if name == "SQL_ASCII":  # any bytes
            name = "UTF8"
        try:
            yield codecs.lookup(name).name
        except LookupError:
            yield "ascii"
