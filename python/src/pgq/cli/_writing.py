"""``pgq publish`` and ``pgq enqueue``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from psycopg.types.json import Jsonb

from pgq import Client
from pgq.cli._batches import Writer, write_all
from pgq.cli._complete import QueueName, TopicName
from pgq.cli._errors import CommandError, UsageError, warn
from pgq.cli._house import AsJson, Database, command, connected
from pgq.cli._input import Format, Item
from pgq.cli._output import Raw, as_json, write_line
from pgq.cli._values import a_moment, a_wait, headers_of, json_of

__all__ = ["add"]

PUBLISHED = ("key", "idempotency_key")
ENQUEUED = ("key", "label", "unique_key", "idempotency_key")

Payload = Annotated[
    str | None,
    typer.Argument(metavar="PAYLOAD", help="one payload, as JSON; omit it to read many"),
]
File = Annotated[
    Path | None, typer.Option("--file", help="the file to read; default: standard input")
]
As = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="jsonl: objects with payload (or body), key, headers; values: JSON values; csv: with "
        "a header; lines: each is a body; raw: all is one body; default: csv for .csv, else jsonl",
    ),
]
Text = Annotated[bool, typer.Option("--text", help="PAYLOAD is a text, not JSON")]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="for payloads without headers; repeatable"),
]
Key = Annotated[str | None, typer.Option(help="for payloads without a key")]
KeyColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="the column of a CSV that is the key")
]
Batch = Annotated[int, typer.Option(min=1, max=100_000, help="payloads per transaction")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="report a bad line, and continue")]
AllOrNone = Annotated[bool, typer.Option("--all-or-none", help="all in one transaction")]
IdempotencyKey = Annotated[str | None, typer.Option(help="only with PAYLOAD")]
Delay = Annotated[timedelta | None, a_wait("due so long from now; default: that of the queue")]
RunAt = Annotated[datetime | None, a_moment("due then, in place of --delay")]

_FORMATS = [
    "pgq {0} --file {2}.jsonl",
    "pgq {0} --file {2}.csv --key-column id",
    "seq 10 | pgq {0} --format values",
    "pgq {0} --format raw --file photo.jpg",
]


def _examples(command: str, target: str, name: str) -> list[str]:
    return [line.format(f"{command} {target}", target, name) for line in _FORMATS]


def add(app: typer.Typer) -> None:
    """Add the commands."""

    @command(
        app,
        "publish",
        examples=[
            "pgq publish orders '{\"id\": 1}' --key customer-7",
            *_examples("publish", "orders", "orders"),
        ],
    )
    def publish(
        topic: TopicName,
        payload: Payload = None,
        file: File = None,
        form: As = None,
        text: Text = False,
        key: Key = None,
        header: Header = None,
        partition: Annotated[
            int | None, typer.Option(min=0, help="publish to this partition")
        ] = None,
        idempotency_key: IdempotencyKey = None,
        key_column: KeyColumn = None,
        batch: Batch = 500,
        skip_bad: SkipBad = False,
        all_or_none: AllOrNone = False,
        database: Database = "",
        json: AsJson = False,
    ) -> int:
        """Publish one payload, or every payload in a file or on standard input.

        Payloads are stored in batches, one transaction each. The first bad line ends the command
        with exit status 1; it reports up to which line payloads are stored.
        """
        headers = headers_of(header)
        with connected(database) as client:
            if payload is not None:
                _refuse_both(file, form)
                result = client.publish(
                    topic,
                    _one(payload, text),
                    key=key,
                    headers=headers,
                    partition=partition,
                    idempotency_key=idempotency_key,
                )
                if json:
                    write_line(as_json(result))
                else:
                    place = "" if result.log_offset is None else f", offset {result.log_offset:,}"
                    known = ": published before" if result.duplicate else ""
                    write_line(f"{topic}, partition {result.partition}{place}{known}")
                return 0

            def write(client: Client, items: list[Item]) -> int:
                rows = client.publish_batch(
                    topic, partition=partition, **_lists(items, PUBLISHED, key, headers)
                )
                return sum(
                    1
                    if row.last_offset is None or row.first_offset is None
                    else row.last_offset - row.first_offset + 1
                    for row in rows
                    if row.duplicate
                )

            writer = Writer(client, write, batch, skip_bad, all_or_none)
            return _many(writer, f'topic "{topic}"', file, form, PUBLISHED, key_column, json)

    @command(
        app,
        "enqueue",
        examples=[
            'pgq enqueue mail \'{"to": "ada@example.org"}\' --delay 10m',
            *_examples("enqueue", "mail", "mails"),
        ],
    )
    def enqueue(
        queue: QueueName,
        payload: Payload = None,
        file: File = None,
        form: As = None,
        text: Text = False,
        key: Key = None,
        header: Header = None,
        delay: Delay = None,
        run_at: RunAt = None,
        priority: Annotated[int | None, typer.Option(min=0, max=9, help="0 is first")] = None,
        label: Annotated[str | None, typer.Option(help="for payloads without a label")] = None,
        max_attempts: Annotated[
            int | None, typer.Option(min=1, help="default: that of the queue")
        ] = None,
        unique_key: Annotated[str | None, typer.Option(help="only with PAYLOAD")] = None,
        idempotency_key: IdempotencyKey = None,
        key_column: KeyColumn = None,
        batch: Batch = 500,
        skip_bad: SkipBad = False,
        all_or_none: AllOrNone = False,
        database: Database = "",
        json: AsJson = False,
    ) -> int:
        """Enqueue one payload, or every payload in a file or on standard input.

        Payloads are stored in batches, one transaction each. The first bad line ends the command
        with exit status 1; it reports up to which line payloads are stored.
        """
        headers = headers_of(header)
        timing: dict[str, Any] = {
            "delay": delay,
            "run_at": run_at,
            "priority": priority,
            "max_attempts": max_attempts,
        }
        with connected(database) as client:
            if payload is not None:
                _refuse_both(file, form)
                result = client.enqueue(
                    queue,
                    _one(payload, text),
                    key=key,
                    headers=headers,
                    label=label,
                    unique_key=unique_key,
                    idempotency_key=idempotency_key,
                    **timing,
                )
                if json:
                    write_line(as_json(result))
                else:
                    known = ": enqueued before" if result.duplicate else ""
                    write_line(f"job {result.job_id}{known}")
                return 0

            def write(client: Client, items: list[Item]) -> int:
                lists = _lists(items, ENQUEUED, key, headers)
                if label is not None:
                    given = (item.fields.get("label") for item in items)
                    lists["labels"] = [label if one is None else one for one in given]
                rows = client.enqueue_batch(queue, **timing, **lists)
                return sum(row.duplicate for row in rows)

            writer = Writer(client, write, batch, skip_bad, all_or_none)
            return _many(writer, f'queue "{queue}"', file, form, ENQUEUED, key_column, json)


def _refuse_both(file: Path | None, form: Format | None) -> None:
    if file is not None or form is not None:
        raise UsageError("a PAYLOAD and --file or --format exclude each other")


def _one(payload: str, text: bool) -> Jsonb:
    if text:
        return Jsonb(payload)
    try:
        json_of(payload)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"the payload is not JSON: {error}; HINT: --text takes it as a text"
        ) from None
    return Jsonb(Raw(payload), dumps=str)


def _lists(
    items: list[Item], texts: tuple[str, ...], key: str | None, headers: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The lists that a batch call takes; those that nobody needs are left out."""
    lists: dict[str, Any] = {}
    if items[0].body is not None:
        lists["bodies"] = [item.body for item in items]
    else:
        lists["payloads"] = [Jsonb(item.payload, dumps=str) for item in items]
    for name in texts:
        default = key if name == "key" else None
        given = (item.fields.get(name) for item in items)
        values = [default if value is None else value for value in given]
        if any(value is not None for value in values):
            lists[f"{name}s"] = values
    own = [item.fields.get("headers") for item in items]
    if headers is not None or any(one is not None for one in own):
        lists["headers"] = [headers if one is None else Jsonb(one, dumps=str) for one in own]
    return lists


def _many(
    writer: Writer,
    target: str,
    file: Path | None,
    form: Format | None,
    texts: tuple[str, ...],
    key_column: str | None,
    json: bool,
) -> int:
    if form is None:
        known = file is not None and file.suffix.lower() == ".csv"
        form = Format.csv if known else Format.jsonl
    if key_column is not None and form is not Format.csv:
        raise UsageError("--key-column is for CSV")
    with ExitStack() as stack:
        stream: IO[bytes]
        if file is not None and str(file) != "-":
            stream = stack.enter_context(file.open("rb"))
        elif sys.stdin is None:
            raise UsageError("there is no standard input; HINT: say a PAYLOAD, or --file")
        else:
            if sys.stdin.isatty():
                print(f"reading {form.value} from the terminal; Ctrl-D ends it", file=sys.stderr)
            stream = sys.stdin.buffer
            if sys.stdin is sys.__stdin__:
                # Not the buffer that Python locks at its end: another thread may wait in it.
                stream = stack.enter_context(open(0, "rb", closefd=False))
        outcome = write_all(writer, stream, form, texts, key_column)
    if json:
        write_line(as_json(outcome.report()))
    else:
        write_line(f"{outcome.said()} in {target}")
    if outcome.interrupted:
        warn(str(outcome.failure))
        raise KeyboardInterrupt
    if outcome.failure is not None:
        raise CommandError(outcome.failure)
    return 1 if outcome.bad else 0
