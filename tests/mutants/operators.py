"""The ways to break a body: each finds its places in a masked text, and what comes there instead.

What comes out need not be valid: PostgreSQL says so when it is installed, and such a mutant does
not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["OPERATORS", "Edit"]


class Edit(NamedTuple):
    """A place and what comes there; ``{3:9}`` in it is what the text had from 3 to 9."""

    begin: int
    end: int
    text: str


Operator = Callable[[str], Iterator[Edit]]

OPERATORS: dict[str, Operator] = {}
"""By kind; each takes a masked text."""


def _kind(name: str) -> Callable[[Operator], Operator]:
    def keep(operator: Operator) -> Operator:
        OPERATORS[name] = operator
        return operator

    return keep


def _swap(hidden: str, pattern: str, swapped: dict[str, str]) -> Iterator[Edit]:
    for match in re.finditer(pattern, hidden):
        yield Edit(*match.span(1), swapped[" ".join(match[1].split())])


# ---------------------------------------------------------------------------- locks


@_kind("lock")
def _locks(hidden: str) -> Iterator[Edit]:
    """Drop a lock, or have it wait for others where it went around them."""
    row = r"\s+for (?:no key update|update|key share|share)\b(?: of \w+(?:, \w+)*)?"
    for match in re.finditer(row + r"(?: skip locked| nowait)?", hidden):
        yield Edit(*match.span(), "")
    for match in re.finditer(r" skip locked\b", hidden):
        yield Edit(*match.span(), "")
    for match in re.finditer(r"\b(?:lock table|perform pg_advisory\w*)\b[^;]*;", hidden):
        yield Edit(*match.span(), "null;")


# ---------------------------------------------------------------------------- conditions

_COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "<>", "<>": "="}
_CLAUSE = re.compile(
    r"\b(set|using|where|if|elsif|when|on|select|from|and|or|return|values|having|not)\b|:=|;"
)


@_kind("comparison")
def _comparisons(hidden: str) -> Iterator[Edit]:
    """Compare the other way; what an update sets is no comparison."""
    for edit in _swap(hidden, r"(?<= )(<=|>=|<>|<|>|=)(?=\s)", _COMPARED):
        before = _CLAUSE.findall(hidden, max(0, edit.begin - 2000), edit.begin)
        if not before or before[-1] not in ("set", "using"):
            yield edit
    yield from _swap(
        hidden, r"\b(is null|is not null)\b", {"is null": "is not null", "is not null": "is null"}
    )
    yield from _swap(
        hidden,
        r"\b(is distinct from|is not distinct from)\b",
        {"is distinct from": "is not distinct from", "is not distinct from": "is distinct from"},
    )


@_kind("logic")
def _logic(hidden: str) -> Iterator[Edit]:
    """Take one of two for both, and the other way round."""
    for edit in _swap(hidden, r"\b(and|or)\b", {"and": "or", "or": "and"}):
        line = hidden[hidden.rfind("\n", 0, edit.begin) + 1 : edit.begin]
        if "between" not in line:
            yield edit


_CONDITION = re.compile(r"\n( *)(?:and|or) [^\n]*(?:\n\1 +[^\n]*)*(?:\n\1\)(?=;?\n))?")
_FIRST = re.compile(r"(?<=\n)( *)where ([^\n;]+(?:\n\1     +[^\n;]+)*)")


@_kind("where")
def _conditions(hidden: str) -> Iterator[Edit]:
    """Drop a condition."""
    for match in _CONDITION.finditer(hidden):
        text = match[0].rstrip(";")
        if _balanced(text) and not text.endswith(" then"):
            yield Edit(match.start(), match.start() + len(text), "")
    for match in _FIRST.finditer(hidden):
        if _balanced(match[2]):
            yield Edit(*match.span(2), "true")


@_kind("if")
def _ifs(hidden: str) -> Iterator[Edit]:
    """Do what is done if, if not."""
    for match in re.finditer(r"\b(?:els|(?<!end ))if\s+([^;]+?)\s+then\b", hidden):
        yield Edit(*match.span(1), f"({{{match.start(1)}:{match.end(1)}}}) is not true")
    for match in re.finditer(r"\b(?:exit|continue) when\s+([^;]+?);", hidden):
        yield Edit(*match.span(1), f"({{{match.start(1)}:{match.end(1)}}}) is not true")


# ---------------------------------------------------------------------------- statements

_BEFORE = re.compile(r"(?:;|\b(?:then|else|loop|begin))(?:[\s\x01])*\Z")


def _statements(hidden: str, pattern: str) -> Iterator[Edit]:
    for match in re.finditer(rf"(?<=\n)( *)({pattern})\b[^;]*;", hidden):
        if _BEFORE.search(hidden, max(0, match.start() - 2000), match.start()):
            yield Edit(match.start(2), match.end(), "null;")


@_kind("check")
def _checks(hidden: str) -> Iterator[Edit]:
    """Skip what refuses: a check, or a raise."""
    yield from _statements(
        hidden, r"perform pgq\._(?:check|fail|demand|require)\w*|raise exception"
    )


@_kind("statement")
def _writes(hidden: str) -> Iterator[Edit]:
    """Leave out a statement that writes, or a call."""
    yield from _statements(hidden, r"update|delete from|perform pgq\._(?!check|fail)\w+")


# ---------------------------------------------------------------------------- values


@_kind("off by one")
def _off_by_one(hidden: str) -> Iterator[Edit]:
    """Forget one."""
    for match in re.finditer(r" [+-] 1\b(?!\.)", hidden):
        yield Edit(*match.span(), "")
    for match in re.finditer(r"(?<=\n)( *limit (?!all\b)[^\n;]+)", hidden):
        if _balanced(match[1]):
            yield Edit(match.end(), match.end(), " + 1")


@_kind("order")
def _orders(hidden: str) -> Iterator[Edit]:
    """Take them as they come."""
    for match in re.finditer(r"\n( *)order by [^\n]*(?:\n\1 +[^\n]*)*|\n( *)order by\n", hidden):
        text = match[0].rstrip(";")
        if _balanced(text):
            yield Edit(match.start(), match.start() + len(text), "")


@_kind("coalesce")
def _coalesces(hidden: str) -> Iterator[Edit]:
    """Prefer the other one."""
    for match in re.finditer(r"\bcoalesce\(", hidden):
        depth, commas = 1, []
        place = match.end()
        while depth and place < len(hidden):
            letter = hidden[place]
            depth += (letter == "(") - (letter == ")")
            if letter == "," and depth == 1:
                commas.append(place)
            place += 1
        if len(commas) == 1:
            first = f"{{{match.end()}:{commas[0]}}}"
            second = f"{{{commas[0] + 1}:{place - 1}}}"
            yield Edit(match.end(), place - 1, f"{second}, {first}")


@_kind("extreme")
def _extremes(hidden: str) -> Iterator[Edit]:
    """The least for the greatest."""
    swapped = {"greatest": "least", "least": "greatest", "min": "max", "max": "min"}
    yield from _swap(hidden, r"(?<![\w.])(greatest|least|min|max)(?=\()", swapped)


def _balanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return depth == 0
