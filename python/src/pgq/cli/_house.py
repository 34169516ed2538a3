"""What all commands share: how they are declared, connect, ask, and end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, TypeVar

import psycopg
import typer
from psycopg.types.json import set_json_loads

from pgq import CleanupAction, Client, PgqError
from pgq.cli._output import Raw, plain
from pgq.migrate import MigrationError

__all__ = [
    "BROKEN_PIPE",
    "AsJson",
    "CommandError",
    "Database",
    "OwnDatabase",
    "Yes",
    "clean",
    "command",
    "confirm",
    "connected",
    "family",
    "interrupted",
    "missing",
    "one_line",
]

F = TypeVar("F", bound=Callable[..., Any])

BROKEN_PIPE = 141
"""The exit status when nobody reads the output any more; a shell says the same of SIGPIPE."""

INTERRUPTED = 130
"""The exit status of what was interrupted; a shell says the same of SIGINT."""

_DATABASE = "connection string; default: DATABASE_URL, else libpq's own settings (PGHOST, …)"

Database = Annotated[
    str,
    typer.Option(
        "--database",
        "--dsn",
        metavar="URL",
        envvar="DATABASE_URL",
        show_envvar=False,
        show_default=False,
        help=_DATABASE,
    ),
]
"""The database of a command, with a default of ``""``."""

OwnDatabase = Annotated[
    str | None,
    typer.Option("--database", "--dsn", metavar="URL", show_default=False, help=_DATABASE),
]
"""The same for commands that look for DATABASE_URL themselves, with a default of None."""

AsJson = Annotated[bool, typer.Option("--json", help="JSON, with the names that columns have")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do it without asking")]


class CommandError(Exception):
    """The command failed; the message says why."""


def family(name: str, text: str, parent: typer.Typer) -> typer.Typer:
    """A group of commands."""
    made = typer.Typer(
        help=text, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    parent.add_typer(made, name=name)
    return made


def command(
    app: typer.Typer, name: str, *, examples: Sequence[str] = (), foreign: bool = False
) -> Callable[[F], F]:
    """Declare a command: its help is the docstring and the examples, its errors are one line.

    Where it runs code that is not of this package, `foreign`, that shows its own mistakes.
    """

    def declare(function: F) -> F:
        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            with _ending(foreign):
                status = function(*arguments, **named)
                # what is left to write may fail as well
                if sys.stdout is not None:
                    sys.stdout.flush()
            raise typer.Exit(status or 0)

        text = (function.__doc__ or "").strip()
        shown = "".join(f"\n\n\b\n{'Examples:' if n == 0 else ''}" for n in range(bool(examples)))
        for line in examples:
            shown += f"\n  {line}"
        # a docstring is indented, which is no part of the text
        text = "\n".join(line.strip() for line in text.splitlines())
        app.command(name, help=text + shown, short_help=text.split("\n\n")[0])(run)
        return function

    return declare


@contextmanager
def _ending(foreign: bool) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _forget_output()
        raise typer.Exit(BROKEN_PIPE) from None
    except (CommandError, MigrationError) as error:
        message = str(error)
    except psycopg.Error as error:
        if interrupted(error):
            raise typer.Exit(INTERRUPTED) from None
        message = one_line(error)
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:
            _forget_output()
        message = f"{error.filename or 'cannot go on'}: {error.strerror or error}"
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if foreign or os.environ.get("PGQ_TRACEBACK"):
            raise
        message = (
            f"this is a mistake in pgq, {type(error).__name__}: {error}; "
            "HINT: with PGQ_TRACEBACK=1 it says where"
        )
    else:
        return
    print(f"pgq: {' '.join(plain(message).split())}", file=sys.stderr)
    raise typer.Exit(1)


def _forget_output() -> None:
    """Let what could not be written go: Python would try once more at its end, and complain."""
    if sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def interrupted(error: psycopg.Error) -> bool:
    """Whether the error is only what became of an interrupt.

    One that strikes between two steps of psycopg leaves a session that is busy; what gives up the
    transaction on the way out fails then, and its error takes the place of the interrupt.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def one_line(error: psycopg.Error) -> str:
    """What to say of an error of the database: its message, the facts, and what to do."""
    primary = error.diag.message_primary
    if primary is None:  # from libpq, which says it in several lines
        return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    hint = error.diag.message_hint
    if isinstance(error, psycopg.errors.InvalidSchemaName):
        return "pgq is not installed in this database; 'pgq migrate' installs it"
    if isinstance(error, (psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedTable)):
        return (
            "the schema pgq of this database is of another version, or was not made by this "
            f"package: {primary}"
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        hint = hint or "'pgq doctor' says what this role lacks"
    telling = isinstance(error, (PgqError, psycopg.DataError))
    detail = error.diag.message_detail if telling else None
    return (
        primary
        + (f" ({detail.rstrip('.')})" if detail else "")
        + (f"; HINT: {hint}" if hint else "")
    )


@contextmanager
def connected(database: str, *, read_only: bool = False) -> Iterator[Client]:
    """A client on a connection in autocommit; JSON of the database stays the text that it is."""
    with psycopg.connect(
        database,
        autocommit=True,
        client_encoding="utf8",  # that of JSON
        fallback_application_name="pgq",
        prepare_threshold=None,
    ) as connection:
        set_json_loads(Raw.of, connection)
        connection.add_notice_handler(_warnings())
        if read_only:
            connection.read_only = True
        yield Client(connection)


def _warnings() -> Callable[[psycopg.errors.Diagnostic], None]:
    """What shows the warnings of a session, each once: a command may call a function again."""
    shown: set[str] = set()

    def show(said: psycopg.errors.Diagnostic) -> None:
        parts = (said.message_primary, said.message_detail, said.message_hint)
        text = "; ".join(" ".join(part.split()) for part in parts if part)
        # without the context in the detail, which is not the same each time
        same = f"{said.message_primary}; {(said.message_detail or '').partition(chr(10))[0]}"
        if said.severity_nonlocalized == "WARNING" and same not in shown:
            shown.add(same)
            print(f"pgq: {plain(text)}", file=sys.stderr)

    return show


def clean(client: Client) -> list[CleanupAction]:
    """Call cleanup until there is no more to do now."""
    done: list[CleanupAction] = []
    for _ in range(1000):
        actions = client.admin.cleanup()
        # a part that failed fails again in the next call
        known = [one for one in done if one.action == "failed"]
        done += [one for one in actions if one.action != "more" and one not in known]
        if not any(one.action == "more" for one in actions):
            break
    return done


def confirm(question: str, yes: bool) -> None:
    """Ask before something is lost; where nobody can be asked it has to be said by --yes."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(f"{question} Nobody can be asked here, so nothing was done: say --yes")
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was done")


def missing(error: ModuleNotFoundError, extras: str = "demo") -> CommandError:
    """What to install for a command."""
    return CommandError(f"the module {error.name} is missing: pip install 'pgq-sql[{extras}]'")
