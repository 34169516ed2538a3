"""Literals mean the same whatever ``standard_conforming_strings`` and ``backslash_quote`` say.

PL/pgSQL reads the literals of a body with the settings of the session that calls it first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from build import flatten
from support.house import MIGRATIONS, refuse
from support.session import Session

# The tags of dollar quotes are skipped, so that what is between two of them is read as well.
_TOKEN = re.compile(
    r"""
    --[^\n]* | /\*.*?\*/ | "[^"]*" | \$\w*\$
    | (?P<escape>[eE]'(?:[^'\\]|\\.|'')*')
    | (?P<plain>'(?:[^']|'')*')
    """,
    re.DOTALL | re.VERBOSE,
)


def _ambiguous(text: str) -> Iterator[str]:
    for token in _TOKEN.finditer(text):
        escaped = (token["escape"] or "").replace(r"\\", "")
        if "\\" in (token["plain"] or "") or r"\'" in escaped:
            yield token[0]


def test_bodies(connection: Session) -> None:
    bodies = connection.execute(
        "select proname, prosrc from pg_proc where pronamespace = 'pgq'::regnamespace"
    ).fetchall()
    assert len(bodies) > 300
    refuse(f"{name}: {literal}" for name, body in bodies for literal in _ambiguous(body))


def test_scripts() -> None:
    """What is read before the first statement of the script is run; comments as well."""
    scripts = {path.name: path.read_text() for path in MIGRATIONS.glob("pgq--*--*--*.sql")}
    scripts["sql/install.sql"] = flatten()
    for path in Path(MIGRATIONS, "changes").rglob("*.sql"):
        scripts[path.name] = path.read_text()
    refuse(
        f"{name}: {literal}"
        for name, script in scripts.items()
        for literal in _ambiguous(script.partition("\n")[2])
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"select '\d', E'\\d'", [r"'\d'"]),
        (r"select E'\'', '''\'", [r"E'\''", r"'''\'"]),
        (r"-- it's '\d'", []),
        (r"""select "'\d'" /* '\d' */""", []),
        (r"do $a$ begin perform '\.'; end $a$; select 'a', E'it''s \\'", [r"'\.'"]),
    ],
)
def test_what_is_ambiguous(text: str, found: list[str]) -> None:
    assert list(_ambiguous(text)) == found
