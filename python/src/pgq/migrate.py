"""Install pgq into a database, or bring an installed pgq up to date, with the migration scripts.

``python -m pgq.migrate postgresql://…`` does so as well; without an address it takes DATABASE_URL,
or else libpq's own settings.

The scripts are the ones that ``create extension`` and psql use: ``pgq--X.sql`` installs version X,
``pgq--X--Y.sql`` leads from X to Y. All that is needed run in one transaction.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import IsolationLevel
from psycopg.rows import tuple_row

from pgq._conninfo import check_encoding, connecting, parsed

if TYPE_CHECKING:
    from typing_extensions import LiteralString

__all__ = ["Migration", "MigrationError", "available_versions", "migrate", "plan"]

# "pgqmigra" as a number: migrators of one database wait for each other on it
_LOCK = 0x7067716D69677261

_FOREIGN_SCHEMA = (
    "the schema pgq of this database was not made by this package "
    "(Skytools' PgQ, among others, also installs one): nothing was changed; "
    "use another database, or remove the other pgq first"
)
_EXTENSION = (
    "pgq is installed as an extension in this database: "
    "have an administrator run 'alter extension pgq update' instead"
)

AnyConnection = psycopg.Connection[Any]


class MigrationError(RuntimeError):
    """The database cannot be migrated; nothing was changed, and the message says why."""


@dataclass(frozen=True)
class Migration:
    """What a call of :func:`migrate` did."""

    before: str | None
    """The version found, None where pgq was not installed."""
    after: str
    """The version there is now."""
    scripts: tuple[str, ...]
    """The names of the scripts that were run, none where nothing was to be done."""


def migrate(target: str | AnyConnection, *, version: str | None = None) -> Migration:
    """Install or upgrade pgq in a database.

    ``target`` is a connection string, or a connection, whose open transaction is joined where
    there is one. ``version`` is the version to reach, by default the newest one that the package
    brings. Several callers at once all succeed: the first one does the work.

    Raises MigrationError where an extension pgq has another version, where the schema pgq is
    somebody else's, and where no scripts lead from the installed version to the one asked for.
    """
    if isinstance(target, str):
        parsed(target)
        with connecting(target, {}):
            made = psycopg.connect(target, client_encoding="utf8")
        with made as connection:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            return migrate(connection, version=version)
    scripts = _scripts(_folder())
    wanted = version if version is not None else _newest(scripts)
    with target.transaction():
        return _migrate(target, scripts, wanted)


def available_versions() -> tuple[str, ...]:
    """The versions that the package's scripts can reach, the oldest first."""
    versions = {name.rpartition("--")[2] for name in _scripts(_folder())}
    return tuple(sorted(versions, key=_order))


def plan(names: Iterable[str], before: str | None, after: str) -> tuple[str, ...]:
    """The shortest chain of scripts from one version (None: not installed) to another.

    >>> plan(["pgq--1.0", "pgq--1.0--1.1", "pgq--1.1--1.2"], None, "1.2")
    ('pgq--1.0', 'pgq--1.0--1.1', 'pgq--1.1--1.2')
    """
    steps: dict[str | None, dict[str, str]] = {}
    for name in names:
        _, first, *rest = name.split("--")
        if rest:
            steps.setdefault(first, {})[rest[0]] = name
        else:
            steps.setdefault(None, {})[first] = name
    if before == after:
        return ()
    paths: dict[str | None, tuple[str, ...]] = {before: ()}
    frontier: list[str | None] = [before]
    while frontier:
        reached: list[str | None] = []
        for at in frontier:
            # newest first: a later script for a fresh install is preferred to an older one
            for to in sorted(steps.get(at, {}), key=_order, reverse=True):
                if to not in paths:
                    paths[to] = (*paths[at], steps[at][to])
                    reached.append(to)
        if after in paths:
            return paths[after]
        frontier = reached
    origin = "a fresh install" if before is None else f"the installed version {before}"
    raise MigrationError(f"no scripts lead from {origin} to version {after}")


# ---------------------------------------------------------------------------- the scripts


def _folder() -> Path:
    inside = Path(__file__).parent / "migrations"
    if inside.is_dir():
        return inside
    checkout = Path(__file__).resolve().parents[3] / "migrations"
    if checkout.is_dir():
        return checkout
    raise MigrationError("the package brings no migration scripts: it was not built completely")


def _scripts(folder: Path) -> Mapping[str, Path]:
    pattern = re.compile(r"pgq--[0-9.]+(--[0-9.]+)?")
    return {path.stem: path for path in folder.glob("*.sql") if pattern.fullmatch(path.stem)}


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _newest(scripts: Mapping[str, Path]) -> str:
    if not scripts:
        raise MigrationError("the package brings no migration scripts: it was not built completely")
    return max((name.rpartition("--")[2] for name in scripts), key=_order)


def _statements(path: Path) -> str:
    # \echo is for psql; create extension skips such lines as well
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("\\echo"))


# ---------------------------------------------------------------------------- the database


def _migrate(connection: AnyConnection, scripts: Mapping[str, Path], wanted: str) -> Migration:
    check_encoding(connection)
    isolation = _value(connection, "select current_setting('transaction_isolation')")
    if isolation != "read committed":
        # another migrator's work must be visible after waiting for it
        raise MigrationError(f"migrating needs read committed isolation, not {isolation}")
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
    before = _installed(connection)
    if before is not None and before != wanted and _order(before) > _order(wanted):
        raise MigrationError(f"version {before} is installed, which is newer than {wanted}")
    if before == wanted:
        return Migration(before, wanted, ())
    if _value(connection, "select exists (select from pg_extension where extname = 'pgq')"):
        raise MigrationError(_EXTENSION)
    chain = plan(scripts, before, wanted)
    if before is not None:
        _refuse_other_roles(connection)
    # as create extension does it, so that all routes give the same result
    search_path = _value(connection, "select current_setting('search_path')")
    connection.execute("set local search_path = pg_catalog, pg_temp")
    for name in chain:
        try:
            connection.execute(_statements(scripts[name]).encode())
        except psycopg.errors.FeatureNotSupported as error:  # what the script says of the database
            diag = error.diag
            raise MigrationError(f"{diag.message_primary}; HINT: {diag.message_hint}") from None
    connection.execute("select set_config('search_path', %s, true)", [search_path])
    reached = _installed(connection)
    if reached != wanted:
        raise MigrationError(f"the scripts led to version {reached} instead of {wanted}")
    connection.execute("notify pgrst, 'reload schema'")
    return Migration(before, wanted, chain)


def _installed(connection: AnyConnection) -> str | None:
    if _value(connection, "select to_regnamespace('pgq') is null"):
        return None
    may_call = (
        "select has_schema_privilege(n.oid, 'usage')"
        " and coalesce(bool_and(has_function_privilege(p.oid, 'execute')), true)"
        " from pg_namespace as n"
        " left join pg_proc as p on p.pronamespace = n.oid and p.proname = 'version'"
        " where n.nspname = 'pgq' group by n.oid"
    )
    if not _value(connection, may_call):
        _refuse_other_roles(connection)
    # Skytools' PgQ has a function version() too
    ours = _value(
        connection,
        "select to_regproc('pgq.version') is not null"
        " and to_regproc('pgq.claim_offsets') is not null",
    )
    if not ours:
        raise MigrationError(_FOREIGN_SCHEMA)
    return str(_value(connection, "select pgq.version()"))


def _refuse_other_roles(connection: AnyConnection) -> None:
    """MigrationError: the role does not own pgq, nor is it a member of the owner."""
    owner = _value(
        connection,
        "select pg_get_userbyid(nspowner) from pg_namespace"
        " where nspname = 'pgq' and not pg_has_role(nspowner, 'usage')",
    )
    if owner is not None:
        role = _value(connection, "select current_user")
        raise MigrationError(
            f"the schema pgq belongs to role {owner}, and this is role {role}: "
            f"run pgq migrate as {owner}"
        )


def _value(connection: AnyConnection, query: LiteralString) -> Any:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query).fetchone()
    return row[0] if row else None


# ---------------------------------------------------------------------------- as a program


def _main(arguments: list[str]) -> int:
    if len(arguments) > 1 or any(one.startswith("-") for one in arguments):
        print("usage: python -m pgq.migrate [URL]", file=sys.stderr)
        return 2
    try:
        done = migrate(arguments[0] if arguments else os.environ.get("DATABASE_URL", ""))
    except (MigrationError, psycopg.Error) as error:
        said = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
        lines = (" ".join(line.split()) for line in said.splitlines())
        print(f"pgq: {'; '.join(line for line in lines if line)}", file=sys.stderr)
        return 1
    print(f"pgq {done.after} is installed" + ("" if done.scripts else " already"))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
