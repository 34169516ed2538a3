"""Write sql/REFERENCE.md from what COMMENT ON says in a freshly installed database."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from build import ROOT, flatten, included
from pgq.embedded import Server

REFERENCE = ROOT / "sql" / "REFERENCE.md"
GROUPS = {
    "log": "The log",
    "queue": "The queue",
    "bulk": "Bulk writes",
    "retention": "Retention",
    "shared": "General",
}

_FUNCTIONS = """
select p.oid,
    p.proname,
    pg_get_function_result(p.oid),
    p.proretset,
    p.provolatile,
    coalesce(p.proargnames, '{}'),
    coalesce(p.proargmodes::text[], '{}'),
    array(
        select format_type(type, null)
        from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality
            as t (type, at)
        order by at
    ),
    array(
        select pg_get_function_arg_default(p.oid, at)
        from generate_series(1, p.pronargs) as at
        order by at
    ),
    coalesce(obj_description(p.oid, 'pg_proc'), '')
from pg_proc as p
where p.pronamespace = 'pgq'::regnamespace
and p.proname not like '\\_%'
and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
order by p.proname
"""

_RELATIONS = """
select c.relname,
    coalesce(obj_description(c.oid, 'pg_class'), obj_description(c.reltype, 'pg_type'), ''),
    array(
        select array[
            a.attname,
            format_type(a.atttypid, a.atttypmod),
            coalesce(col_description(c.oid, a.attnum), '')
        ]
        from pg_attribute as a
        where a.attrelid = c.oid
        and a.attnum > 0
        and not a.attisdropped
        order by a.attnum
    )
from pg_class as c
where c.relnamespace = 'pgq'::regnamespace
and c.relkind = any (%s)
and not c.relispartition
order by c.relname
"""


@dataclass(frozen=True)
class Argument:
    """One argument, or one column of a result table."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True)
class Function:
    """A function of the API."""

    name: str
    result: str
    many: bool
    volatility: str
    arguments: tuple[Argument, ...]
    columns: tuple[Argument, ...]
    comment: str

    def render(self) -> Iterator[str]:
        summary, _, details = self.comment.partition("\n")
        yield f"### {self.name}"
        yield ""
        yield summary
        yield ""
        yield "```sql"
        yield from self._signature()
        yield "```"
        yield ""
        if self.arguments:
            yield "| argument | type | default |"
            yield "|---|---|---|"
            for argument in self.arguments:
                default = "required" if argument.default is None else f"`{argument.default}`"
                yield f"| `{argument.name}` | {argument.type} | {default} |"
            yield ""
        if self.columns:
            yield "| result | type |"
            yield "|---|---|"
            yield from (f"| `{column.name}` | {column.type} |" for column in self.columns)
            yield ""
        if details.strip():
            yield details.strip()
            yield ""

    def _signature(self) -> Iterator[str]:
        result = self.result.replace("SETOF ", "setof ")
        if self.columns:
            result = f"table ({', '.join(column.name for column in self.columns)})"
        names = ", ".join(argument.name for argument in self.arguments)
        yield from textwrap.wrap(
            f"pgq.{self.name}({names}) -> {result}", width=96, subsequent_indent="    "
        )


def _read_functions(connection: psycopg.Connection[Any]) -> list[Function]:
    functions = []
    for row in connection.execute(_FUNCTIONS):
        _, name, result, many, volatility, names, modes, types, defaults, comment = row
        modes = modes or ["i"] * len(names)
        arguments: list[Argument] = []
        columns: list[Argument] = []
        for argument, mode, type_name in zip(names, modes, types, strict=True):
            if mode in "ibv":
                default = defaults[len(arguments)]
                arguments.append(Argument(argument, type_name, _plain(default)))
            else:
                columns.append(Argument(argument, type_name, None))
        functions.append(
            Function(name, result, many, volatility, tuple(arguments), tuple(columns), comment)
        )
    return functions


def _plain(default: str | None) -> str | None:
    """A default as one writes it: without the cast that the catalog adds."""
    if default is None:
        return None
    value, cast, _ = default.rpartition("::")
    value = value if cast else default
    return value.lower() if value.startswith("NULL") else value


def _relations(connection: psycopg.Connection[Any], title: str, kinds: str) -> Iterator[str]:
    rows = connection.execute(_RELATIONS, [list(kinds)]).fetchall()
    if rows:
        yield f"## {title}"
        yield ""
    for name, comment, columns in rows:
        yield f"### {name}"
        yield ""
        yield from comment.splitlines()
        yield ""
        noted = any(column[2] for column in columns)
        yield "| column | type | |" if noted else "| column | type |"
        yield "|---|---|---|" if noted else "|---|---|"
        for column, type_name, text in columns:
            yield f"| `{column}` | {type_name} |" + (f" {text} |" if noted else "")
        yield ""


def render(connection: psycopg.Connection[Any]) -> str:
    """The whole page."""
    connection.execute("set search_path = ''")
    folder = {path.stem: path.parent.name for path in included()}
    functions = _read_functions(connection)
    lines = [
        "<!-- generated from COMMENT ON by python/tools/reference.py: edit the comments -->",
        "",
        "# Reference",
        "",
        "Every function takes its arguments by name (`topic => 'orders'`). Errors carry the codes",
        "listed in [README.md](README.md). The functions come by feature, then the types they",
        "return, the views, and the tables behind them, which no caller touches.",
        "",
    ]
    for group, title in GROUPS.items():
        members = [entry for entry in functions if folder.get(entry.name, "shared") == group]
        if members:
            lines += [f"- {title}: " + ", ".join(f"[{m.name}](#{m.name})" for m in members)]
    lines.append("")
    for group, title in GROUPS.items():
        members = [entry for entry in functions if folder.get(entry.name, "shared") == group]
        if members:
            lines += [f"## {title}", ""]
        for function in members:
            lines.extend(function.render())
    lines.extend(_relations(connection, "Types", "c"))
    lines.extend(_relations(connection, "Views", "v"))
    lines.extend(_relations(connection, "Tables", "rp"))
    return "\n".join(lines).rstrip() + "\n"


def generate() -> str:
    """The page of the sources as they are now, installed into a database of a temporary server."""
    script = flatten().partition("\n")[2]
    with Server() as server, psycopg.connect(server.dsn) as connection:
        # installed and read in one transaction that is never committed
        connection.execute(script)
        page = render(connection)
        connection.rollback()
    return page


def main() -> int:
    """Write the page, or with --check tell whether the one there is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    options = parser.parse_args()
    page = generate()
    if REFERENCE.exists() and REFERENCE.read_text() == page:
        return 0
    if options.check:
        print("sql/REFERENCE.md does not match sql/: run make reference", file=sys.stderr)
        return 1
    REFERENCE.write_text(page)
    print("wrote sql/REFERENCE.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
