"""Write sql/REFERENCE.md: what COMMENT ON says of the API, feature by feature, with examples.

A feature is a folder of sql/. ``functions.sql`` says in which order features and functions come,
and its headings (``-- The log: publishing``) are the headings here. Examples stand in the
``examples.psql`` of each feature, every one below a line ``-- name``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from api import Column, Function, View, functions, views
from build import ROOT, included
from generated import installed, write

__all__ = ["REFERENCE", "Feature", "examples", "features", "generate"]

REFERENCE = ROOT / "sql" / "REFERENCE.md"

LAST = "core"
"""The feature that comes last: what all have in common, of which little is for callers."""

_VIEW = re.compile(r"^create view pgq\.(\w+)", re.MULTILINE)
_EXAMPLE = re.compile(r"^-- (\w+)\n(.*?)(?=^-- \w+\n|\Z)", re.MULTILINE | re.DOTALL)

_INTRODUCTION = """\
<!-- generated from COMMENT ON and examples.psql by python/tools/reference.py: edit those -->

# Reference

Every function takes its arguments by name (`topic => 'orders'`). Errors carry the codes listed in
[README.md](README.md). Whatever names a topic or a queue raises 42501 where the access of the
caller is not enough, and MQ001 or MQ002, as if it were not there, where he has none; see
`grant_access`. The examples are for psql, where `\\gset` keeps the columns of a row for later
statements, which name them like `:job_id` or, as a literal, `:'lease_token'`. Those of a feature
stand in its `examples.psql`, in an order in which they run. What they `prepare` is what a program
sends, with placeholders and their types; [drivers.md](../python/docs/drivers.md) shows it in
other languages.
"""


@dataclass
class Feature:
    """A folder of sql/, and the names of the API in it."""

    title: str
    functions: dict[str, list[str]] = field(default_factory=dict)
    """By what the headings of functions.sql call this part of the feature."""
    views: list[str] = field(default_factory=list)


def features() -> dict[str, Feature]:
    """The features by their folders, in the order of functions.sql."""
    found: dict[str, Feature] = {}
    heading = before = ""
    for line in (ROOT / "sql" / "functions.sql").read_text().splitlines():
        if line.startswith("-- ") and not before:
            heading = line.removeprefix("-- ")
        elif line.startswith("\\ir "):
            path = Path(line.removeprefix("\\ir "))
            title, _, part = heading.partition(": ")
            feature = found.setdefault(path.parent.name, Feature(title))
            if not path.stem.startswith("_"):
                feature.functions.setdefault(part, []).append(path.stem)
        before = line
    for path in included():
        for name in _VIEW.findall(path.read_text()):
            title = path.parent.name.capitalize()
            found.setdefault(path.parent.name, Feature(title)).views.append(name)
    if LAST in found:
        found[LAST] = found.pop(LAST)
    return found


def examples() -> dict[str, str]:
    """The example of each function and view."""
    return {
        name: text.strip()
        for path in sorted((ROOT / "sql").rglob("examples.psql"))
        for name, text in _EXAMPLE.findall(path.read_text())
    }


def render(api: Iterable[Function | View]) -> Iterator[str]:
    """The lines of the page."""
    entries = {entry.name: entry for entry in api}
    shown = [each for each in features().values() if each.functions or each.views]
    sections = [(each, list(_sections(each))) for each in shown]
    yield _INTRODUCTION
    for feature, parts in sections:
        yield f"- [{feature.title}](#{feature.title.lower().replace(' ', '-')})"
        for part, names in parts:
            links = ", ".join(f"[{name}](#{name})" for name in names)
            yield f"  - {part}: {links}" if part else f"  - {links}"
    example = examples()
    first: dict[str, str] = {}
    for feature, parts in sections:
        yield f"\n## {feature.title}"
        for name in (name for _, names in parts for name in names):
            yield from _entry(entries[name], example.get(name), first)


def _sections(feature: Feature) -> Iterator[tuple[str, list[str]]]:
    yield from feature.functions.items()
    if feature.views:
        yield "views", feature.views


def _entry(entry: Function | View, example: str | None, first: dict[str, str]) -> Iterator[str]:
    """One function or view; ``first`` notes where the columns of each named type are."""
    summary, _, rest = entry.comment.partition("\n")
    details, _, errors = f"\n{rest}".partition("\nErrors: ")
    yield f"\n### {entry.name}\n\n{summary}"
    if details.strip():
        yield f"\n{details.strip()}"
    if example:
        yield f"\n```sql\n{example}\n```"
    if isinstance(entry, View):
        yield from _columns(entry.columns)
        return
    if entry.arguments:
        yield "\n| argument | type | default |\n|---|---|---|"
        for argument in entry.arguments:
            default = "required" if argument.default is None else f"`{argument.default}`"
            yield f"| `{argument.name}` | {argument.type} | {default} |"
    yield from _result(entry, first)
    if errors:
        yield f"\nErrors: {errors}"


def _result(function: Function, first: dict[str, str]) -> Iterator[str]:
    work = "Reads only; can be called by GET." if function.reads_only else "Changes data."
    rows = "one row" if function.returns == "row" else "rows"
    named = function.composite
    if function.result == "void":
        yield f"\n{work} Returns nothing."
    elif function.returns == "scalar":
        yield f"\n{work} Returns {function.result}."
    elif not function.columns:
        yield f"\n{work} Returns {rows} of {function.result}."
    elif named in first:
        where = f"[{first[named]}](#{first[named]})"
        yield f"\n{work} Returns {rows} of `{named}`, with the columns shown at {where}."
    else:
        yield f"\n{work} Returns {rows} of `{named}`:" if named else f"\n{work} Returns {rows}:"
        yield from _columns(function.columns)
        if named:
            first[named] = function.name


def _columns(columns: Iterable[Column]) -> Iterator[str]:
    columns = list(columns)
    noted = any(column.comment for column in columns)
    yield "\n| column | type | |\n|---|---|---|" if noted else "\n| column | type |\n|---|---|"
    for column in columns:
        comment = " ".join(column.comment.split()).replace("|", "\\|")
        yield f"| `{column.name}` | {column.type} |" + (f" {comment} |" if noted else "")


def generate() -> str:
    """The page of the sources as they are now."""
    with installed() as connection:
        return "\n".join(render([*functions(connection), *views(connection)])) + "\n"


if __name__ == "__main__":
    sys.exit(write(REFERENCE, generate))
