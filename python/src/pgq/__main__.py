"""The command line: ``python -m pgq`` or ``pgq``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

from pgq.errors import PgqError
from pgq.migrate import MigrationError, migrate

__all__ = ["main"]


class _CommandError(Exception):
    """The command failed; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    given = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = given.command
    try:
        return command(given)
    except KeyboardInterrupt:
        return 130
    except (_CommandError, MigrationError) as error:
        message = str(error)
    except psycopg.Error as error:
        message = _said(error)
    print(f"pgq: {message}", file=sys.stderr)
    return 1


def _said(error: psycopg.Error) -> str:
    """What to tell of an error of the database; raised again where it is a mistake of ours."""
    if isinstance(error, psycopg.OperationalError):
        return str(error).strip()
    primary = error.diag.message_primary or str(error)
    if isinstance(error, psycopg.errors.InvalidSchemaName):
        return "pgq is not installed in this database; 'pgq migrate' installs it"
    if isinstance(error, (psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedTable)):
        return (
            "the schema pgq of this database is of another version, or was not made by this "
            f"package: {primary}"
        )
    if isinstance(error, (psycopg.errors.InsufficientPrivilege, psycopg.DataError, PgqError)):
        return primary
    raise error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pgq", description="A message broker inside PostgreSQL.")
    commands = parser.add_subparsers(metavar="command", required=True)

    server = commands.add_parser(
        "server",
        help="run a local PostgreSQL with pgq in it, for trying things out",
        description="Run a local PostgreSQL with pgq in it until Ctrl-C. It trusts every "
        "connection from this machine.",
    )
    server.add_argument("--dir", type=Path, help="keep the data there; without it nothing is kept")
    server.add_argument("--port", type=_port, help="the port to listen on; default: any free one")
    server.set_defaults(command=_server)

    migration = commands.add_parser("migrate", help="install pgq in a database, or upgrade it")
    _add_database(migration)
    migration.set_defaults(command=_migrate)

    status = commands.add_parser("status", help="show the topics, groups and queues of a database")
    _add_database(status)
    status.set_defaults(command=_status)

    working = commands.add_parser(
        "work",
        help="do the jobs of queues with the handlers of a program",
        description="Do the jobs of queues until SIGTERM or Ctrl-C, which lets what runs end; a "
        "second one gives it back. Logs go to the standard error.",
    )
    working.add_argument(
        "handlers", help="pgq.worker.Handlers, or a worker or consumer, as module:attribute"
    )
    working.add_argument("--concurrency", type=_count, help="handlers at a time; default: 8")
    working.add_argument(
        "--queue", action="append", metavar="NAME", help="only this queue; may be repeated"
    )
    working.add_argument(
        "--grace",
        type=float,
        metavar="SECONDS",
        help="wait so long for what runs; default: for ever",
    )
    working.add_argument(
        "--schedules", action="store_true", help="write the ticks of schedules as well"
    )
    working.add_argument(
        "--opentelemetry", action="store_true", help="a span for each job, by the global provider"
    )
    working.add_argument(
        "--prometheus", type=_port, metavar="PORT", help="serve counters at this port"
    )
    _add_database(working)
    working.set_defaults(command=_work, database=None)

    push = commands.add_parser(
        "push",
        help="send what is published to HTTP endpoints",
        description="Send what is published to topics to HTTP endpoints, as the file says, until "
        "SIGTERM or Ctrl-C. Several at once share the work.",
    )
    push.add_argument("--config", metavar="FILE", type=Path, required=True, help="a TOML file")
    push.add_argument("--check", action="store_true", help="only look whether the file is right")
    push.add_argument(
        "--database",
        metavar="URL",
        help="connection string; default: that of the file, else DATABASE_URL, else libpq's own "
        "settings (PGHOST, …)",
    )
    push.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    push.set_defaults(command=_push)

    demo = commands.add_parser(
        "demo",
        help="send real data through a topic, consumer groups and a queue",
        description="Send the flights that left New York in 2013 through a topic, two consumer "
        "groups and a queue, kill a worker on the way, and check every figure. Leaves nothing "
        "behind.",
    )
    _add_demo_options(demo)
    demo.set_defaults(command=_demo)

    demo_spark = commands.add_parser(
        "demo-spark",
        help="send real data through Spark, in batch and as a stream",
        description="Send the flights that left New York in 2013 through a topic to Spark, which "
        "adds them up by route and publishes the sums: as a batch, repeated once, and as a "
        "stream, which crashes once. Checks every figure, and leaves nothing behind.",
    )
    _add_demo_options(demo_spark)
    demo_spark.set_defaults(command=_demo_spark)
    return parser


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        "--dsn",
        metavar="URL",
        default=os.environ.get("DATABASE_URL", ""),
        help="connection string; default: DATABASE_URL, else libpq's own settings (PGHOST, …)",
    )


def _add_demo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        metavar="URL",
        help="connection string; default: DATABASE_URL, else a temporary server of its own",
    )
    parser.add_argument("--rows", type=_count, help="take only so many of the 336,776 flights")


def _port(text: str) -> int:
    port = int(text)
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError("a port is a number from 1 to 65535")
    return port


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return count


def _server(given: argparse.Namespace) -> int:
    try:
        from pgq.embedded import EmbeddedServerError, Server
    except ModuleNotFoundError as error:
        raise _missing(error, "embedded") from None
    settings = {} if given.port is None else {"port": str(given.port)}
    try:
        started = Server(given.dir, settings=settings).start()
    except EmbeddedServerError as error:
        raise _CommandError(str(error)) from None
    with started as server:
        migration = migrate(server.dsn)
        print(f"PostgreSQL {server.major} with pgq {migration.after} is ready:", file=sys.stderr)
        print(server.dsn, flush=True)
        kept = f"its data stays in {given.dir}" if given.dir else "its data goes with it"
        print(f"Ctrl-C stops it; {kept}.", file=sys.stderr)
        try:
            while server.running:
                time.sleep(0.2)
        except KeyboardInterrupt:
            return 0
        raise _CommandError(f"the server has ended by itself; see {server.log_file}")


def _migrate(given: argparse.Namespace) -> int:
    migration = migrate(given.database)
    if not migration.scripts:
        print(f"pgq {migration.after} is installed already")
    elif migration.before is None:
        print(f"installed pgq {migration.after}")
    else:
        print(f"upgraded pgq from {migration.before} to {migration.after}")
    return 0


def _status(given: argparse.Namespace) -> int:
    try:
        from pgq._status import show
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    show(given.database)
    return 0


def _work(given: argparse.Namespace) -> int:
    from pgq._work import LoadError, hooks, work

    try:
        chosen = hooks(given.opentelemetry, given.prometheus)
    except ModuleNotFoundError as error:
        raise _missing(error, "telemetry") from None
    except OSError as error:
        raise _CommandError(f"the counters cannot be served: {error}") from None
    try:
        return work(
            given.handlers,
            database=given.database,
            concurrency=given.concurrency,
            queues=given.queue,
            grace=given.grace,
            schedules=given.schedules,
            hooks=chosen,
        )
    except (LoadError, ValueError) as error:
        raise _CommandError(str(error)) from None


def _push(given: argparse.Namespace) -> int:
    try:
        from pgq.push import ConfigError, PushError, load, run
        from pgq.push._logging import set_up
    except ModuleNotFoundError as error:
        raise _missing(error, "push") from None
    try:
        config = load(given.config)
        if given.check:
            print(f"{given.config}: {len(config.pushes)} to send")
            return 0
        set_up(given.log_level)
        run(config, database=given.database or config.database or os.environ.get("DATABASE_URL"))
    except (ConfigError, PushError) as error:
        raise _CommandError(str(error)) from None
    return 0


def _demo(given: argparse.Namespace) -> int:
    try:
        from pgq.demo import DemoError, run
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    _leave_in_order()
    try:
        return run(given.rows, database=given.database)
    except DemoError as error:
        raise _CommandError(str(error)) from None


def _demo_spark(given: argparse.Namespace) -> int:
    try:
        from pgq.demo import DemoError
        from pgq.demo._spark import run
    except ModuleNotFoundError as error:
        raise _missing(error, "demo,spark") from None
    _leave_in_order()
    try:
        return run(given.rows, database=given.database)
    except DemoError as error:
        raise _CommandError(str(error)) from None


def _leave_in_order() -> None:
    """Leave by the ordinary way out, which takes everything down, when told to stop."""
    # A shell has what it runs in the background ignore Ctrl-C; who sends it all the same means it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def _missing(error: ModuleNotFoundError, extras: str = "demo") -> _CommandError:
    return _CommandError(f"the module {error.name} is missing: pip install 'pgq[{extras}]'")


if __name__ == "__main__":
    sys.exit(main())
