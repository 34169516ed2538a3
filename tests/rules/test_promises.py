"""What the documents promise, each with the tests that hold it: ``tests/promises/*.txt``.

A line is ``where it stands | the promise | the tests``, or ``none`` for the tests where nothing
holds it yet. A test goes only with its promise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.house import ROOT, refuse

_UNHELD = 128
"""How many promises have no test; it only shrinks."""


def _promises() -> Iterator[tuple[str, list[str]]]:
    """Where each stands, and its parts."""
    for path in sorted((ROOT / "tests" / "promises").glob("*.txt")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield f"{path.name}:{number}", line.split(" | ")


@cache
def _tests_of(path: Path) -> frozenset[str]:
    """The names of the tests in a file, as pytest writes them behind its name."""
    if not path.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}::{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(names)


def test_each_promise_names_its_tests() -> None:
    def broken() -> Iterator[str]:
        for place, parts in _promises():
            if len(parts) != 3 or len(parts[1]) > 110:
                yield f"{place}: not a source, a promise of at most 110 characters, and tests"
                continue
            if not (ROOT / parts[0]).is_file():
                yield f"{place}: there is no {parts[0]}"
            for test in parts[2].split(", ") if parts[2] != "none" else []:
                file, _, name = test.partition("::")
                if name not in _tests_of(ROOT / file):
                    yield f"{place}: there is no {test}"

    refuse(broken())


def test_no_further_promise_is_without_a_test() -> None:
    assert sum(parts[-1] == "none" for _, parts in _promises()) == _UNHELD


def test_a_promise_is_written_once() -> None:
    promises = [parts[1] for _, parts in _promises()]
    refuse({promise for promise in promises if promises.count(promise) > 1})
