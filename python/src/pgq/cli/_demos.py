"""``pgq demo`` and ``pgq demo-spark``."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from pgq.cli._errors import CommandError
from pgq.cli._house import command, missing

__all__ = ["add"]

Rows = Annotated[int | None, typer.Option(min=1, help="take only so many of the 336,776 flights")]
DemoDatabase = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="connection string; default: DATABASE_URL, else a temporary server of its own",
    ),
]


def add(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "demo", examples=["pgq demo", "pgq demo --rows 20000"])(_demo)
    command(app, "demo-spark", examples=["pgq demo-spark --rows 20000"])(_demo_spark)


def _demo(rows: Rows = None, database: DemoDatabase = None) -> int:
    """Send real data through a topic, consumer groups and a queue.

    The flights that left New York in 2013 go through a topic, two consumer groups and a queue; a
    worker is killed on the way, and every figure is checked. Leaves nothing behind.
    """
    try:
        from pgq.demo import DemoError, run
    except ModuleNotFoundError as error:
        raise missing(error) from None
    _leave_in_order()
    try:
        return run(rows, database=database)
    except DemoError as error:
        raise CommandError(str(error)) from None


def _demo_spark(rows: Rows = None, database: DemoDatabase = None) -> int:
    """Send real data through Spark, in batch and as a stream.

    The flights that left New York in 2013 go through a topic to Spark, which adds them up by route
    and publishes the sums: as a batch, repeated once, and as a stream, which crashes once. Checks
    every figure, and leaves nothing behind.
    """
    try:
        from pgq.demo import DemoError
        from pgq.demo._spark import run
    except ModuleNotFoundError as error:
        raise missing(error, "demo,spark") from None
    _leave_in_order()
    try:
        return run(rows, database=database)
    except DemoError as error:
        raise CommandError(str(error)) from None


def _leave_in_order() -> None:
    """Leave by the ordinary way out, which takes everything down, when told to stop."""
    # A shell has what it runs in the background ignore Ctrl-C; who sends it all the same means it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda number, _: sys.exit(128 + number))
