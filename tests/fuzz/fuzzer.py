"""Plays plans that hypothesis draws, and makes the one that finds something as small as it can."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf

from hypothesis import HealthCheck, Phase, errors, given, seed, settings

from fuzz.checks import Finding
from fuzz.plans import Plan
from fuzz.world import World

__all__ = ["Found", "Fuzzer"]


class Found(Exception):
    """A plan that breaks a promise."""

    def __init__(self, plan: Plan, finding: Finding) -> None:
        super().__init__(f"{finding}\n\n{plan}")
        self.plan = plan
        self.finding = finding


class _Enough(KeyboardInterrupt):
    """What is found is small enough for the time that it took."""


class Fuzzer:
    """Plans of some functions, or of all, from a seed: the same seed gives the same plans."""

    def __init__(
        self,
        world: World,
        number: int,
        *,
        functions: Iterable[str] = (),
        most_calls: int = 8,
        committed: int = 30,
        shrinking: float = 30,
    ) -> None:
        self.world = world
        self.number = number
        self.plans = 0
        self.ignored: set[str] = set()
        self._shrinking = shrinking
        self.functions = [*(functions or world.catalog)]
        self._most_calls = most_calls
        self._committed = committed

    def batch(self, number: int, examples: int, ends: float = inf) -> Found | None:
        """What is found in so many plans for the function whose turn it is.

        The first of them is the simplest: the usual call and nothing else.
        """
        function = self.functions[number % len(self.functions)]
        plans = self.world.plans.of(function, self._most_calls, self._committed)
        smallest: Found | None = None
        found_at = 0.0

        def play(plan: Plan) -> None:
            nonlocal smallest, found_at
            now = time.monotonic()
            if smallest is None and now > ends:
                return
            if smallest is not None and now > found_at + self._shrinking:
                raise _Enough
            self.plans += 1
            try:
                self.play(plan)
            except Finding as finding:
                if finding.signature in self.ignored:
                    return
                found = Found(plan, finding)
                if smallest is None:
                    found_at = now
                if smallest is None or len(str(plan)) <= len(str(smallest.plan)):
                    smallest = found
                raise found from None

        trial = given(plan=plans)(play)
        trial = seed(f"{self.number}.{number}")(
            settings(
                max_examples=examples,
                database=None,
                deadline=None,
                phases=[Phase.generate, Phase.shrink],
                print_blob=False,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            )(trial)
        )
        # what fails by chance, and not again, is told as it was
        with suppress(Found, _Enough, errors.Flaky):
            trial()
        return None if smallest is None else self._smaller(smallest)

    def play(self, plan: Plan) -> None:
        self.world.play(plan)

    def _smaller(self, found: Found) -> Found:
        """The same without the calls and arguments that it does not need."""
        for place in reversed(range(len(found.plan.calls))):
            found = self._without(found, place, None)
        for place, call in enumerate(found.plan.calls):
            for name, _, _ in call.arguments:
                if name not in self.world.catalog[call.function].required:
                    found = self._without(found, place, name)
        return found

    def _without(self, found: Found, place: int, name: str | None) -> Found:
        calls = [*found.plan.calls]
        if name is None:
            del calls[place]
        else:
            calls[place] = calls[place].without(name)
        plan = replace(found.plan, calls=tuple(calls))
        try:
            self.play(plan)
        except Finding as finding:
            if finding.signature == found.finding.signature:
                return Found(plan, finding)
        return found

    def try_plan(self, plan: Plan) -> Found | None:
        """What is found in one plan."""
        self.plans += 1
        try:
            self.play(plan)
        except Finding as finding:
            return Found(plan, finding)
        return None

    def search(self, seconds: float, *, examples: int = 10) -> Iterator[Found]:
        """What is found until the time is over; what looks like it is passed over from then on."""
        ends = time.monotonic() + seconds
        number = 0
        while time.monotonic() < ends:
            found = self.batch(number, examples, ends)
            if found is not None:
                self.ignored.add(found.finding.signature)
                yield found
            number += 1
