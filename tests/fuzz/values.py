"""Arguments of every type, written as SQL: the usual ones, the odd ones, and those beyond."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from fuzz.catalog import Function

__all__ = ["LIMITS", "NULL", "Drawn", "argument", "literal"]


@dataclass(frozen=True)
class Drawn:
    """An argument: an expression without its cast, and what there is to know of it."""

    sql: str
    traits: frozenset[str] = frozenset()


NULL = Drawn("null", frozenset({"null"}))

Strategy = st.SearchStrategy[Drawn]

LARGEST = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}

INCOMPRESSIBLE = "(select string_agg(md5(n::text), '') from generate_series(1, {}) as g (n))".format

TEXTS = [
    "",
    " ",
    "a",
    "A",
    "a b",
    "a.b",
    "a" * 63,
    "a" * 64,
    "é" * 32,
    "'",
    "''; drop schema pgq cascade; --",
    '"; rm -rf / #',
    "$(reboot)`reboot`$$;$body$",
    "\\",
    "\\'",
    "\\x00",
    "%s %1$s %",
    "{}",
    '{"a": 1}',
    "a,b",
    "{a,b}",
    "*",
    "#",
    "a.*.#",
    "null",
    "NULL",
    "\t\n\r\x0b\x1f\x7f",
    "\u202eright to left",
    "שלום עולם",
    "\U0001f600\U0010ffff",
    "e\u0301\u0323",
    "\ufeff\u200b\u00a0",
    "\u0130\u0131\u017fß",
    "* * * * *",
    "*/7 1-5 31 2 MON-FRI",
    "60 24 32 13 8",
    "@daily",
    "1-0 * * * *",
    "*/0 * * * *",
    "Europe/Berlin",
    "XYZ+99",
    "+25:00",
    "-infinity",
    "0",
    "-1",
]

LONG = [
    "repeat('x', 255)",
    "repeat('x', 256)",
    "repeat('é', 255)",
    "repeat('x', 1048576)",
    INCOMPRESSIBLE(300),
    INCOMPRESSIBLE(33000),
]

INTERVALS = {
    "0": "",
    "1 microsecond": "",
    "1 second": "",
    "1 minute": "",
    "1 hour": "",
    "1 day": "",
    "1 month": "",
    "-1 microsecond": "negative",
    "-1 second": "negative",
    "-1 month": "negative",
    "1 month -31 days": "negative",
    "-1 month 31 days": "negative",
    "1 day -25 hours": "negative",
    "366 days": "",
    "366 days 1 microsecond": "",
    "36500 days": "",
    "36500 days 1 microsecond": "huge",
    "100 years": "",
    "10000 years": "huge",
    "178000000 years": "huge",
    "-178000000 years": "negative",
    "2147483647 days": "huge",
    "-2147483648 days": "negative",
    "2147483647 months": "huge",
    "-2147483648 months": "negative",
    "2562047788:00:54.775807": "huge",
    "-2562047788:00:54.775807": "negative",
    "2147483647 months 2147483647 days 2562047788:00:54.775807": "huge",
    "-2147483648 months -2147483648 days -2562047788:00:54.775807": "negative",
    "infinity": "huge",
    "-infinity": "negative",
}

MOMENTS = [
    "2030-01-01 00:00+00",
    "2029-12-31 23:59:59.999999+00",
    "2030-01-01 00:00:00.000001+00",
    "2030-01-01 12:00+00",
    "2031-03-30 02:30 Europe/Berlin",
    "1999-12-31 00:00+00",
    "epoch",
    "0001-01-01 00:00+00 BC",
    "9999-12-31 23:59:59.999999+00",
    "4714-11-24 00:00:00+00 BC",
    "294276-12-31 23:59:59.999999+00",
    "infinity",
    "-infinity",
]

DOUBLES = {
    "0": "",
    "-0": "",
    "0.5": "",
    "1": "",
    "1e-320": "",
    "1e-9": "",
    "1000": "",
    "1e308": "",
    "-1": "negative",
    "-1e-320": "negative",
    "NaN": "nan",
    "Infinity": "",
    "-Infinity": "negative",
}

DOCUMENTS = [
    "null",
    "true",
    "0",
    "-0.0",
    "1e400",
    "123456789012345678901234567890.123456789",
    '""',
    '"\\u0000"',
    '"\\ud83d\\ude00"',
    '"\\ud800"',
    "[]",
    "[[], {}, null]",
    "{}",
    '{"": null}',
    '{"a": 1, "a": 2}',
    '{"a": "b"}',
    '{"a": ["b", "c"]}',
    '{"a": []}',
    '{"a": {"b": [null, 1e9]}}',
    '{"a": null, "b": true}',
    '{"routing_key": "a.b"}',
    "[1, 2",
    "nothing",
]

WIDE = [
    "repeat('[', 100) || repeat(']', 100)",
    "repeat('[', 5000) || repeat(']', 5000)",
    "repeat('{\"a\":', 3000) || '1' || repeat('}', 3000)",
    "'\"' || repeat('x', 1048576) || '\"'",
    "'[' || repeat('1,', 50000) || '1]'",
    "'1' || repeat('0', 131070)",
    "(select jsonb_object_agg(n::text, repeat('v', 100)) from generate_series(1, 1000) as g (n))",
]

BYTES = [
    "\\x",
    "\\x00",
    "\\xff",
    "\\x3132",
    "\\x31",
    "\\x7b7d",
    "\\x225c753030303022",
    "\\x31653430303030303030",
    "\\xc3283132",
    "\\x2222",
]

LONG_BYTES = [
    "decode(repeat('00', 1048576), 'hex')",
    "convert_to(repeat('1', 1048576), 'UTF8')",
    "convert_to(repeat('[', 100000), 'UTF8')",
]


def _limits() -> dict[str, list[Drawn]]:
    limits = {
        kind: [
            Drawn(f"'{most}'"),
            Drawn(f"'{-most - 1}'", frozenset({"negative"})),
        ]
        for kind, most in LARGEST.items()
    }
    limits["interval"] = [
        Drawn(f"'{value}'", frozenset({mark} - {""}))
        for value, mark in INTERVALS.items()
        if mark or value == "36500 days"
    ]
    limits["timestamp with time zone"] = [Drawn(f"'{moment}'") for moment in MOMENTS[-6:]]
    limits["double precision"] = [
        Drawn(f"'{value}'", frozenset({mark} - {""})) for value, mark in DOUBLES.items()
    ]
    return limits


LIMITS = _limits()
"""The first and the last of each type, and what is beyond."""


def literal(value: str) -> str:
    """A text as SQL."""
    return "'" + value.replace("'", "''") + "'"


def argument(
    function: Function, name: str, known: dict[str, tuple[str, ...]]
) -> Callable[[], Strategy]:
    """Arguments for this place; ``known`` has expressions for names that the database knows."""
    kind = function.types[name]
    usual = [Drawn(sql) for sql in known.get(name, ())]

    def drawn() -> Strategy:
        odd = _of_type(function, name, kind)
        choices = [odd, odd, st.just(NULL)]
        if usual:
            choices += [st.sampled_from(usual)] * 2
        return st.one_of(choices)

    return drawn


def _of_type(function: Function, name: str, kind: str) -> Strategy:
    if kind.endswith("[]"):
        return _arrays(function, name, kind.removesuffix("[]"))
    if kind in LARGEST:
        return _integers(function, kind)
    return {
        "text": _texts(function),
        "boolean": st.sampled_from([Drawn("true"), Drawn("false")]),
        "interval": _marked(INTERVALS),
        "double precision": _marked(DOUBLES),
        "timestamp with time zone": st.sampled_from([Drawn(literal(m)) for m in MOMENTS]),
        "uuid": st.uuids().map(lambda value: Drawn(literal(str(value)))),
        "jsonb": _documents(),
        "bytea": st.one_of(
            st.sampled_from([Drawn(literal(value)) for value in BYTES]),
            st.binary(max_size=12).map(lambda value: Drawn(literal("\\x" + value.hex()))),
            st.sampled_from([Drawn(value) for value in LONG_BYTES]),
        ),
    }[kind]


def _marked(values: dict[str, str]) -> Strategy:
    return st.sampled_from(
        [Drawn(literal(v), frozenset({mark} - {""})) for v, mark in values.items()]
    )


def _integers(function: Function, kind: str) -> Strategy:
    most = LARGEST[kind]
    edges = {0, -1, 1, 2, 3, most, most - 1, -most, -most - 1, 2**31, 2**53 + 1}
    edges |= {number + by for number in function.numbers for by in (-1, 0, 1)}
    fitting = [number for number in edges if -most - 1 <= number <= most]
    numbers = st.one_of(
        st.sampled_from(sorted(fitting, key=lambda number: (abs(number), number < 0))),
        st.integers(-5, 200),
    )
    return numbers.map(
        lambda number: Drawn(literal(str(number)), frozenset({"negative"} if number < 0 else ()))
    )


def _texts(function: Function) -> Strategy:
    plain = st.sampled_from([Drawn(literal(text)) for text in TEXTS])
    letters = st.text(
        st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12
    ).map(lambda text: Drawn(literal(text)))
    long = st.sampled_from([Drawn(text) for text in LONG])
    choices = [plain, letters, long]
    if function.words:
        choices += [st.sampled_from([Drawn(literal(word)) for word in function.words])] * 2
    return st.one_of(choices)


def _documents() -> Strategy:
    def written(value: Any) -> Drawn:
        return Drawn(literal(json.dumps(value, ensure_ascii=False)))

    text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=6)
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), text)
    nested = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)
        ),
        max_leaves=6,
    )
    return st.one_of(
        st.sampled_from([Drawn(literal(document)) for document in DOCUMENTS]),
        nested.map(written),
        st.dictionaries(text, text, max_size=2).map(written),
        st.sampled_from([Drawn(f"({document})") for document in WIDE]),
    )


def _arrays(function: Function, name: str, kind: str) -> Strategy:
    element = st.one_of(_of_type(function, name, kind), st.just(Drawn("'1'")))
    some = st.lists(st.one_of(element, element, st.just(NULL)), max_size=4).map(
        lambda elements: _listed(elements, kind)
    )
    pair = st.lists(element, min_size=2, max_size=2).map(lambda elements: _listed(elements, kind))
    # 150, as many as the topic has messages; below and above what int2 and int4 can count to
    filled = st.tuples(element, st.sampled_from([0, 1, 2, 150])).map(
        lambda given: Drawn(f"array_fill({given[0].sql}::{kind}, array[{given[1]}])")
    )
    shifted = st.tuples(element, st.sampled_from([0, 5, -3, 2147483645, -2147483648])).map(
        lambda given: Drawn(
            f"array_fill({given[0].sql}::{kind}, array[2], array[{given[1]}])",
            frozenset({"shifted"}),
        )
    )
    square = element.map(
        lambda given: Drawn(
            f"array_fill({given.sql}::{kind}, array[2, 2])", frozenset({"two dimensions"})
        )
    )
    long = st.just(Drawn(f"array_fill('1'::{kind}, array[20000])"))
    return st.one_of(some, pair, pair, filled, shifted, square, long)


def _listed(elements: list[Drawn], kind: str) -> Drawn:
    if not elements:
        return Drawn("'{}'")
    traits = {"null element"} if NULL in elements else set()
    listed = ", ".join(f"{element.sql}::{kind}" for element in elements)
    return Drawn(f"array[{listed}]", frozenset(traits))
