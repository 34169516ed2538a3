"""All commands together."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from pgq.cli import (
    _access,
    _doctor,
    _groups,
    _job,
    _jobs,
    _metrics,
    _others,
    _programs,
    _queues,
    _reading,
    _top,
    _topics,
    _writing,
)
from pgq.cli._errors import warn
from pgq.cli._house import INTERRUPTED
from pgq.cli._output import Nowhere
from pgq.migrate import available_versions

__all__ = ["app", "main"]

app = typer.Typer(
    help="A message broker inside PostgreSQL.\n\n"
    "The database is that of --database, else DATABASE_URL, else libpq's own settings (PGHOST, …).",
    epilog="Exit status: 0 done, 1 not done (or doctor found an error), 2 wrong usage, "
    "130 interrupted, 141 nobody reads the output any more.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pgq {available_versions()[-1]}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="the package's version"),
    ] = False,
) -> None:
    """Only options of the program itself."""


for _part in (
    _programs,
    _topics,
    _groups,
    _queues,
    _writing,
    _reading,
    _jobs,
    _job,
    _others,
    _access,
    _metrics,
    _top,
    _doctor,
):
    _part.add(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    if sys.stdout is None:  # it was closed before the program began
        sys.stdout = Nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding does not have is an escape
            stream.reconfigure(errors="backslashreplace")
    # what psycopg warns of is what failed behind the error that is told
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    try:
        status = _program()(
            args=None if arguments is None else list(arguments),
            prog_name="pgq",
            standalone_mode=False,
        )
    except SystemExit as ended:
        status = ended.code
    except typer.Abort:
        return INTERRUPTED
    except _Refused as error:
        return _refuse(error, sys.argv[1:] if arguments is None else arguments)
    if isinstance(status, int):
        return status
    return 0 if status is None else 1


_Refused: type[Any] = typer.BadParameter.__mro__[2]
"""What is raised for wrong usage: a ClickException, which is not always that of click."""


def _refuse(error: Any, arguments: Sequence[str]) -> int:
    """Say what is wrong with the arguments, in one line; where there is no command, the help."""
    context, said = getattr(error, "ctx", None), error.format_message()
    if context is not None and said == context.get_help():
        print(said, file=sys.stderr)
    else:
        path = _path(arguments) if context is None else context.command_path
        first = said[:1].lower() if said[1:2].islower() else said[:1]
        warn(f"{first}{said[1:].rstrip('.')}; HINT: {path} --help")
    return 2


def _path(arguments: Sequence[str]) -> str:
    """The command that is named: not all errors know theirs."""
    path, place = "pgq", _program()
    for word in arguments:
        place = getattr(place, "commands", {}).get(word)
        if place is None:
            break
        path += f" {word}"
    return path


@cache
def _program() -> Any:
    """What is called; it takes a while to make."""
    return get_command(app)
