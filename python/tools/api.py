"""The API as the catalog of an installed database knows it: functions, what they return, views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import psycopg

__all__ = ["Argument", "Column", "Function", "View", "functions", "views"]

_COLUMNS = """
select jsonb_agg(
    jsonb_build_array(
        a.attname,
        format_type(a.atttypid, a.atttypmod),
        coalesce(col_description(a.attrelid, a.attnum), '')
    )
    order by a.attnum
)
from pg_attribute as a
where a.attrelid = {relation}
and a.attnum > 0
and not a.attisdropped
"""

# a name that begins with _ is private
_FUNCTIONS = f"""
select p.proname,
    coalesce(obj_description(p.oid, 'pg_proc'), ''),
    p.provolatile <> 'v',
    case when p.proretset and p.prorows <> 1 then 'rows'
        when p.proretset or t.typtype = 'c' then 'row'
        else 'scalar'
    end,
    format_type(p.prorettype, null),
    (
        select coalesce(
            jsonb_agg(
                jsonb_build_array(
                    p.proargnames[place],
                    format_type(p.proargtypes[place - 1], null),
                    pg_get_function_arg_default(p.oid, place)
                )
                order by place
            ),
            '[]'
        )
        from generate_series(1, p.pronargs) as place
    ),
    coalesce(
        ({_COLUMNS.format(relation="nullif(t.typrelid, 0)")}),
        (
            select jsonb_agg(
                jsonb_build_array(c.name, format_type(c.type, null), '') order by c.place
            )
            from unnest(p.proargnames, p.proargmodes, p.proallargtypes)
                with ordinality as c (name, mode, type, place)
            where c.mode = 't'
        ),
        '[]'
    )
from pg_proc as p
join pg_type as t on t.oid = p.prorettype
where p.pronamespace = 'pgq'::regnamespace
and not starts_with(p.proname, '_')
order by p.proname
"""

_VIEWS = f"""
select c.relname,
    coalesce(obj_description(c.oid, 'pg_class'), ''),
    ({_COLUMNS.format(relation="c.oid")})
from pg_class as c
where c.relnamespace = 'pgq'::regnamespace
and c.relkind = 'v'
and not starts_with(c.relname, '_')
order by c.relname
"""


@dataclass(frozen=True)
class Argument:
    """An argument of a function."""

    name: str
    type: str
    default: str | None
    """As SQL, null for instance; None where the argument is required."""


@dataclass(frozen=True)
class Column:
    """A column of a result or of a view."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Function:
    """A function of the API."""

    name: str
    comment: str
    reads_only: bool
    returns: Literal["scalar", "row", "rows"]
    result: str
    """The type of what it returns, or of each row."""
    arguments: tuple[Argument, ...]
    columns: tuple[Column, ...]
    """Those of the rows that it returns; none where the result is a plain value."""

    @property
    def composite(self) -> str | None:
        """The named type of the rows, None where they have none."""
        return self.result if self.columns and self.result.startswith("pgq.") else None


@dataclass(frozen=True)
class View:
    """A view of the API."""

    name: str
    comment: str
    columns: tuple[Column, ...]


def functions(connection: psycopg.Connection[Any]) -> list[Function]:
    """The functions of the API, by name."""
    with connection.transaction():
        connection.execute("set local search_path = pg_catalog")
        rows = connection.execute(_FUNCTIONS.encode()).fetchall()
    return [
        Function(
            name,
            comment,
            reads_only,
            returns,
            result,
            tuple(Argument(each, kind, _plain(default)) for each, kind, default in arguments),
            _columns(columns),
        )
        for name, comment, reads_only, returns, result, arguments, columns in rows
    ]


def views(connection: psycopg.Connection[Any]) -> list[View]:
    """The views of the API, by name."""
    with connection.transaction():
        connection.execute("set local search_path = pg_catalog")
        rows = connection.execute(_VIEWS.encode()).fetchall()
    return [View(name, comment, _columns(columns)) for name, comment, columns in rows]


def _columns(rows: list[list[str]]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


def _plain(default: str | None) -> str | None:
    """A default as one writes it: without the cast that the catalog adds."""
    if default is None:
        return None
    value, cast, _ = default.rpartition("::")
    value = value if cast else default
    return value.lower() if value.startswith("NULL") else value
