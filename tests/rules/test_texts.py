"""House rules for what callers read: the `Errors:` of comments, error texts, cleanup's actions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from support.documented import CODE, errors_of
from support.house import ROOT, refuse

SQL = ROOT / "sql"

NULL = "a required argument is null"
FIRST = "above READ COMMITTED when another transaction was first"
TRUNCATED = "when retention removes what is being read"
CONFLICTS = {
    f"{FIRST} (try again)",
    f"{TRUNCATED} (try again)",
    f"{FIRST}, or at any level {TRUNCATED} (try again)",
}


class Function(NamedTuple):
    name: str
    volatile: bool
    requires: bool
    errors: dict[str, str]
    """What the comment says of each code, in its order."""


@pytest.fixture
def functions(connection: psycopg.Connection[Any]) -> list[Function]:
    rows = connection.execute(
        "select proname, provolatile = 'v', pronargs > pronargdefaults,"
        " obj_description(oid, 'pg_proc') from pg_proc"
        " where pronamespace = 'pgq'::regnamespace and proname !~ '^_'"
        " and prorettype <> 'trigger'::regtype order by proname"
    ).fetchall()
    found = [Function(*row[:3], errors_of(row[3])) for row in rows]
    assert sum(bool(function.errors) for function in found) > 40
    return found


def test_errors_name_codes_of_the_table_in_one_order(functions: list[Function]) -> None:
    """Those of class MQ first, each class ascending."""
    table = re.findall(rf"^\| ({CODE}) \|", (SQL / "README.md").read_text(), re.MULTILINE)

    def broken() -> Iterator[str]:
        for function in functions:
            codes = list(function.errors)
            if codes != sorted(codes, key=lambda code: (code[:2] != "MQ", code)):
                yield f"{function.name}: {codes}"
            for code in {*codes} - {*table}:
                yield f"{function.name}: {code} is not in sql/README.md"

    refuse(broken())


def test_what_all_raise_is_said_in_the_same_words(functions: list[Function]) -> None:
    def broken() -> Iterator[str]:
        for name, volatile, requires, errors in functions:
            if requires and "22004" in errors and not errors["22004"].startswith(NULL):
                yield f"{name}: 22004 {errors['22004']}"
            if requires and "22004" not in errors:
                yield f"{name}: 22004 {NULL}"
            if errors.get("40001", f"{FIRST} (try again)") not in CONFLICTS:
                yield f"{name}: 40001 {errors['40001']}"
            if volatile and ("40001" in errors) == ("25001" in errors):
                yield f"{name}: either 40001, or 25001 because it needs READ COMMITTED"

    refuse(broken())


def test_the_text_of_an_error_has_one_form() -> None:
    """What is wrong with an argument is what it must be; more than that stands in the DETAIL."""
    raises = [
        (path.relative_to(ROOT), text)
        for path in sorted(SQL.rglob("*.sql"))
        for text in re.findall(r"raise exception\s+'((?:[^']|'')*)'", path.read_text())
    ]
    assert len(raises) > 50
    refuse(
        f"{path}: {text}"
        for path, text in raises
        if ('"' in text and text.startswith(("argument", '"')) and not _said_of_arguments(text))
        or (re.search(r"\bmust\b", text) and not _said_of_arguments(text))
    )


def _said_of_arguments(text: str) -> bool:
    name = '"[a-z_%]+"'
    return any(
        re.fullmatch(form, text)
        for form in (
            rf"argument {name} must .+",
            rf"{name} and {name} exclude each other",
            rf"{name}(?:, {name})+: (?:exactly one is|both or neither are) needed",
            r"(?:a label|the arrays of a (?:batch|chunk)) must .+",
        )
    )


def test_the_actions_of_cleanup_are_those_that_its_comment_lists(
    connection: psycopg.Connection[Any],
) -> None:
    sources = [path.read_text() for path in SQL.rglob("_*.sql")]
    sources.append((SQL / "retention" / "cleanup.sql").read_text())
    reports = [text for text in sources if re.search(r"\nreturns (setof )?pgq\.cleanup_", text)]
    assert len(reports) > 8
    done = {
        action
        for text in reports
        for action in re.findall(r"(?:\brow\(\s*|^ +select )'([a-z ]+)',", text, re.MULTILINE)
    }
    row = connection.execute("select obj_description('pgq.cleanup()'::regprocedure)").fetchone()
    assert row is not None
    told = re.findall(r"^- ([a-z ]+): ", row[0], re.MULTILINE)
    assert len(done) > 10
    assert sorted(told) == sorted(done)
