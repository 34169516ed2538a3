"""Write migrations/pgq--A--B.sql for each released version A: the way to B, the one in sql/.

Functions, views, comments and privileges are taken from the two install scripts. Each function of B
is replaced, and each view that differs is dropped and made again. What cannot be replaced, such as
a function whose arguments differ, is dropped before and gets its grants back. How tables, types and
all else change stands in ``migrations/changes/``, by hand, a folder for each version. Something
that is dropped there, because it is in the way, is made again.

Nothing is dropped with cascade: an object of the user's that needs what goes makes the upgrade
fail with 2BP01, whose DETAIL names it, and nothing has changed then.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import build
from statements import Statement, statements
from upgrade_blocks import GUARD, KEEP, LOCK

__all__ = ["Side", "generate", "main", "released_versions", "upgrade_path"]

Key = tuple[str, str]
"""function or view, and the name."""

_DROPPED_BY_HAND = re.compile(r"^drop (function|view) (?:if exists )?pgq\.(\w+)", re.MULTILINE)
_RELATION = re.compile(r"create (?:unlogged )?(?:table|sequence) pgq\.(\w+)")
# name, arguments and result: what create or replace cannot change
_HEAD = re.compile(r".*?(?=\nlanguage )", re.DOTALL)


@dataclass(frozen=True)
class Side:
    """One of the two versions, by the statements of its install script."""

    script: Sequence[Statement]

    @cached_property
    def heads(self) -> dict[Key, str]:
        """Of each function what cannot be replaced, of each view all of it."""
        return {
            (each.kind, each.name): _head(each)
            for each in self.script
            if each.kind in ("function", "view")
        }

    @cached_property
    def relations(self) -> set[str]:
        """The tables and sequences."""
        found = (_RELATION.match(each.text) for each in self.script)
        return {match[1] for match in found if match}

    @cached_property
    def texts(self) -> set[str]:
        """What is said word by word."""
        return {each.text for each in self.script}


def generate(before: str, after: str, old: Side, new: Side, changes: str) -> str:
    """The script from version ``before`` to version ``after``."""
    by_hand = {(kind, name) for kind, name in _DROPPED_BY_HAND.findall(changes)}
    dropped = _dropped(old, new, by_hand)
    made = {key for key in new.heads if key in dropped or key not in old.heads}
    anew = sorted(name for _, name in dropped & made)
    opened = [name for name in anew if any(_opens(each, name) for each in old.script)]
    parts = [
        f"\\echo Upgrading pgq to {after} \\set ON_ERROR_STOP on\n"
        "-- rendered from sql/ and migrations/changes/ by python/tools/upgrade.py:"
        " edit there, not here",
        GUARD.format(before=before, after=after),
        LOCK.format(before=before, after=after),
        *([KEEP.format(names=", ".join(anew), opened=", ".join(opened))] if anew else []),
        *_drops(old, dropped - by_hand),
        changes,
        "-- ==== sql/",
        *_additions(old, new, made),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _head(statement: Statement) -> str:
    match = _HEAD.match(statement.text) if statement.kind == "function" else None
    return match[0] if match else statement.text


def _dropped(old: Side, new: Side, by_hand: set[Key]) -> set[Key]:
    """What has to go, for good or to be made again: also each view that uses what goes."""
    gone = {key for key, head in old.heads.items() if new.heads.get(key) != head} | by_hand
    while True:
        using = {
            ("view", _view_of(statement))
            for statement in old.script
            if statement.kind in ("view", "trigger")
            if any(statement.mentions(name) for _, name in gone)
        }
        if using <= gone:
            return gone
        gone |= using


def _view_of(statement: Statement) -> str:
    """The name of the view, or of the one that a trigger is on."""
    return statement.name.rpartition("pgq.")[2]


def _drops(old: Side, dropped: set[Key]) -> Iterator[str]:
    # views first: they use functions, and later ones may use earlier ones
    for kind in ("view", "function"):
        names = [each.name for each in old.script if (each.kind, each.name) in dropped]
        lines = [f"drop {kind} pgq.{name};" for name in reversed(names) if (kind, name) in dropped]
        if lines:
            yield "\n".join(lines)


def _additions(old: Side, new: Side, made: set[Key]) -> Iterator[str]:
    for statement in new.script:
        kind, key = statement.kind, (statement.kind, statement.name)
        known = statement.text in old.texts
        if key in made:
            yield statement.text
        elif kind == "function":
            yield statement.text.replace("create ", "create or replace ", 1)
        elif kind == "trigger":
            if not known or ("view", _view_of(statement)) in made:
                yield statement.text.replace("create ", "create or replace ", 1)
        elif kind == "comment":
            if not known or _commented(statement) in made:
                yield statement.text
        elif kind == "privilege":
            if not known or any(statement.mentions(name) for _, name in made):
                yield statement.text
        elif key == ("block", "revoke_others"):
            # all of them only in a fresh install, where nobody was granted anything
            names = sorted({name for _, name in made} | (new.relations - old.relations))
            yield statement.text.replace("null", f"'{{{','.join(names)}}}'")
        elif key == ("block", "dump_configuration"):
            yield statement.text


def _opens(statement: Statement, name: str) -> bool:
    """Whether it grants something of that name to all."""
    return (
        statement.kind == "privilege"
        and statement.mentions(name)
        and statement.text.endswith("to public;")
    )


def _commented(statement: Statement) -> Key:
    """The function or view that a comment is on, or on a column of."""
    kind, _, target = statement.name.partition(" ")
    name = re.match(r"pgq\.(\w+)", target)
    return "view" if kind == "column" else kind, name[1] if name else target


# ---------------------------------------------------------------------------- this repository


def upgrade_path(before: str) -> Path:
    """Where the script from a version to this one belongs."""
    return build.ROOT / "migrations" / f"pgq--{before}--{build.version()}.sql"


def main() -> int:
    """Write the scripts; where this version is released they have to be there."""
    if build.released():
        missing = [
            path.name for path in map(upgrade_path, released_versions()) if not path.exists()
        ]
        for name in missing:
            print(f"{name} is missing, and {build.version()} is released", file=sys.stderr)
        return 1 if missing else 0
    new = Side(statements(build.flatten()))
    for before in released_versions():
        old = Side(statements((build.ROOT / "migrations" / f"pgq--{before}.sql").read_text()))
        path = upgrade_path(before)
        path.write_text(generate(before, build.version(), old, new, _changes(before)))
        print(f"wrote {path.relative_to(build.ROOT)}")
    return 0


def released_versions() -> list[str]:
    """The released versions before this one, the oldest first."""
    scripts = (build.ROOT / "migrations").glob("pgq--*.sql")
    versions = {path.stem.removeprefix("pgq--") for path in scripts if path.stem.count("--") == 1}
    return sorted(
        (
            each
            for each in versions
            if _order(each) < _order(build.version()) and build.released(each)
        ),
        key=_order,
    )


def _changes(before: str) -> str:
    """What was written by hand for each version since."""
    folders = (path for path in (build.ROOT / "migrations" / "changes").glob("*") if path.is_dir())
    wanted = sorted(
        (
            folder
            for folder in folders
            if _order(before) < _order(folder.name) <= _order(build.version())
        ),
        key=lambda folder: _order(folder.name),
    )
    return "\n\n".join(
        f"-- ==== {path.relative_to(build.ROOT)}\n\n{path.read_text().strip()}"
        for folder in wanted
        for path in sorted(folder.glob("*.sql"))
    )


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    sys.exit(main())
