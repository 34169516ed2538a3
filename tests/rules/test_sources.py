"""House rules for the files below sql/: where things stand, and what may use what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import build
from support.house import ROOT, refuse

SQL = ROOT / "sql"
FILES = sorted(path for path in SQL.rglob("*.sql") if path.parent != SQL)

_CREATE_FUNCTION = re.compile(
    r"^create (?:or replace )?function pgq\.(\w+)(.*?)\bas \$(\w*)\$", re.MULTILINE | re.DOTALL
)
_CREATE = re.compile(
    r"^create (?:or replace )?(?:unlogged )?(?:table|view|type|function|sequence) pgq\.(\w+)",
    re.MULTILINE,
)
# a leaf has the name of its table and a number, which may be filled in later
_NAMED = re.compile(r"\bpgq\.(\w+?)(?:_\d*)?\b")

# What a folder may use beside itself. The core uses of addons only the hooks that a page lists;
# addons use the core, and of each other what is said here.
_CORE = ("core", "store", "log", "queue", "retention")
USES = {
    # what says who may use a topic or a queue reads their tables
    "core": ("log", "queue"),
    "store": ("core",),
    "log": ("core", "store"),
    "queue": ("core", "store"),
    "retention": _CORE,
    "addons/subscription": (*_CORE, "addons/deferred", "addons/ordered"),
    "addons/deferred": (*_CORE, "addons/subscription"),
    "addons/ordered": _CORE,
    "addons/limits": _CORE,
    "addons/effects": _CORE,
    "addons/idle": (*_CORE, "addons/deferred"),
    "addons/duplicates": (*_CORE, "addons/history"),
    "addons/history": (*_CORE, "addons/filters"),
    "addons/filters": (*_CORE, "addons/history"),
    "addons/bulk": (*_CORE, "addons/subscription", "addons/ordered"),
    "addons/schedule": (*_CORE, "addons/access"),
    "addons/access": (*_CORE, "addons/subscription", "addons/schedule"),
    "addons/metrics": (*_CORE, "addons/schedule"),
}
# How many storage classes there may be is asked where a setting makes one.
SINGLE = {"log": {"_check_storage_bounds"}, "queue": {"_check_storage_bounds"}}
# Four files know more than theirs: the one that looks whether pgq is there already, those that say
# who may call what, and the one that makes a leaf of each partitioned table.
KNOW_MORE = (
    "core/guard.sql",
    "core/privileges.sql",
    "store/_create_leaf.sql",
    "addons/access/create_roles.sql",
)
_HOOK = re.compile(r"^\| `(\w+)` \| (\w+) \| (`.+?`) \| ", re.MULTILINE)


def _code(path: Path) -> str:
    """The text of a file without comments, neither in lines nor in COMMENT ON."""
    text = re.sub(r"^comment on .*?';$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"--[^\n]*", "", text)
    # a hint may name any function
    return re.sub(r"\bhint = '(?:[^']|'')*'", "", text)


def _folder(path: Path) -> str:
    parts = path.relative_to(SQL).parts
    return "/".join(parts[:2]) if parts[0] == "addons" else parts[0]


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


def test_every_helper_is_used() -> None:
    """A private function that nothing calls is dead: by the sources, or by the client."""
    words = {
        path: set(re.findall(r"\w+", _code(path))) for path in [*FILES, *SQL.rglob("*.plpgsql")]
    }
    client = set(
        re.findall(
            r"\w+", "".join(path.read_text() for path in (ROOT / "python/src").rglob("*.py"))
        )
    )
    refuse(
        f"{path.relative_to(ROOT)} is used nowhere"
        for path in FILES
        if path.stem.startswith("_")
        and path.stem not in client
        and not any(path.stem in found for other, found in words.items() if other != path)
    )


def test_clauses_are_stated_and_in_order() -> None:
    order = ["returns", "language", "(?:volatile|stable|immutable)", "parallel"]

    def broken() -> Iterator[str]:
        for path in FILES:
            for match in _CREATE_FUNCTION.finditer(path.read_text()):
                clauses = match.group(2)
                found = [
                    re.search(rf"(?:^|[^:] ){word}\b", clauses, re.MULTILINE) for word in order
                ]
                places = [hit.start() if hit else -1 for hit in found]
                if -1 in places or places != sorted(places):
                    yield f"{_name(path)}: {clauses.strip().splitlines()[-4:]}"
                elif "security definer" in clauses and not re.search(
                    r"^security definer\nset search_path = pgq, pg_temp$", clauses, re.MULTILINE
                ):
                    yield f"{_name(path)}: security definer without its search_path"

    refuse(broken())


def _owned() -> dict[str, str]:
    """The folder of each name that the files create."""
    return {name: _folder(path) for path in FILES for name in _CREATE.findall(path.read_text())}


def test_every_folder_is_known() -> None:
    assert {_folder(path) for path in FILES} == {*USES}


def test_what_is_allowed_singly_is_used() -> None:
    refuse(
        f"{folder} does not use pgq.{name}"
        for folder, names in SINGLE.items()
        for name in sorted(names)
        if not any(name in _NAMED.findall(_code(path)) for path in (SQL / folder).rglob("*.*sql"))
    )


def test_the_partition_of_a_key_is_computed_in_one_place() -> None:
    assert [
        _name(path) for path in sorted(SQL.rglob("*.*sql")) if "hashtextextended" in _code(path)
    ] == ["sql/log/_key_partition.sql"]


@pytest.mark.parametrize("folder", USES)
def test_a_folder_uses_only_what_it_may(folder: str) -> None:
    owned = _owned()
    allowed = {folder, *USES[folder]}
    broken = [
        f"{_name(path)} uses pgq.{name} of {owned[name]}"
        for path in sorted((SQL / folder).rglob("*.*sql"))
        if str(path.relative_to(SQL)) not in KNOW_MORE
        for name in sorted(set(_NAMED.findall(_code(path))) - SINGLE.get(folder, set()))
        if owned.get(name, folder) not in allowed
        and not (folder in _CORE and owned[name].startswith("addons/"))
    ]
    refuse(broken)


def test_the_core_uses_addons_by_listed_hooks() -> None:
    """The table of the addons names each function and table, and what uses it."""
    owned = _owned()
    used = {
        (name, owned[name], path.stem)
        for path in SQL.rglob("*.*sql")
        if path.parent != SQL and _folder(path) in _CORE and path.suffix != ".psql"
        if str(path.relative_to(SQL)) not in KNOW_MORE
        for name in _NAMED.findall(_code(path))
        if owned.get(name, "").startswith("addons/")
    }
    listed = {
        (hook, f"addons/{addon}", user)
        for hook, addon, users in _HOOK.findall((SQL / "addons" / "README.md").read_text())
        for user in re.findall(r"\w+", users)
    }
    assert len(listed) > 50
    assert used == listed


def test_every_addon_has_a_page() -> None:
    folders = {path.parent for path in FILES if path.parent.parent.name == "addons"}
    assert len(folders) > 8
    refuse(_name(folder) for folder in sorted(folders) if not (folder / "README.md").is_file())


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


def test_pages_name_what_is_there() -> None:
    """Columns as `partition.segment`, and private functions, in the pages beside the sources."""
    sources = "".join(_code(path) for path in [*FILES, *SQL.rglob("*.plpgsql")])
    words = {*re.findall(r"\w+", sources)}
    tables = {*re.findall(r"^create (?:unlogged )?table pgq\.(\w+)", sources, re.MULTILINE)}
    pages = [page for page in SQL.rglob("*.md") if page.parent.name != "decisions"]
    refuse(
        f"{_name(page)}: {name}"
        for page in pages
        for table, name in re.findall(r"`(?:(\w+)\.)?([a-z_]+)`", page.read_text())
        if name not in words and (table in tables or name.startswith("_"))
    )
