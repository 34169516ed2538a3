"""What the catalog of a database says of the functions that anybody may call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import psycopg

from support.documented import errors_of, others_of

__all__ = ["Catalog", "Function", "read_catalog"]

_FUNCTIONS = """
    select
        p.proname,
        coalesce(p.proargnames[:p.pronargs], '{}'),
        array(
            select format_type(t.type, null)
            from unnest(p.proargtypes::oid[]) with ordinality as t (type, n)
            order by t.n
        ),
        p.pronargs - p.pronargdefaults,
        p.provolatile = 'v',
        format_type(p.prorettype, null),
        coalesce(obj_description(p.oid, 'pg_proc'), ''),
        p.prosrc
    from pg_proc as p
    where p.pronamespace = 'pgq'::regnamespace and p.prorettype <> 'trigger'::regtype
    order by p.proname
"""

NAMES_A_TARGET = {"topic", "queue", "schedule", "subscription", "job_id", "job_ids", "write_id"}
"""What names something that access can be restricted to; see sql/REFERENCE.md."""

_WORD = re.compile(r"'([a-z][a-z_]{2,20})'")
_NUMBER = re.compile(r"(?<![\w.'])(\d{1,18})(?![\w.'])")
_HELPER = re.compile(r"pgq\.(_\w+)\(")


@dataclass(frozen=True)
class Function:
    """A function, and what its body compares arguments with."""

    name: str
    types: dict[str, str]
    required: frozenset[str]
    volatile: bool
    result: str
    codes: frozenset[str]
    words: tuple[str, ...]
    numbers: tuple[int, ...]

    @property
    def is_api(self) -> bool:
        return not self.name.startswith("_")


Catalog = dict[str, Function]


def read_catalog(connection: psycopg.Connection[Any]) -> Catalog:
    """The functions of the API by their names."""
    rows = {row[0]: row for row in connection.execute(_FUNCTIONS).fetchall()}
    found = {}
    for name, arguments, types, required, volatile, result, _, source in rows.values():
        if name.startswith("_"):
            continue
        sources = [source, *_helpers(source, {key: row[7] for key, row in rows.items()})]
        found[name] = Function(
            name,
            dict(zip(arguments, types, strict=True)),
            frozenset(arguments[:required]),
            volatile,
            result,
            _codes(name, arguments, {key: row[6] for key, row in rows.items()}),
            _sorted(word for text in sources for word in _WORD.findall(text)),
            _sorted(int(number) for text in sources for number in _NUMBER.findall(text)),
        )
    return found


def _helpers(source: str, sources: dict[str, str]) -> list[str]:
    """The bodies of the helpers that a body calls, which is where arguments are checked."""
    return [sources[name] for name in sorted(set(_HELPER.findall(source))) if name in sources]


def _codes(name: str, arguments: list[str], comments: dict[str, str]) -> frozenset[str]:
    comment = comments[name]
    codes = set(errors_of(comment))
    for other in others_of(comment):
        codes |= set(errors_of(comments[other]))
    if NAMES_A_TARGET & set(arguments):
        codes.add("42501")
    return frozenset(codes)


def _sorted(values: Any) -> tuple[Any, ...]:
    return tuple(sorted(set(values)))
