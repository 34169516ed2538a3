"""The one way in which tests call pgq: a connection whose methods are its functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

__all__ = ["Connect", "Session", "contents", "new_name", "refused", "row", "unchanged"]


class Session(psycopg.Connection[Any]):
    """A connection with the functions of the schema pgq: ``session.ack(job_id=1, …)``.

    A function that returns a set gives a list of named tuples, one that returns one row a named
    tuple, or None where it has none, any other its value. Payloads and headers are Python values;
    where one is a text, that is JSON already.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda **arguments: self.call(name, **arguments)

    def call(self, function: str, /, **arguments: Any) -> Any:
        """The same for a function by name."""
        signature = _signature(self, function)
        with self.cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(signature.call_with(arguments), _adapted(arguments))
            if signature.rows == "many":
                return cursor.fetchall()
            row = cursor.fetchone()
        if signature.rows == "one":
            return row
        assert row is not None
        return row[0]

    @property
    def pid(self) -> int:
        """The server process of the connection."""
        return self.info.backend_pid


Connect = Callable[..., Session]


# ---------------------------------------------------------------------------- signatures


@dataclass(frozen=True)
class _Signature:
    """The types of a function's arguments, and whether it returns one row, many, or a value."""

    function: str
    types: dict[str, str]
    rows: str

    def call_with(self, names: Sequence[str] | dict[str, Any]) -> sql.Composed:
        return sql.SQL("select * from pgq.{}({})").format(
            sql.Identifier(self.function), sql.SQL(", ").join(map(self._argument, names))
        )

    def _argument(self, name: str) -> sql.Composed:
        given = sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name))
        kind = self.types.get(name)
        if kind in ("text", "text[]"):
            # as a column of the caller's may be; no function may mind
            kind += ' collate "POSIX"'
        return sql.SQL("{}::" + kind).format(given) if kind else given


_signatures: dict[str, _Signature] = {}


def _signature(session: Session, function: str) -> _Signature:
    """What the catalog says; asked once, by another session, so that this one takes no snapshot."""
    if function not in _signatures:
        info = session.info
        with psycopg.connect(info.dsn, password=info.password) as other:
            found = other.execute(
                """
                select
                    p.proname,
                    coalesce(p.proargnames, '{}'),
                    array(
                        select a.type::regtype::text
                        from unnest(p.proargtypes) with ordinality as a (type, n)
                        order by a.n
                    ),
                    case
                        when not p.proretset then 'none'
                        when p.prorows = 1 then 'one'
                        else 'many'
                    end
                from pg_proc as p
                where p.pronamespace = 'pgq'::regnamespace
                """
            )
            for name, arguments, types, rows in found:
                _signatures[name] = _Signature(name, dict(zip(arguments, types)), rows)
    return _signatures.get(function) or _Signature(function, {}, "many")


def _adapted(arguments: dict[str, Any]) -> dict[str, Any]:
    """Wrap what is JSON: payloads and headers; null stays None."""

    def wrap(value: Any) -> Any:
        ready = value is None or isinstance(value, str | Jsonb)
        # an array within an array, which is what a test of refusals gives
        ready = ready or (isinstance(value, list) and any(isinstance(v, Jsonb) for v in value))
        return value if ready else Jsonb(value)

    wrapped = dict(arguments)
    for name in ("payload", "headers", "payloads", "filter", "progress"):
        value = wrapped.get(name)
        if isinstance(value, list) and name != "payload":
            wrapped[name] = [wrap(element) for element in value]
        elif name in wrapped:
            wrapped[name] = wrap(value)
    return wrapped


# ---------------------------------------------------------------------------- names and contents

_numbers = itertools.count(1)


def new_name(stem: str) -> str:
    """A name that no other test of the run uses."""
    return f"{stem}-{next(_numbers)}"


def row(session: psycopg.Connection[Any], query: str, parameters: Sequence[Any] = ()) -> Any:
    """The one row of a query."""
    [found] = session.execute(query.encode(), parameters).fetchall()
    return found


def contents(session: psycopg.Connection[Any]) -> dict[str, tuple[int, int]]:
    """The number of rows and a digest of their versions, for every table of pgq that has rows."""
    tables = session.execute(
        "select relname from pg_class"
        " where relnamespace = 'pgq'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0"
    ).fetchall()
    # where a row stands and who wrote it: its values would take many times as long
    parts = [
        sql.SQL(
            "select {}, count(*), coalesce(sum(hashtid(ctid) # xmin::text::bigint), 0) from pgq.{}"
        ).format(sql.Literal(name), sql.Identifier(name))
        for (name,) in tables
    ]
    rows = session.execute(sql.SQL(" union all ").join(parts)).fetchall()
    return {name: (count, int(digest)) for name, count, digest in rows if count}


@contextmanager
def unchanged(session: psycopg.Connection[Any]) -> Iterator[None]:
    """What is in the block must leave every table of pgq as it was."""
    before = contents(session)
    yield
    assert contents(session) == before


def refused(
    sqlstate: str, function: Callable[..., Any], *names: str, **arguments: Any
) -> psycopg.Error:
    """Call a function that must fail with this SQLSTATE, and return its error."""
    with pytest.raises(psycopg.Error) as caught:
        function(*names, **arguments)
    assert caught.value.sqlstate == sqlstate, f"{arguments}: {caught.value}"
    return caught.value
