"""``make mutants``: breaks the SQL on purpose, and sees which mutants the tests do not notice.

Each mutant is made in a copy of the checkout. With ``--results`` it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from mutants.mutant import Mutant, choose
from mutants.report import equivalents, told
from mutants.tree import Tree
from mutants.trial import Results, Trials
from support.house import ROOT

CHECKING = 900
"""Seconds for the tests that noticed, where nothing is broken."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=7, help="what is drawn from (7)")
    parser.add_argument("--count", type=int, default=130, help="mutants that are drawn (130)")
    parser.add_argument("--limit", type=int, help="try no more than so many of them now")
    parser.add_argument("--seconds", type=float, help="begin no more after so long")
    parser.add_argument("--each", type=float, default=300, help="seconds for a mutant (300)")
    parser.add_argument("--processes", type=int, default=1, help="mutants side by side (1)")
    parser.add_argument("--only", default="", help="those with this in their name")
    parser.add_argument(
        "--again", action="store_true", help="try those again that were not noticed"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / ".cache" / "mutants.jsonl",
        help="where results are kept, and those that are there are not tried again",
    )
    parser.add_argument("--list", action="store_true", help="show what is drawn, and try nothing")
    parser.add_argument("--report", action="store_true", help="show what is kept, and try nothing")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    equal = equivalents()
    drawn = choose(ROOT, options.count, options.seed)
    drawn = [mutant for mutant in drawn if options.only in mutant.name]
    if options.list:
        for mutant in drawn:
            print(f"{mutant.name}\n{mutant.diff}\n")
        return 0
    results = Results(options.results)
    if not options.report:
        todo = [mutant for mutant in drawn if wanted(mutant, results, equal, options.again)]
        print(f"seed {options.seed}: {len(todo)} of {len(drawn)} to do", flush=True)
        work(todo[: options.limit], results, options)
    found = [results.found[one.identity] for one in drawn if one.identity in results.found]
    print(told(found, equal))
    return 0


def wanted(mutant: Mutant, results: Results, equal: dict[str, str], again: bool) -> bool:
    """Whether a mutant is to be tried now."""
    known = results.found.get(mutant.identity)
    if known is None:
        return mutant.identity not in equal
    return again and known.outcome == "unnoticed" and mutant.identity not in equal


def work(todo: list[Mutant], results: Results, options: argparse.Namespace) -> None:
    """Try them, several side by side."""
    began = time.monotonic()
    trials = Trials(ROOT, options.each)
    with ExitStack() as stack:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for _ in range(options.processes):
            trees.put(stack.enter_context(Tree(ROOT)))
        done: list[Mutant] = []

        def attempt(mutant: Mutant) -> None:
            if options.seconds is not None and time.monotonic() - began > options.seconds:
                return
            tree = trees.get()
            try:
                result = trials.run(tree, mutant)
            finally:
                trees.put(tree)
            results.add(result)
            done.append(mutant)
            end = result.by or ("" if result.all_run else "(not all tests)")
            print(f"{result.outcome:9} {result.seconds:6} s {result.name} {end}", flush=True)

        def attempt_all(mutants: list[Mutant]) -> None:
            with ThreadPoolExecutor(options.processes) as pool:
                for _ in pool.map(attempt, mutants):
                    pass

        attempt_all(todo)
        tree = trees.get()
        found = [results.found[mutant.identity] for mutant in done]
        wrong = trials.hold_against(tree, found, CHECKING)
        trees.put(tree)
        for result in wrong:  # until it has been tried again, for which there may be no time
            results.add(replace(result, outcome="unnoticed", by=None, all_run=False))
        for test in sorted(trials.failing):
            print(f"fails without any mutant, and notices nothing: {test}", flush=True)
        again = {result.identity for result in wrong}
        attempt_all([mutant for mutant in done if mutant.identity in again])


if __name__ == "__main__":
    raise SystemExit(main())
