"""What commands say when they fail: one line, in terms of the command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from pgq import PgqError
from pgq._runtime._sync._rights import lacking
from pgq.cli._catalog import ask
from pgq.cli._output import plain

__all__ = [
    "WRONG_ARGUMENT",
    "CommandError",
    "UsageError",
    "in_options",
    "interrupted",
    "one_line",
    "unknown",
    "warn",
]

_ALIASES = {
    "--all": ["all_jobs"],
    "--at": ["published_at"],
    "--before": ["died_before", "due_before"],
    "--dead": ["dead_only"],
    "--error": ["error_contains"],
    "--job": ["job_id"],
    "--offset": ["log_offset"],
    "GROUP": ["consumer_group"],
    "--since": ["died_since", "due_since"],
}
"""Those whose arguments of the SQL functions have other names."""

_FUNCTIONS = re.compile(
    r"\bpgq\.(?:(create|alter|drop|list)_(topic|group|queue)|(create|list)_(schedule)"
    r"|(list)_(subscription)|(grant)_(acces))s?\b"
)
"""Functions that hints name, and that commands call: the verb and the noun."""

_DENIED = re.compile(r"permission denied for (schema|function|view) ([a-z]\w*)")
"""What servers say in English; where they say it otherwise, `pgq doctor` tells what is missing."""

_STANDBY = (
    "this server is a standby, where nothing can be written; HINT: run it on the primary: name all "
    "servers in --database, with target_session_attrs=read-write; here pgq status, lag, jobs, peek "
    "and tail work"
)


class CommandError(Exception):
    """The command failed; the message says why."""

    status = 1


class UsageError(CommandError):
    """What was given cannot be; nothing was done."""

    status = 2


def unknown(kind: str, name: str) -> CommandError:
    """There is no topic, or queue, of this name: as the functions say it."""
    return CommandError(
        f'unknown {kind} "{name}"; HINT: pgq {kind}s create creates it; if it exists, this role '
        "needs pgq access grant."
    )


_NOT_THERE = (
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedTable,
)

WRONG_ARGUMENT = (psycopg.errors.InvalidParameterValue, psycopg.errors.NullValueNotAllowed)
"""What the database says of an argument that cannot be."""


def warn(message: str) -> None:
    """Say something on the standard error, in one line."""
    print(f"pgq: {' '.join(plain(message).split())}", file=sys.stderr)


def in_options(error: psycopg.Error, parameters: Sequence[Any]) -> str:
    """The same with options of the command in place of the arguments of the function."""
    names: dict[str, str] = {}
    for parameter in parameters:
        option = max(parameter.opts, key=len)
        own = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--"):
            option = option.upper()
        names |= dict.fromkeys([own, *_ALIASES.get(option, [])], option)
    said, mark, hint = one_line(error).partition("; HINT: ")
    if isinstance(error, WRONG_ARGUMENT):
        said = re.sub(r'(?:argument )?"(\w+)"', lambda one: names.get(one[1], one[0]), said)
    if hint.startswith("Pass "):
        hint = re.sub(r" => (?:true|'(\w+)')", lambda one: f" {one[1] or ''}".rstrip(), hint)
        hint = re.sub(r"\b\w+\b", lambda one: names.get(one[0], one[0]), hint)
    return said + mark + hint


def interrupted(error: psycopg.Error) -> bool:
    """Whether the error is only what became of an interrupt.

    One that strikes between two steps of psycopg leaves a session that is busy; what gives up the
    transaction on the way out fails then, and its error takes the place of the interrupt.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def _command(function: re.Match[str]) -> str:
    verb, noun = (part for part in function.groups() if part)
    return f"pgq {noun}s {verb}"


def _grant(primary: str, connection: psycopg.Connection[Any], needs: Sequence[str]) -> str:
    """What gives the role of the connection the right that it lacks, if that can be told."""
    denied = _DENIED.fullmatch(primary)
    if denied is None or connection.info.transaction_status != TransactionStatus.IDLE:
        return ""
    kind, name = denied.groups()
    names = list(dict.fromkeys([name, *needs]))
    with suppress(psycopg.Error):
        found = lacking(connection, names)
        [server] = ask(connection, "server")
        views = {
            one["name"] for one in ask(connection, "views", [server["role"]]) if not one["may"]
        }
        hidden = ", ".join(f"pgq.{one}" for one in names if one in views)
        grants = [
            found.grant(names),
            f"grant select on {hidden} to {found.role};" if hidden else "",
        ]
        more = " -- and EXECUTE on what it calls, or a role of pgq.create_roles"
        return " ".join(filter(None, grants)) + (more if kind == "schema" and not needs else "")
    return ""


def one_line(
    error: psycopg.Error,
    connection: psycopg.Connection[Any] | None = None,
    needs: Sequence[str] = (),
) -> str:
    """What to say of an error of the database: its message, the facts, and what to do.

    needs: what the command calls and reads, of which the role may lack more.
    """
    primary = error.diag.message_primary
    if primary is None:  # from libpq, which says it in several lines
        return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    hint = _FUNCTIONS.sub(_command, error.diag.message_hint or "")
    if isinstance(error, psycopg.errors.InvalidSchemaName):
        return "pgq is not installed in this database; HINT: 'pgq migrate' installs it"
    if isinstance(error, _NOT_THERE):
        return (
            "the schema pgq of this database is of another version, or was not made by this "
            f"package: {primary}; HINT: 'pgq doctor' says what is missing"
        )
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) and connection is not None:
        info = connection.info
        if not connection.closed and info.parameter_status("in_hot_standby") == "on":
            return _STANDBY
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        hint = hint or (_grant(primary, connection, needs) if connection is not None else "")
        hint = hint or "'pgq doctor' says what this role lacks"
    telling = isinstance(error, (PgqError, psycopg.DataError))
    detail = error.diag.message_detail if telling else None
    return (
        primary
        + (f" ({detail.rstrip('.')})" if detail else "")
        + (f"; HINT: {hint}" if hint else "")
    )
