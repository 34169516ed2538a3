"""The tool that takes an install script apart."""

from __future__ import annotations

import pytest

from build import flatten
from statements import Statement, statements


def test_a_statement_ends_where_nothing_is_quoted() -> None:
    script = """\\echo Installing
-- first; of all
select 'it''s; one', ";" /* ; */ from t; -- and; this
do $a$ begin perform $b$;$b$; end $a$;
"""
    assert [each.text for each in statements(script)] == [
        "select 'it''s; one', \";\" /* ; */ from t;",
        "do $a$ begin perform $b$;$b$; end $a$;",
    ]


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("create function pgq.f(a text)\nreturns void …;", "function", "f"),
        ("create view pgq.v as select 1;", "view", "v"),
        (
            "create trigger v\ninstead of insert on pgq.v\nfor each row …;",
            "trigger",
            "v instead of insert on pgq.v",
        ),
        (
            "comment on function pgq.f(\n    text\n) is\n'On; f.';",
            "comment",
            "function pgq.f( text )",
        ),
        ("grant execute on function pgq.f(text) to public;", "privilege", ""),
        ("revoke all on all tables in schema pgq from public;", "privilege", ""),
        ("do $guard$ begin end $guard$;", "block", "guard"),
        ("create table pgq.t (a integer);", "other", ""),
    ],
)
def test_what_a_statement_is_about(text: str, kind: str, name: str) -> None:
    assert statements(text) == [Statement(text, kind, name)]


def test_all_of_the_sources_are_understood() -> None:
    script = flatten()
    found = [each.kind for each in statements(script)]
    for kind in ("function", "view"):
        assert found.count(kind) == script.count(f"\ncreate {kind} pgq.")
