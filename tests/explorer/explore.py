"""Runs one trial after the other, and makes what fails as short as it can."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from explorer.calls import CALLS
from explorer.database import Database
from explorer.every_pair import function_of, names_of
from explorer.footprints import measure, pairs_of
from explorer.history import History, Violation
from explorer.invariants import check
from explorer.progress import Progress, product, share
from explorer.run import Runner
from explorer.schedule import INTERLEAVINGS, trial_of
from explorer.script import LEVELS, Trial

__all__ = ["Explorer", "Finding", "names"]

VACUUM_EVERY = 300
ANEW_EVERY = 3000
SHRINKING = 90.0
"""Seconds that making one trial shorter may take."""


@dataclass
class Finding:
    """A trial that broke a promise, as short as it was found."""

    seed: int
    trial: Trial
    history: History
    options: str = ""
    after: float = 0.0

    @property
    def violation(self) -> Violation:
        return self.history.violations[0]

    @property
    def signature(self) -> str:
        """The same for findings that have probably one cause."""
        calls = sorted(
            {step.call for step in self.trial.part("steps")} - {"look", "commit", "rollback"}
        )
        return f"{self.violation.kind}: {', '.join(calls)}"

    @property
    def arguments(self) -> str:
        """What replays exactly this trial."""
        replay = f"--seed {self.seed} --trial {self.trial.name}{self.options}"
        if self.trial.dropped:
            replay += " --drop " + ",".join(str(place) for place in sorted(self.trial.dropped))
        return replay

    def __str__(self) -> str:
        lines = [f"broken: {violation}" for violation in self.history.violations[:6]]
        lines += [f"  {number:3} {line}" for number, line in enumerate(self.history.log, 1)]
        lines.append(f'replay: make explore ARGS="{self.arguments}"')
        return "\n".join(lines)


class Explorer:
    """Runs trials in a database of its own."""

    def __init__(
        self,
        dsn: str,
        seed: int,
        *,
        name: str = "pgq_explorer",
        areas: tuple[str, ...] = (),
        levels: tuple[str, ...] = (),
        ignored: frozenset[str] = frozenset(),
        gates: bool = False,
        say: Callable[[str], None] = print,
    ) -> None:
        self.seed = seed
        self.areas = areas
        self.levels = levels
        self.ignored = ignored
        self.gates = gates
        self.trials = 0
        self._say = say
        self.database = Database(dsn, name, gates=gates)
        self.runner = Runner(self.database)
        self._used = 0

    def close(self) -> None:
        self.runner.close()
        self.database.drop()

    def trial(self, name: str, areas: tuple[str, ...] = ()) -> Trial:
        return trial_of(self.seed, name, areas or self.areas, self.levels, self.gates)

    def run(self, trial: Trial) -> History:
        """Run a trial and check it."""
        self._refresh()
        self.trials += 1
        try:
            history = self.runner.run(trial)
        except TimeoutError:
            history = self.runner.history
            self.anew()
            return history
        try:
            check(history, self.database.house)
        except Exception as error:  # what is broken this much is told like all the rest
            history.violate("cannot be checked", f"{type(error).__name__}: {error}")
        history.violations[:] = [v for v in history.violations if v.kind not in self.ignored]
        return history

    def _refresh(self) -> None:
        self._used += 1
        if self._used % ANEW_EVERY == 0:
            self.anew()
        elif self._used % VACUUM_EVERY == 0:
            self.database.vacuum()

    def anew(self) -> None:
        """Make the database anew."""
        self._used = 0
        self.runner.close()
        self.database.close()
        self.database.create()
        self.runner = Runner(self.database)

    # ------------------------------------------------------------------ findings

    def explore(
        self, names: Iterable[str], seconds: float, note: Callable[[str], None] = lambda name: None
    ) -> Iterator[Finding]:
        """Run trials until the time is over; those that fail are made short and given out, the
        names of the others are noted."""
        began = time.monotonic()
        for name in names:
            if time.monotonic() - began > seconds:
                return
            trial = self.trial(name)
            history = self.run(trial)
            if history.violations:
                after = time.monotonic() - began
                self._say(f"{trial.name} after {after:.1f} s: {history.violations[0]}")
                found = self.shrunk(trial, history)
                found.after = after
                yield found
            else:
                note(name)

    def explore_pairs(
        self,
        path: Path,
        seconds: float,
        part: tuple[int, int] = (1, 1),
        only: Collection[str] = (),
        near: str | None = None,
    ) -> Iterator[Finding]:
        """Run what is left of all pairs, or of those with one of some functions, or of those that
        are so near (NEARNESS): all of it, or one part of so many."""
        explored: dict[str, object] = {
            "product": product(),
            "functions": sorted({function_of(name) for name in CALLS}),
            "seed": self.seed,
            "areas": list(self.areas),
            "levels": list(self.levels),
            "gates": self.gates,
        }
        progress = Progress(path, explored)
        if progress.footprints is None:
            progress.begin(measure(self.runner, self.seed, self.areas))
        assert progress.footprints is not None
        names = names_of(pairs_of(progress.footprints, only), self.seed)
        number, parts = part
        left = [
            name
            for name in names[number - 1 :: parts]
            if name not in progress.done and name.endswith(near or "")
        ]
        yield from self.explore(left, seconds, progress.note)
        progress.read()
        for line in share(names, progress.done, len(self.levels or LEVELS) ** 2):
            self._say(line)

    def finding(self, trial: Trial, history: History) -> Finding:
        """A finding with all that its replay needs to be told."""
        options = "".join(
            f" --{option} '{','.join(chosen)}'"
            for option, chosen in (("areas", self.areas), ("levels", self.levels))
            if chosen
        )
        if self.gates:
            options += " --gates"
        return Finding(self.seed, trial, history, options)

    def shrunk(self, trial: Trial, history: History) -> Finding:
        """Leave out steps as long as the same promise is broken."""
        first = history.violations[0]
        kind = first.kind
        until = time.monotonic() + SHRINKING
        size = max(len(trial.places()) // 2, 1)
        if kind == "endless":
            self.runner.limit("2s")
        while size:
            places = trial.places()
            left_out = False
            for start in range(0, len(places), size):
                if time.monotonic() > until:
                    size = 0
                    break
                shorter = trial.without(places[start : start + size])
                tried = self.run(shorter)
                if any(_alike(violation, first) for violation in tried.violations):
                    tried.violations.sort(key=lambda violation: violation.kind != kind)
                    trial, history, left_out = shorter, tried, True
            if not left_out or size > 1:
                size //= 2
        if kind == "endless":
            self.anew()
        return self.finding(trial, history)


def _alike(violation: Violation, first: Violation) -> bool:
    """Whether it is probably the same that is broken; what cannot be checked has many reasons."""
    if violation.kind == "cannot be checked":
        return violation == first
    return violation.kind == first.kind


def names(mode: str) -> Iterator[str]:
    """The names of trials without end: random ones, pairs in every interleaving, or both."""
    number = 0
    while True:
        if mode != "pairs":
            for random_one in range(INTERLEAVINGS):
                yield f"r{number * INTERLEAVINGS + random_one}"
        if mode != "random":
            for interleaving in range(INTERLEAVINGS):
                yield f"p{number}.{interleaving}"
        number += 1


def new_seed() -> int:
    return random.SystemRandom().randrange(1, 1000000)
