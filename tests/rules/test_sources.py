"""House rules for the files below sql/: where things stand, and what may use what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import build
from support import ROOT, refuse

SQL = ROOT / "sql"
FILES = sorted(path for path in SQL.rglob("*.sql") if path.parent != SQL)

_CREATE_FUNCTION = re.compile(
    r"^create (?:or replace )?function pgq\.(\w+)(.*?)\bas \$(\w*)\$", re.MULTILINE | re.DOTALL
)
_CREATE = re.compile(
    r"^create (?:or replace )?(?:unlogged )?(?:table|view|type|function|sequence) pgq\.(\w+)",
    re.MULTILINE,
)

# What a feature may use. What joins them reads all: operations, the files that give privileges and
# configure dumps, and the one that makes a leaf of each partitioned table.
MAY_NOT_USE = {
    "shared": ("log", "queue", "bulk", "subscription", "operations"),
    "queue": ("log", "bulk", "subscription", "operations"),
    "log": ("queue", "bulk", "operations"),
    "bulk": ("operations",),
}
JOINS_ALL = (
    "guard.sql",
    "privileges.sql",
    "dump_configuration.sql",
    "leaves.sql",
    "_create_leaf.sql",
)


def _code(path: Path) -> str:
    """The text of a file without comments, neither in lines nor in COMMENT ON."""
    text = re.sub(r"^comment on .*?';$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"--[^\n]*", "", text)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_file_is_in_the_manifest() -> None:
    refuse(_name(path) for path in build.unlisted())


def test_a_file_is_named_after_its_function() -> None:
    def broken() -> Iterator[str]:
        for path in FILES:
            names = [match.group(1) for match in _CREATE_FUNCTION.finditer(path.read_text())]
            if names and names != [path.stem]:
                yield f"{_name(path)}: {names}"

    refuse(broken())


def test_the_comment_stands_beside_its_function() -> None:
    def broken() -> Iterator[str]:
        for path in FILES:
            text = path.read_text()
            for match in _CREATE_FUNCTION.finditer(text):
                if f"comment on function pgq.{match.group(1)}(" not in text:
                    yield _name(path)

    refuse(broken())


def test_clauses_are_stated_and_in_order() -> None:
    order = ["returns", "language", "(?:volatile|stable|immutable)", "parallel"]

    def broken() -> Iterator[str]:
        for path in FILES:
            for match in _CREATE_FUNCTION.finditer(path.read_text()):
                clauses = match.group(2)
                found = [re.search(rf"^{word}\b", clauses, re.MULTILINE) for word in order]
                places = [hit.start() if hit else -1 for hit in found]
                if -1 in places or places != sorted(places):
                    yield f"{_name(path)}: {clauses.strip().splitlines()[-4:]}"
                elif "security definer" in clauses and not re.search(
                    r"^security definer\nset search_path = pgq, pg_temp$", clauses, re.MULTILINE
                ):
                    yield f"{_name(path)}: security definer without its search_path"

    refuse(broken())


@pytest.mark.parametrize("feature", MAY_NOT_USE)
def test_a_feature_uses_only_what_it_may(feature: str) -> None:
    def owned_by(folder: str) -> set[str]:
        return {
            name
            for path in (SQL / folder).glob("*.sql")
            for name in _CREATE.findall(path.read_text())
        }

    forbidden = {name: other for other in MAY_NOT_USE[feature] for name in owned_by(other)}
    broken = [
        f"{_name(path)} uses pgq.{name} of {forbidden[name]}"
        for path in sorted((SQL / feature).glob("*.sql"))
        if path.name not in JOINS_ALL
        for name in sorted(set(re.findall(r"\bpgq\.(\w+)", _code(path))))
        if name in forbidden
    ]
    refuse(broken)


def test_lines_fit() -> None:
    broken = [
        f"{_name(path)}:{number} has {len(line)} columns"
        for path in sorted(SQL.rglob("*.sql"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100
    ]
    refuse(broken)


def test_sources_are_plain() -> None:
    broken = [
        f"{_name(path)}:{number}"
        for path in sorted(SQL.rglob("*.sql"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "\t" in line or line != line.rstrip() or not line.isascii()
    ]
    refuse(broken)
