"""Whether the tests notice a mutant, and what is kept of it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

from mutants.mutant import Mutant
from mutants.order import Order
from mutants.tree import Tree

__all__ = ["Result", "Results", "Trials"]


@dataclass(frozen=True)
class Result:
    """One line of the file of results."""

    name: str
    identity: str
    kind: str
    folder: str
    outcome: str
    """caught, unnoticed, or invalid: it cannot be installed."""
    by: str | None
    """The test that noticed."""
    all_run: bool
    """Whether all tests were run, or as many as there was time for."""
    seconds: float
    diff: str


class Results:
    """A file of results, which a run adds to; the last line of a mutant is what holds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self.found: dict[str, Result] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                self._keep(line)

    def _keep(self, line: str) -> None:
        try:
            result = Result(**json.loads(line))
        except (ValueError, TypeError):
            return  # half a line, of a run that was killed
        self.found[result.identity] = result

    def add(self, result: Result) -> None:
        with self._lock:
            self.found[result.identity] = result
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")


class Trials:
    """Tries mutants on trees of one checkout."""

    def __init__(self, root: Path, most_seconds: float) -> None:
        self.order = Order(root)
        self._most_seconds = most_seconds

    def run(self, tree: Tree, mutant: Mutant) -> Result:
        """Run the tests in order until one fails."""
        began = time.monotonic()
        outcome, by, all_run = "unnoticed", None, True
        with tree.broken(mutant) as valid:
            if not valid:
                outcome = "invalid"
            else:
                for files in self.order.files(mutant):
                    by, all_run = self._test(tree, files, began)
                    if by is not None or not all_run:
                        break
        if by is not None:
            outcome = "caught"
        return Result(
            name=mutant.name,
            identity=mutant.identity,
            kind=mutant.kind,
            folder=mutant.folder,
            outcome=outcome,
            by=by,
            all_run=all_run,
            seconds=round(time.monotonic() - began, 1),
            diff=mutant.diff,
        )

    def _test(self, tree: Tree, files: list[str], began: float) -> tuple[str | None, bool]:
        left = self._most_seconds - (time.monotonic() - began)
        if left <= 0:
            return None, False
        outcome = tree.test(files, left, self.failing)
        return outcome.failed, outcome.ended

    failing: frozenset[str] = frozenset()
    """Tests that fail without any mutant: they notice nothing."""

    def hold_against(self, tree: Tree, results: list[Result], seconds: float) -> list[Result]:
        """Those of the results that a test caught which fails where nothing is broken, too.

        All these tests are run once at the end, which takes less time than each behind its mutant.
        """
        tests = sorted({result.by for result in results if result.by and "::" in result.by})
        self.failing |= tree.failing(tests, seconds) if tests else set()
        return [result for result in results if result.by in self.failing]
