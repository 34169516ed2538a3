"""How long bodies are, without comments, white space collapsed, parts pasted in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from leaves import pasted
from support.house import ROOT

LONG = 4_000
RATHER_LONG = 2_500

# Each of these only shrinks.
TOTAL = 488_404
ARE_LONG = {"finish_and_claim"}
ARE_RATHER_LONG = 33

_BODY = re.compile(r"\nas \$\$\n(.*?)\n\$\$;", re.DOTALL)


def _sizes() -> Iterator[tuple[str, int]]:
    for path in sorted((ROOT / "sql").rglob("*.sql")):
        for body in _BODY.findall(pasted(path)):
            yield path.stem, len(" ".join(re.sub(r"--[^\n]*", "", body).split()))


def test_all_together() -> None:
    assert sum(size for _, size in _sizes()) <= TOTAL


def test_those_that_are_long() -> None:
    assert {name for name, size in _sizes() if size > LONG} == ARE_LONG


def test_those_that_are_rather_long() -> None:
    assert sum(size > RATHER_LONG for _, size in _sizes()) == ARE_RATHER_LONG
