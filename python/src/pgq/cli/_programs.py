"""What runs for long, and what sets up: server, migrate, work, push, ui …."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from pgq._runtime._rights import HOUSEKEEPING
from pgq.cli import _demos
from pgq.cli._errors import CommandError, UsageError
from pgq.cli._house import (
    AsJson,
    Database,
    OwnDatabase,
    clean,
    command,
    connected,
    missing,
    refuse_other_version,
)
from pgq.cli._output import as_json, write_line
from pgq.cli._values import a_wait
from pgq.migrate import migrate

__all__ = ["add"]


class Level(str, Enum):
    """How much is logged."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class Format(str, Enum):
    """How records of the log look."""

    text = "text"
    json = "json"


LogLevel = Annotated[
    Level | None,
    typer.Option(help="how much is logged; default: info, or what the program has set up"),
]
LogFormat = Annotated[
    Format | None,
    typer.Option(help="json: one object a line; default: text, or what the program has set up"),
]
Health = Annotated[
    int | None,
    typer.Option(
        min=1, max=65535, metavar="PORT", help="answer /live and /ready at this port, for probes"
    ),
]


def add(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "server", examples=["pgq server", "pgq server --dir ~/pgq --port 5433"])(_server)
    command(app, "migrate", examples=["pgq migrate", "pgq migrate --json"])(_migrate)
    command(
        app,
        "work",
        examples=[
            "pgq work app:handlers",
            "pgq work app:handlers --queue mail --concurrency 20",
            "pgq work app:handlers --housekeeping --health 8080",
            "pgq work app:handlers --create --once",
        ],
        foreign=True,
    )(_work)
    command(
        app,
        "housekeeping",
        examples=["pgq housekeeping", "pgq housekeeping --health 8080", "pgq housekeeping --once"],
    )(_housekeeping)
    command(
        app,
        "push",
        examples=["pgq push --config push.toml --check", "pgq push --config push.toml"],
    )(_push)
    command(
        app,
        "ui",
        examples=["pgq ui", "pgq ui --port 8080 --no-browser", "pgq ui --read-only"],
    )(_ui)
    _demos.add(app)


def _server(
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="keep the data there; without it nothing is kept"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="the port to listen on; default: any free one"),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="ask nobody on this machine for a password")
    ] = False,
) -> int:
    """Run a local PostgreSQL with pgq in it, for trying things out, until Ctrl-C.

    It wants a password, which stands in a file that only you can read; the address that it prints
    names this file.
    """
    try:
        from pgq.embedded import EmbeddedServerError, Server
    except ModuleNotFoundError as error:
        raise missing(error, "embedded") from None
    settings = {} if port is None else {"port": str(port)}
    try:
        started = Server(folder, settings=settings, password=not trust).start()
    except EmbeddedServerError as error:
        raise CommandError(str(error)) from None
    with started as server:
        migration = migrate(server.dsn)
        print(f"PostgreSQL {server.major} with pgq {migration.after} is ready:", file=sys.stderr)
        print(server.dsn, flush=True)
        kept = f"its data stays in {folder}" if folder else "its data goes with it"
        print(f"Ctrl-C stops it; {kept}.", file=sys.stderr)
        try:
            while server.running:
                time.sleep(0.2)
        except KeyboardInterrupt:
            return 0
        raise CommandError(f"the server has ended by itself; see {server.log_file}")


def _migrate(database: Database = "", json: AsJson = False) -> None:
    """Install pgq in a database, or upgrade it."""
    migration = migrate(database)
    if json:
        write_line(as_json(migration))
    elif not migration.scripts:
        write_line(f"pgq {migration.after} is installed already")
    elif migration.before is None:
        write_line(f"installed pgq {migration.after}")
    else:
        write_line(f"upgraded pgq from {migration.before} to {migration.after}")


def _work(
    handlers: Annotated[
        str,
        typer.Argument(help="pgq.worker.Handlers, or a worker or consumer, as module:attribute"),
    ],
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="handlers at a time; default: 8")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="only this queue; may be repeated")
    ] = None,
    grace: Annotated[
        timedelta | None,
        a_wait("at the end, wait this long for what runs; default: for ever"),
    ] = None,
    poll: Annotated[
        timedelta | None,
        a_wait(
            "the longest wait between two looks at a queue without jobs, up to 10m; "
            "default: 5s with notify, else 1s"
        ),
    ] = None,
    timeout: Annotated[
        timedelta | None, a_wait("give up handlers after this time; default: never")
    ] = None,
    housekeeping: Annotated[
        bool,
        typer.Option(
            "--housekeeping", help="call cleanup every minute as well, and schedules when due"
        ),
    ] = False,
    create: Annotated[
        bool,
        typer.Option(
            "--create",
            help="create the queues that are not there, with the settings of the handlers",
        ),
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="do the jobs that are due now, and end")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="end with status 1 where a queue or topic is missing, the login is refused, or, "
            "with --create, a queue has other settings",
        ),
    ] = False,
    opentelemetry: Annotated[
        bool, typer.Option("--opentelemetry", help="a span for each job, by the global provider")
    ] = False,
    prometheus: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="serve counters at this port"),
    ] = None,
    health: Health = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    database: OwnDatabase = None,
) -> int:
    """Do the jobs of queues with the handlers of a program.

    Until SIGTERM or Ctrl-C, which lets what runs end; a second one gives it back. Logs go to the
    standard error. A queue, topic or group that is not there is waited for, as is the database: a
    line says so at once and each minute, and /ready says no. With --once, jobs that fail are logged
    and do not change the exit status.
    """
    from pgq._work import LoadError, ProgramError, hooks, work

    if poll is not None and not timedelta(milliseconds=10) <= poll <= timedelta(minutes=10):
        raise UsageError("--poll must be from 10ms to 10m")

    try:
        chosen = hooks(opentelemetry, prometheus)
    except ModuleNotFoundError as error:
        raise missing(error, "telemetry") from None
    except OSError as error:
        raise CommandError(f"port {prometheus} cannot be served: {error.strerror}") from None
    try:
        return work(
            handlers,
            database=database,
            concurrency=concurrency,
            queues=queue or None,
            grace=_seconds(grace),
            poll=_seconds(poll),
            housekeeping=housekeeping,
            timeout=_seconds(timeout),
            health=health,
            hooks=chosen,
            log_level=log_level,
            log_format=log_format,
            strict=strict,
            create=create,
            once=once,
            look=refuse_other_version,
        )
    except (LoadError, ValueError) as error:
        raise UsageError(str(error)) from None
    except ProgramError as error:
        print(error, end="", file=sys.stderr)
        return 1


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()


def _housekeeping(
    once: Annotated[bool, typer.Option("--once", help="do what is due now, and end")] = False,
    health: Health = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    database: Database = "",
) -> int:
    """Call cleanup every minute, and run schedules when they are due, until SIGTERM or Ctrl-C.

    Several at once do no harm, nor beside workers with --housekeeping. Logs go to the standard
    error. With --once the exit status is 1 where a part of it failed.
    """
    if not once:
        from pgq._work import keep_house

        refuse_other_version(database)
        keep_house(database, health, log_level, log_format)
        return 0
    with connected(database, needs=HOUSEKEEPING) as client:
        failed = any(action.action == "failed" for action in clean(client))
        while runs := client.schedules.run_schedules():
            failed = failed or any(run.error is not None for run in runs)
    return 1 if failed else 0


def _push(
    config: Annotated[Path, typer.Option(metavar="FILE", help="a TOML file")],
    check: Annotated[
        bool, typer.Option("--check", help="only look whether the file is right")
    ] = False,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="connection string; default: that of the file, else DATABASE_URL, else libpq's "
            "own settings (PGHOST, …)",
        ),
    ] = None,
    log_level: Annotated[Level, typer.Option(help="how much is logged")] = Level.info,
    log_format: Annotated[Format, typer.Option(help="json: one object a line")] = Format.json,
) -> None:
    """Send what is published to topics to HTTP endpoints, as the file says.

    Until SIGTERM or Ctrl-C. Several at once share the work.
    """
    try:
        from pgq.push import ConfigError, PushError, load, run
        from pgq.push._logging import set_up
    except ModuleNotFoundError as error:
        raise missing(error, "push") from None
    try:
        known = load(config)
        if check:
            write_line(f"{config}: {len(known.pushes)} to send")
            return
        set_up(log_level.value, log_format.value)
        place = database or known.database or os.environ.get("DATABASE_URL")
        refuse_other_version(place or "")
        run(known, database=place)
    except (ConfigError, PushError) as error:
        raise CommandError(str(error)) from None


def _ui(
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="only print the address")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="refuse whatever changes something")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="the token is in it, or made there; only you may read it"
        ),
    ] = None,
    database: Database = "",
) -> None:
    """Serve a local page with topics, groups, queues and workers, until Ctrl-C.

    It prints the address, on a terminal with a token in it: whoever has that sees and does there
    what the role of the connection may. Elsewhere it names a file that opens the page.
    """
    try:
        run = import_module("pgq.ui").run
    except ModuleNotFoundError as error:
        raise missing(error, "ui") from None
    refuse_other_version(database)
    try:
        run(
            database=database,
            host=host,
            port=port,
            open_browser=not no_browser,
            read_only=read_only,
            token_file=token_file,
        )
    except ValueError as error:  # of the token file
        raise CommandError(str(error)) from None
