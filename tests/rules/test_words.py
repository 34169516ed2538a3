"""Words that public texts do without: comments of what is public, documents, messages, docstrings.

Those in the first list are hard for readers whose English is not their own, or say nothing. Those
in the second are names that things had before; the changelog may tell of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg

from support.house import ROOT, checked_in, refuse

HARD = (
    r"anew",
    r"(?:is|are|was|be|being|still) at it",
    r"another transaction is at",
    r"tells? whether",
    r"tells? what (?:became|becomes)",
    r"what became of (?:it|them)",
    r"as the \w+ tells",
    r"belongs? into",
)
FORMER = (r"is_json", r"tips?")

HOUSE = (r"nobody", r"whoever", r"somebody", r"anybody", r"for ever", r"so many", r"anew")
"""Words without a subject: a comment of the SQL names the transaction, the claim or the caller."""

OLD_NAMES = (
    r"_?bury\w*",
    r"_?homes?(?:_id)?",
    r"keep(?:_until)?",
    r"leftovers?",
    r"letters",
    r"moment",
    r"near(?:_first)?",
    r"note",
    r"_?(?:un)?park(?:ed)?\w*",
    r"places?",
    r"_?ring",
    r"runs?",
    r"settled",
    r"special",
    r"stamp",
    r"followed",
    r"usual",
)
"""Identifiers of the SQL that say less than those that they have now."""

_HARD = re.compile(rf"\b(?:{'|'.join(HARD)})\b", re.IGNORECASE)
_ANY = re.compile(rf"\b(?:{'|'.join(HARD + FORMER)})\b", re.IGNORECASE)


def _broken(texts: Iterable[tuple[str, str]], words: re.Pattern[str] = _ANY) -> Iterator[str]:
    for place, text in texts:
        for found in words.finditer(" ".join(text.split())):
            yield f"{place}: {found.group()!r}"


def test_comments_of_what_is_public(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        """
        select p.proname, obj_description(p.oid, 'pg_proc')
        from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace and p.proname !~ '^_'
        union all
        select concat_ws('.', c.relname, a.attname), d.description
        from pg_class as c
        inner join pg_description as d
            on d.objoid in (c.oid, c.reltype)
        left join pg_attribute as a
            on a.attrelid = c.oid and a.attnum = d.objsubid and d.objoid = c.oid and d.objsubid > 0
        where c.relnamespace = 'pgq'::regnamespace
            and c.relkind in ('v', 'c') and c.relname !~ '^_'
        """
    ).fetchall()
    assert len(rows) > 200
    refuse(_broken(rows))


def test_messages_of_functions(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        "select proname, prosrc from pg_proc where pronamespace = 'pgq'::regnamespace"
    ).fetchall()
    messages = [
        (name, literal)
        for name, source in rows
        for literal in re.findall(r"'((?:[^']|'')*)'", re.sub(r"--[^\n]*", "", source))
    ]
    assert len(messages) > 500
    refuse(_broken(messages))


def test_documents() -> None:
    names = [name for name in checked_in() if name.endswith(".md")]
    assert len(names) > 5
    refuse(
        entry
        for name in names
        for entry in _broken(
            [(name, (ROOT / name).read_text())], _HARD if name == "CHANGELOG.md" else _ANY
        )
    )


def test_docstrings_and_messages_of_the_package() -> None:
    def texts() -> Iterator[tuple[str, str]]:
        for name in checked_in():
            if name.startswith("python/src/") and name.endswith(".py"):
                for node in ast.walk(ast.parse((ROOT / name).read_text())):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield f"{name}:{node.lineno}", node.value

    found = list(texts())
    assert len(found) > 1000
    refuse(_broken(found))


def test_comments_of_the_sql_name_their_subjects() -> None:
    words = re.compile(rf"\b(?:{'|'.join(HOUSE)})\b", re.IGNORECASE)
    refuse(
        f"{path.relative_to(ROOT)}: {word} in {comment!r}"
        for path in (ROOT / "sql").rglob("*.*sql")
        for comment in re.findall(
            r"--[^\n]*|^comment on .*?;$", path.read_text(), re.MULTILINE | re.DOTALL
        )
        for word in words.findall(comment)
    )


def test_names_in_the_sql() -> None:
    name = re.compile(rf"\b(?:{'|'.join(OLD_NAMES)})\b")
    refuse(
        f"{path.relative_to(ROOT)}: {found}"
        for path in (ROOT / "sql").rglob("*.*sql")
        for found in name.findall(re.sub(r"--[^\n]*|'(?:[^']|'')*'", "", path.read_text()))
    )
