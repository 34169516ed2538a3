"""In which order the tests are tried on a mutant: those first that are likely to notice.

What a function is used by is read from the sources: a helper is tested by the tests of the
functions that call it. Among files of tests that name one of them, those come first that have most
words in common with the source, weighted by how seldom they are.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from pathlib import Path

from mutants.mutant import Mutant
from mutants.sources import folder_of, sources

__all__ = ["Order"]

AFTERWARDS = (
    "concurrency",
    "addons/access",
    "plans",
    "addons/subscription",
    "retention",
    "addons/schedule",
    "addons/metrics",
    "addons/bulk",
    "addons/deferred",
    "addons/ordered",
    "addons/limits",
    "addons/effects",
    "log",
    "queue",
    "model",
    "consumer",
    "producer",
    "worker",
    "python",
)
"""Folders of tests in the order in which they are tried after the mutant's own.

Left out is what compares texts of functions and would notice any change (rules, install,
documentation), and what needs more than a server to begin (spark, ui, servers, faults)."""

_CALLED = re.compile(r"\bpgq\.(\w+)\s*\(")
_PASTED = re.compile(r"-- paste: (\S+)")
_VIEW = re.compile(r"^create view pgq\.(\w+)", re.MULTILINE)

FIRST = 8
"""Files that are tried before more is collected."""


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[a-z]{3,}", text.lower()))


class Order:
    """The order for the sources and the tests of a tree."""

    def __init__(self, root: Path) -> None:
        self._callers: defaultdict[str, set[str]] = defaultdict(set)
        self._views: dict[str, list[str]] = {}
        for path in sources(root):
            text = path.read_text()
            name = path.relative_to(root / "sql").as_posix()
            self._views[name] = _VIEW.findall(text)
            users = {path.stem, *self._views[name]} if path.stem == "views" else {path.stem}
            for called in _CALLED.findall(text):
                self._callers[called] |= users
            for part in _PASTED.findall(text):
                self._callers[(path.parent / part).name] |= users
        self._tests = {
            path.relative_to(root).as_posix(): path.read_text()
            for folder in AFTERWARDS
            for path in sorted((root / "tests" / folder).glob("test_*.py"))
        }
        self._words = {path: _words(path + text) for path, text in self._tests.items()}
        files = Counter(word for words in self._words.values() for word in words)
        self._weights = {word: math.log(len(self._words) / n) for word, n in files.items()}

    def entries(self, mutant: Mutant) -> dict[str, int]:
        """What tests may call to get to the mutant, with the number of calls between."""
        path = Path(mutant.path)
        start = [path.name if path.suffix == ".plpgsql" else path.stem]
        if path.stem == "views":
            start = self._views["/".join(path.parts[1:])]
        distance = dict.fromkeys(start, 0)
        todo = list(start)
        for name in todo:
            for caller in sorted(self._callers[name] - distance.keys()):
                distance[caller] = distance[name] + 1
                todo.append(caller)
        return {name: far for name, far in distance.items() if not name.startswith("_")}

    def likeness(self, source: str, path: str) -> float:
        """How much a file of tests has in common with the text of a source."""
        wanted = _words(source)
        words = self._words[path]

        def weigh(word: str, number: int) -> float:
            return (1 + math.log(number)) * self._weights.get(word, 0)

        common = sum(
            weigh(word, wanted[word]) * weigh(word, words[word]) for word in wanted & words
        )
        return common / math.sqrt(sum(weigh(word, n) ** 2 for word, n in words.items()) or 1)

    def files(self, mutant: Mutant) -> list[list[str]]:
        """The files of tests, in the parts in which they are run.

        Those of the mutant's own folder come first, but before the last of them what is likely
        elsewhere has its turn.
        """
        entries = self.entries(mutant)
        called = re.compile(rf"\b({'|'.join(map(re.escape, entries))})\b" if entries else r"(?!)")
        nearest = min(entries.values(), default=0)

        def named(path: str) -> bool:
            stem = Path(path).stem.removeprefix("test_")
            return entries.get(stem, nearest + 1) == nearest

        alike = {path: self.likeness(mutant.path + mutant.before, path) for path in self._tests}
        ordered = sorted(self._tests, key=lambda path: -alike[path])
        own = [path for path in ordered if folder_of(path) == mutant.folder]
        own.sort(key=lambda path: (not called.search(self._tests[path]), not named(path)))
        # no more than three for their names alone: a helper may be called by many
        for path in [path for path in own if named(path)][3:]:
            own.remove(path)
            own.insert(FIRST, path)
        others = [path for path in ordered if path not in own]
        related = [path for path in others if called.search(self._tests[path])]
        if mutant.kind == "lock":  # a session alone does not miss it
            beside = [path for path in related if path.startswith("tests/concurrency/")]
            first = own[:2] + beside[:FIRST]
            own = [path for path in own if path not in first]
            related = [path for path in related if path not in first]
        else:
            first = []
        rest = [path for path in others if path not in related]
        rest.sort(key=lambda path: AFTERWARDS.index(folder_of(path)))
        parts = (
            first,
            own[:FIRST],
            related[:FIRST],
            own[FIRST : 2 * FIRST],
            related[FIRST : 2 * FIRST],
            own[2 * FIRST :],
            related[2 * FIRST :],
            rest,
        )
        return [part for part in parts if part]
