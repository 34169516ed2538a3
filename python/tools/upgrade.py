"""Write migrations/pgq--A--B.sql, the way from the last released version to the one in sql/.

Functions, views, comments and privileges are taken from the sources: what is new or has changed is
made, what cannot be replaced is dropped before and gets its grants back. How tables, types and all
else change stands in ``migrations/changes/B/``, written by hand, a file for each feature, and is
put between the two in the order of the names. A function or view that is dropped there, because it
is in the way, is created again.

The result is tried out: a database that was led to B by it has to equal a fresh one.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

import build
from catalog import describe
from pgq.embedded import Server
from statements import Statement, statements
from upgrade_blocks import GUARD, KEEP, LOCK

__all__ = ["Side", "earlier", "generate", "main", "upgrade_path"]

Key = tuple[str, str]
"""function or view, and the name."""

_DROPPED_BY_HAND = re.compile(r"^drop (function|view) (?:if exists )?pgq\.(\w+)", re.MULTILINE)

# what create or replace cannot change, and what it can only add to
_FUNCTIONS = """
select p.proname,
    pg_get_function_identity_arguments(p.oid) || ' -> ' || pg_get_function_result(p.oid),
    p.pronargdefaults
from pg_proc as p
where p.pronamespace = 'pgq'::regnamespace
"""
_VIEWS = """
select c.relname,
    array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) order by a.attnum)
from pg_class as c
join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0
where c.relnamespace = 'pgq'::regnamespace
and c.relkind = 'v'
group by c.relname
"""
_RELATIONS = """
select c.relname
from pg_class as c
where c.relnamespace = 'pgq'::regnamespace
and c.relkind in ('r', 'p', 'S')
"""


@dataclass(frozen=True)
class Side:
    """One of the two versions: what installs it, and what the catalog then says."""

    script: list[Statement]
    functions: dict[str, tuple[str, int]]
    """Arguments and result, and the number of defaults."""
    views: dict[str, list[str]]
    """Columns with their types."""
    relations: set[str]
    """Tables and sequences."""

    @classmethod
    def read(cls, script: str, connection: psycopg.Connection[Any]) -> Side:
        """Both halves, the second one from a database where the script was run."""
        functions = connection.execute(_FUNCTIONS.encode()).fetchall()
        views = connection.execute(_VIEWS.encode()).fetchall()
        relations = connection.execute(_RELATIONS.encode()).fetchall()
        return cls(
            statements(script),
            {name: (signature, defaults) for name, signature, defaults in functions},
            dict(views),
            {name for (name,) in relations},
        )

    def has(self, key: Key) -> bool:
        """Whether there is such a function or view."""
        return key[1] in (self.functions if key[0] == "function" else self.views)

    def texts(self) -> set[str]:
        """What is said word by word."""
        return {statement.text for statement in self.script}


def generate(before: str, after: str, old: Side, new: Side, changes: str) -> str:
    """The script from version ``before`` to version ``after``."""
    by_hand = {(kind, name) for kind, name in _DROPPED_BY_HAND.findall(changes)}
    dropped = _dropped(old, new, by_hand)
    made = {key for key in dropped if new.has(key)} | {
        key for key in _keys(new) if not old.has(key)
    }
    anew = sorted(name for _, name in dropped & made)
    opened = [name for name in anew if any(_opens(each, name) for each in old.script)]
    parts = [
        f"\\echo Upgrading pgq to {after} \\set ON_ERROR_STOP on\n"
        f"-- generated from sql/ and migrations/changes/{after} by python/tools/upgrade.py:"
        " edit there, not here",
        GUARD.format(before=before, after=after),
        LOCK.format(before=before, after=after),
        *([KEEP.format(names=", ".join(anew), opened=", ".join(opened))] if anew else []),
        *_drops(old, dropped - by_hand),
        changes,
        "-- ==== sql/",
        *_additions(old, new, made),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _keys(side: Side) -> Iterator[Key]:
    yield from (("view", name) for name in side.views)
    yield from (("function", name) for name in side.functions)


def _dropped(old: Side, new: Side, by_hand: set[Key]) -> set[Key]:
    """What has to go, for good or to be made anew: also each view that uses what goes."""
    gone = {key for key in _keys(old) if not _replaceable(old, new, key)} | by_hand
    while True:
        using = {
            ("view", _view_of(statement))
            for statement in old.script
            if statement.kind in ("view", "trigger")
            if any(statement.mentions(name) for _, name in gone)
        }
        if using <= gone:
            return gone
        gone |= using


def _replaceable(old: Side, new: Side, key: Key) -> bool:
    kind, name = key
    if not new.has(key):
        return False
    if kind == "view":
        return new.views[name][: len(old.views[name])] == old.views[name]
    (signature, defaults), (wanted, kept) = old.functions[name], new.functions[name]
    return signature == wanted and defaults <= kept


def _view_of(statement: Statement) -> str:
    """The name of the view, or of the one that a trigger is on."""
    return statement.name.rpartition("pgq.")[2]


def _drops(old: Side, dropped: set[Key]) -> Iterator[str]:
    # views first: they use functions, and later ones may use earlier ones
    for kind in ("view", "function"):
        names = [each.name for each in old.script if (each.kind, each.name) in dropped]
        lines = [f"drop {kind} pgq.{name};" for name in reversed(names) if (kind, name) in dropped]
        if lines:
            yield "\n".join(lines)


def _additions(old: Side, new: Side, made: set[Key]) -> Iterator[str]:
    known = old.texts()
    for statement in new.script:
        kind, key = statement.kind, (statement.kind, statement.name)
        if kind in ("function", "view"):
            if key in made:
                yield statement.text
            elif statement.text not in known:
                yield statement.text.replace("create ", "create or replace ", 1)
        elif kind == "trigger":
            if statement.text not in known or ("view", _view_of(statement)) in made:
                yield statement.text.replace("create ", "create or replace ", 1)
        elif kind == "comment":
            if statement.text not in known or _commented(statement) in made:
                yield statement.text
        elif kind == "privilege":
            new_object = any(statement.mentions(name) for _, name in made)
            if statement.text not in known or new_object:
                yield statement.text
        elif key == ("block", "revoke_others"):
            # all of them only in a fresh install, where nobody was granted anything
            names = sorted({name for _, name in made} | (new.relations - old.relations))
            yield statement.text.replace("null", f"'{{{','.join(names)}}}'")
        elif key == ("block", "dump_configuration"):
            yield statement.text


def _opens(statement: Statement, name: str) -> bool:
    """Whether it grants something of that name to all."""
    return (
        statement.kind == "privilege"
        and statement.mentions(name)
        and statement.text.endswith("to public;")
    )


def _commented(statement: Statement) -> Key:
    """The function or view that a comment is on, or on a column of."""
    kind, _, target = statement.name.partition(" ")
    name = re.match(r"pgq\.(\w+)", target)
    return "view" if kind == "column" else kind, name[1] if name else target


# ---------------------------------------------------------------------------- this repository


def earlier() -> str | None:
    """The version to come from: the last one before this, None where this is the first."""
    scripts = (build.ROOT / "migrations").glob("pgq--*.sql")
    versions = [path.stem.removeprefix("pgq--") for path in scripts if path.stem.count("--") == 1]
    return max(
        (found for found in versions if _order(found) < _order(build.version())),
        key=_order,
        default=None,
    )


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def upgrade_path(before: str) -> Path:
    """Where the script belongs."""
    return build.ROOT / "migrations" / f"pgq--{before}--{build.version()}.sql"


def main() -> int:
    """Write the script, or with --check tell whether the one there is up to date."""
    before, after = earlier(), build.version()
    if before is None:
        return 0
    path = upgrade_path(before)
    if build.released():
        # like the script for a fresh install, which build.py compares, it stays as it is
        return 0 if path.exists() else _refuse(f"{path.name} is missing, and {after} is released")
    if not build.released(before):
        return _refuse(f"pgq--{before}.sql is of no released version: remove it")
    by_hand = build.ROOT / "migrations" / "changes" / after
    changes = "\n\n".join(
        f"-- ==== {path.relative_to(build.ROOT)}\n\n{path.read_text().strip()}"
        for path in sorted(by_hand.glob("*.sql"))
    )
    script, problem = _tried(before, after, changes)
    if problem:
        return _refuse(
            f"{path.name} does not lead to what sql/ is. What is missing belongs into"
            f" {by_hand.relative_to(build.ROOT)} (CONTRIBUTING.md, change a table).\n{problem}"
        )
    if path.exists() and path.read_text() == script:
        return 0
    if "--check" in sys.argv[1:]:
        return _refuse(f"migrations/{path.name} is out of date: run make build")
    path.write_text(script)
    print(f"wrote migrations/{path.name} ({len(script.splitlines())} lines)")
    return 0


def _refuse(why: str) -> int:
    print(why, file=sys.stderr)
    return 1


def _tried(before: str, after: str, changes: str) -> tuple[str, str]:
    """The script, and what is wrong with it."""
    start, end = (build.ROOT / "migrations" / f"pgq--{before}.sql").read_text(), build.flatten()
    with Server(settings={"fsync": "off"}) as server:
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute("create database upgraded")
        with (
            psycopg.connect(server.dsn, autocommit=True) as fresh,
            psycopg.connect(server.dsn_for("upgraded"), autocommit=True) as upgraded,
        ):
            _run(fresh, end)
            _run(upgraded, start)
            old, new = Side.read(start, upgraded), Side.read(end, fresh)
            script = generate(before, after, old, new, changes)
            try:
                _run(upgraded, script)
            except psycopg.Error as error:
                return script, f"it fails: {error}"
            difference = difflib.unified_diff(
                describe(upgraded).splitlines(), describe(fresh).splitlines(), n=0, lineterm=""
            )
            lines = [line for line in list(difference)[2:] if not line.startswith("@@")]
            return script, "\n".join(
                ["- after the upgrade, + in a fresh one", *lines] if lines else []
            )


def _run(connection: psycopg.Connection[Any], script: str) -> None:
    with connection.transaction():
        # without psql's line
        connection.execute(script.partition("\n")[2].encode())


if __name__ == "__main__":
    sys.exit(main())
