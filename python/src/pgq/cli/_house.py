"""What all commands share: how they are declared, connect, ask, and end."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Annotated, Any, TypeVar

import psycopg
import typer
from psycopg.types.json import set_json_loads

from pgq import CleanupAction, Client, connect
from pgq._extras import install
from pgq.cli._catalog import ask
from pgq.cli._errors import (
    WRONG_ARGUMENT,
    CommandError,
    in_options,
    interrupted,
    one_line,
    warn,
)
from pgq.cli._output import WIDE, Raw
from pgq.migrate import MigrationError, available_versions

__all__ = [
    "BROKEN_PIPE",
    "INTERRUPTED",
    "AsJson",
    "Database",
    "Limit",
    "OwnDatabase",
    "Yes",
    "clean",
    "command",
    "confirm",
    "connected",
    "family",
    "is_there",
    "missing",
    "refuse_other_version",
    "version_of",
]

F = TypeVar("F", bound=Callable[..., Any])

BROKEN_PIPE = 141
"""The exit status when nobody reads the output any more; a shell says the same of SIGPIPE."""

INTERRUPTED = 130
"""The exit status of what was interrupted; a shell says the same of SIGINT."""

_DATABASE = (
    "connection string, visible in the list of processes; default: DATABASE_URL, else libpq's own "
    "settings (PGHOST, …)"
)

Database = Annotated[
    str,
    typer.Option(
        "--database",
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
    typer.Option("--database", metavar="URL", show_default=False, help=_DATABASE),
]
"""The same for commands that look for DATABASE_URL themselves, with a default of None."""

AsJson = Annotated[bool, typer.Option("--json", help="JSON, with the names that columns have")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do it without asking")]


Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="this many at most")]

_WIDE = inspect.Parameter(
    "wide",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--wide", help="all columns, however long the lines")],
)
_CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def family(name: str, text: str, parent: typer.Typer) -> typer.Typer:
    """A group of commands."""
    made = typer.Typer(
        help=text, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    parent.add_typer(made, name=name)
    return made


def command(
    app: typer.Typer,
    name: str,
    *,
    examples: Sequence[str] = (),
    foreign: bool = False,
    table: bool = False,
) -> Callable[[F], F]:
    """Declare a command: its help is the docstring and the examples, its errors are one line.

    Where it runs code that is not of this package, `foreign`, that shows its own mistakes. Where it
    shows a `table`, it takes --wide.
    """

    def declare(function: F) -> F:
        @wraps(function)
        def run(*, context: typer.Context, wide: bool = False, **named: Any) -> Any:
            shown = WIDE.set(wide)
            try:
                with _ending(context, foreign):
                    status = function(**named)
                    # what is left to write may fail as well
                    if sys.stdout is not None:
                        sys.stdout.flush()
            finally:
                WIDE.reset(shown)
            raise typer.Exit(status or 0)

        declared = inspect.signature(function, eval_str=True)
        known = [*declared.parameters.values(), *[_WIDE] * table, _CONTEXT]
        run.__signature__ = declared.replace(parameters=known)  # type: ignore[attr-defined]
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
def _ending(context: typer.Context, foreign: bool) -> Iterator[None]:
    status = 1
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _forget_output()
        raise typer.Exit(BROKEN_PIPE) from None
    except (CommandError, MigrationError) as error:
        message, status = str(error), getattr(error, "status", 1)
    except psycopg.Error as error:
        if interrupted(error):
            raise typer.Exit(INTERRUPTED) from None
        message = in_options(error, context.command.params)
        if isinstance(error, WRONG_ARGUMENT):
            status = 2
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
    warn(message)
    raise typer.Exit(status)


def _forget_output() -> None:
    """Let what could not be written go: Python would try once more at its end, and complain."""
    if sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@contextmanager
def connected(
    database: str,
    *,
    read_only: bool = False,
    any_version: bool = False,
    needs: Sequence[str] = (),
) -> Iterator[Client]:
    """A client on a connection in autocommit; JSON of the database stays the text that it is.

    needs: functions and views, for the grants that are named when the role lacks one.
    """
    with connect(
        database,
        client_encoding="utf8",  # that of JSON
        fallback_application_name="pgq",
        prepare_threshold=None,
    ) as client:
        connection = client.connection
        set_json_loads(Raw.of, connection)
        connection.add_notice_handler(_warnings())
        if read_only:
            connection.read_only = True
        if not any_version:
            version_of(connection)
        try:
            yield client
        except (
            psycopg.errors.ReadOnlySqlTransaction,
            psycopg.errors.InsufficientPrivilege,
        ) as error:
            # while the session can still tell whether its server is a standby, and its role
            raise CommandError(one_line(error, connection, needs)) from None


def version_of(connection: psycopg.Connection[Any]) -> str | None:
    """The version there, which is that of this package; None: the role may not ask."""
    try:
        [found] = ask(connection, "version")
    except psycopg.errors.InsufficientPrivilege:
        return None
    installed, newest = str(found["version"]), available_versions()[-1]
    if not found["is_ours"]:
        raise CommandError("the schema pgq of this database was not made by this package")
    if installed != newest:
        upgrade = "alter extension pgq update" if found["is_extension"] else "pgq migrate"
        older = _order(installed) < _order(newest)
        raise CommandError(
            f"pgq {installed} is installed here and this is {newest}: "
            + (f"run {upgrade}" if older else "upgrade the Python package")
        )
    return installed


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def refuse_other_version(database: str) -> None:
    """Look before something runs for long; that waits itself for a database that is away."""
    with suppress(psycopg.OperationalError), connected(database):
        pass


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
            warn(text)

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


def is_there(listing: Callable[[], Sequence[Any]], **name: str) -> bool:
    """Whether a topic or queue exists; false: or the role may not list them, only create them."""
    [(kind, wanted)] = name.items()
    with suppress(psycopg.errors.InsufficientPrivilege):
        return any(getattr(one, kind) == wanted for one in listing())
    return False


def confirm(question: str, yes: bool) -> None:
    """Ask before something is lost; where nobody can be asked it has to be said by --yes."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(
            f"{question} Nobody can be asked here, so nothing was done; HINT: say --yes"
        )
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was done")


def missing(error: ModuleNotFoundError, extras: str = "demo") -> CommandError:
    """What to install for a command."""
    return CommandError(f"the module {error.name} is missing: {install(extras)}")
