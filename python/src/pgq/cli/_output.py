"""How rows, messages and times are shown: for people, and as JSON."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

__all__ = [
    "WIDE",
    "Nowhere",
    "Raw",
    "ago",
    "as_json",
    "columns_of",
    "console",
    "instant",
    "plain",
    "show_object",
    "show_rows",
    "span",
    "table_of",
    "write_line",
    "written",
]

WIDE: ContextVar[bool] = ContextVar("wide", default=False)
"""Whether tables have all columns, however wide the terminal is."""

_UNBROKEN = 100_000
"""The width of an output in which no line is broken, such as one that is no terminal."""

# What could move the cursor or change colours; a line stays a line.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Raw(str):
    """JSON as the database wrote it: numbers keep all their digits."""

    __slots__ = ()

    @classmethod
    def of(cls, data: str | bytes) -> Raw:
        """Made of what the database sent."""
        return cls(data if isinstance(data, str) else bytes(data).decode())


class Nowhere(io.StringIO):
    """In the place of a standard output that was closed before the program began."""

    def write(self, text: str) -> int:
        return len(text)


class _Console(Console):
    """One that leaves it to the command what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """The console of the standard output; it knows NO_COLOR, and on a terminal COLUMNS."""
    width = None if sys.stdout.isatty() and not WIDE.get() else _UNBROKEN
    return _Console(width=width, highlight=False, markup=False, soft_wrap=False, emoji=False)


def plain(text: str) -> str:
    """A text that does nothing to a terminal: control characters are written as escapes."""
    return _HIDDEN.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def instant(moment: datetime) -> str:
    """A time, in the time zone of this machine."""
    if moment.year in (datetime.min.year, datetime.max.year):
        return str(moment)
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def span(length: timedelta) -> str:
    """A length of time in its two largest units, as it can be given too."""
    seconds = abs(length.total_seconds())
    if seconds and seconds < 1:
        return f"{length.total_seconds():g}s"
    parts = []
    whole = int(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if length < timedelta(0) else "") + (" ".join(parts[:2]) or "0s")


def ago(moment: datetime, now: datetime) -> str:
    """How long ago it was; tenths of a second are told apart."""
    seconds = max((now - moment).total_seconds(), 0.0)
    return f"{span(timedelta(seconds=round(seconds, 1)))} ago"


def _interval(length: timedelta) -> str:
    """A length of time as PostgreSQL writes it, so that it reads it too."""
    days = f"{length.days} day{'' if length.days == 1 else 's'}" if length.days else ""
    rest = length - timedelta(days=length.days)
    minutes, seconds = divmod(rest.seconds, 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    if rest.microseconds:
        clock += f".{rest.microseconds:06}".rstrip("0")
    return " ".join(part for part in (days, clock if rest or not days else "") if part)


def written(value: Any, name: str = "") -> str:
    """A value for people, in one line; an id is as commands take it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, timedelta):
        return span(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return body(bytes(value))
    if isinstance(value, int):
        return str(value) if name == "pid" or name.endswith("_id") else f"{value:,}"
    if isinstance(value, float):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(written(one) for one in value)
    if isinstance(value, dict):
        return plain(json.dumps(value, ensure_ascii=False, default=str))
    return plain(str(value))


def body(content: bytes) -> str:
    """Raw bytes: as text where they are one, else as PostgreSQL writes them."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"\\x{content.hex()}"
    return plain(text)


def as_json(value: Any) -> str:
    """A value as JSON in one line; intervals and bytes are texts that PostgreSQL reads."""
    if isinstance(value, Raw):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return as_json({name: getattr(value, name) for name in columns_of(type(value))})
    if isinstance(value, dict):
        members = (f"{json.dumps(str(k))}: {as_json(v)}" for k, v in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(as_json(one) for one in value) + "]"
    if isinstance(value, (datetime, date)):
        moment = value.astimezone() if isinstance(value, datetime) else value
        return json.dumps(moment.isoformat())
    if isinstance(value, timedelta):
        return json.dumps(_interval(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return json.dumps(f"\\x{bytes(value).hex()}")
    if isinstance(value, UUID):
        return json.dumps(str(value))
    return json.dumps(value, ensure_ascii=False)


def columns_of(kind: type[Any]) -> list[str]:
    """The columns of rows of this kind."""
    return [field.name for field in fields(kind)]


def write_line(text: str = "") -> None:
    """Write a line to the standard output."""
    sys.stdout.write(f"{text}\n")


def show_rows(
    rows: Sequence[Any],
    *,
    json: bool = False,
    columns: Iterable[str] = (),
    nothing: str = "nothing",
) -> None:
    """Show rows as a table of some of their columns, or as a JSON array of all that they have."""
    if json:
        if rows:
            inner = ",\n".join(f"  {as_json(row)}" for row in rows)
            write_line(f"[\n{inner}\n]")
        else:
            write_line("[]")
        return
    if not rows:
        console().print(nothing, style="dim")
        return
    out = console()
    out.print(table_of(rows, columns, width=out.width))


def table_of(
    rows: Sequence[Any], columns: Iterable[str] = (), *, width: int, title: str | None = None
) -> Group:
    """A table of these columns, or with --wide of all; those at the end go where room is short."""
    names = list(rows[0]) if isinstance(rows[0], dict) else columns_of(type(rows[0]))
    named = names if WIDE.get() else list(columns) or names
    shown = [_Column(name, [_value(row, name) for row in rows]) for name in named]
    left_out = []
    if _width(shown, whole=True) > width:
        shown = [column for column in shown if column.texts != [""] * len(rows)]
        while len(shown) > 1 and _width(shown, whole=False) > width:
            left_out.append(shown.pop().title)
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", title=title,
        title_justify="left", title_style="bold",
    )  # fmt: skip
    for column, cells in zip(shown, _widths(shown, width)):
        justify: Any = "right" if column.numbers else "left"
        table.add_column(column.title, justify=justify, overflow="fold", width=cells)
    for texts in zip(*(column.texts for column in shown)):
        table.add_row(*map(Text, texts))
    note = f"not shown: {', '.join(reversed(left_out))}; --wide shows them"
    return Group(table, *[Text(note, style="dim")] * bool(left_out))


class _Column:
    """A column of a table as it is shown."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name = name
        self.title = name.replace("_per_second", "/s").replace("_", " ")
        self.texts = [written(value, name) for value in values]
        known = [value for value in values if value is not None]
        self.numbers = bool(known) and all(
            isinstance(value, (int, float, timedelta)) and not isinstance(value, bool)
            for value in known
        )
        words = [word for text in (self.title, *self.texts) for word in text.split(" ")]
        self.widest = max(map(cell_len, (self.title, *self.texts)))
        # contents may be broken anywhere, the rest between words
        self.narrowest = min(max(map(cell_len, words)), 24)


def _width(columns: Sequence[_Column], *, whole: bool) -> int:
    """The columns of the terminal that a table takes, or at least needs."""
    cells = (column.widest if whole else column.narrowest for column in columns)
    return sum(cells) + 3 * (len(columns) - 1)


def _widths(columns: Sequence[_Column], room: int) -> list[int]:
    """How wide each column is: the widest ones give, down to their longest words."""
    widths = [column.widest for column in columns]
    excess = sum(widths) + 3 * (len(columns) - 1) - room
    for _ in range(excess):
        giving = [n for n, width in enumerate(widths) if width > columns[n].narrowest]
        widths[max(giving, key=lambda n: widths[n])] -= 1
    return widths


def _value(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, dict) else getattr(row, name)


def show_object(row: Any, *, json: bool = False) -> None:
    """Show one row: a line for each of its columns, or a JSON object."""
    if json:
        write_line(as_json(row))
        return
    names = list(row) if isinstance(row, dict) else columns_of(type(row))
    width = max(len(name) for name in names)
    for name in names:
        value = _value(row, name)
        text = "none" if value is None else written(value, name)
        write_line(f"{name.replace('_', ' '):{width}}  {text}".rstrip())
