"""Write the reference: what COMMENT ON says of the API, a page for each feature, with examples.

A feature is a folder of sql/. ``functions.sql`` says in which order features and functions come,
and its headings (``-- The log: publishing``) are the headings here. Examples stand in the
``examples.psql`` of each feature, every one below a line ``-- name``. sql/REFERENCE.md is the
contents, sql/reference/ has the pages.
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

__all__ = ["PAGES", "REFERENCE", "Feature", "examples", "features", "generate"]

REFERENCE = ROOT / "sql" / "REFERENCE.md"
PAGES = ROOT / "sql" / "reference"

LAST = "core"
"""The feature that comes last: what all have in common, of which little is for callers."""

_VIEW = re.compile(r"^create view pgq\.(\w+)", re.MULTILINE)
_EXAMPLE = re.compile(r"^-- (\w+)\n(.*?)(?=^-- \w+\n|\Z)", re.MULTILINE | re.DOTALL)

_GENERATED = "<!-- generated from COMMENT ON and examples.psql by python/tools/reference.py -->\n"
_INTRODUCTION = f"""\
{_GENERATED}
# Reference

Pass arguments by name (`topic => 'orders'`). [Errors](../python/docs/errors.md) explains the codes.
If your role has no access to a topic or queue, calls that name it raise MQ001 or MQ002, as if it
did not exist. If it lacks only the kind of access that a call needs, the call raises 42501: see
[grant_access](reference/access.md#grant_access).

The examples of a page run from top to bottom in psql. `\\gset` stores the columns of a row in
variables, which later statements read as `:job_id` or, as a literal, `:'lease_token'`. `prepare`
shows the statement that a program sends, with placeholders and their types;
[Drivers](../python/docs/drivers/index.md) shows other languages.
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


def generate() -> dict[Path, str]:
    """The contents and the pages, of the sources as they are now."""
    with installed() as connection:
        api: list[Function | View] = [*functions(connection), *views(connection)]
    entries = {entry.name: entry for entry in api}
    shown = {
        folder: feature
        for folder, feature in features().items()
        if feature.functions or feature.views
    }
    example = examples()
    first: dict[str, str] = {}
    contents = [_INTRODUCTION]
    pages: dict[Path, str] = {}
    for folder, feature in shown.items():
        contents.append(f"- [{feature.title}](reference/{folder}.md)")
        lines = [f"{_GENERATED}\n# {feature.title}"]
        for part, names in _sections(feature):
            links = ", ".join(f"[{name}](reference/{folder}.md#{name})" for name in names)
            contents.append(f"  - {part}: {links}" if part else f"  - {links}")
            for name in names:
                lines += _entry(entries[name], example.get(name), f"{folder}.md", first)
        pages[PAGES / f"{folder}.md"] = "\n".join(lines) + "\n"
    return {REFERENCE: "\n".join(contents) + "\n", **pages}


def _sections(feature: Feature) -> Iterator[tuple[str, list[str]]]:
    yield from feature.functions.items()
    if feature.views:
        yield "views", feature.views


def _entry(
    entry: Function | View, example: str | None, page: str, first: dict[str, str]
) -> Iterator[str]:
    """One function or view; ``first`` has the links to the columns of each named type."""
    summary, _, rest = entry.comment.partition("\n")
    details, _, errors = f"\n{rest}".partition("\nErrors: ")
    yield f"\n## {entry.name}\n\n{summary}"
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
    yield from _result(entry, page, first)
    if errors:
        yield f"\nErrors: {errors}"


def _result(function: Function, page: str, first: dict[str, str]) -> Iterator[str]:
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
        where = first[named].removeprefix(page)
        name = where.partition("#")[2]
        yield f"\n{work} Returns {rows} of `{named}`, with the columns of [{name}]({where})."
    else:
        yield f"\n{work} Returns {rows} of `{named}`:" if named else f"\n{work} Returns {rows}:"
        yield from _columns(function.columns)
        if named:
            first[named] = f"{page}#{function.name}"


def _columns(columns: Iterable[Column]) -> Iterator[str]:
    columns = list(columns)
    noted = any(column.comment for column in columns)
    yield "\n| column | type | |\n|---|---|---|" if noted else "\n| column | type |\n|---|---|"
    for column in columns:
        comment = " ".join(column.comment.split()).replace("|", "\\|")
        yield f"| `{column.name}` | {column.type} |" + (f" {comment} |" if noted else "")


if __name__ == "__main__":
    sys.exit(max([write(path, text) for path, text in generate().items()]))
