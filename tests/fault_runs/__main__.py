"""``make faults``: rounds in which all that pgq does is under way while things are killed.

Each round has a fresh server, a scene, and a seed that is printed and replays what is broken and
what clients choose (not how the machine shares its time among them). It ends with the first round
that breaks a promise; its journals are kept then.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fault_runs.round import Outcome, play_round
from fault_runs.scenes import SCENES, missing_for

FEW = 5
"""Broken promises of a kind that are told."""

ROUND = 60.0
"""Seconds of a round, without its end."""

TURNS = ["server", "standby", "server", "time", "server", "disk", "spark"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200, help="how long (1200)")
    parser.add_argument("--round", type=float, default=ROUND, help="seconds of a round (60)")
    parser.add_argument("--seed", type=int, help="of the first round; by default a new one")
    parser.add_argument("--scene", choices=list(SCENES), help="this one alone; by default in turns")
    parser.add_argument("--all", action="store_true", help="go on after a broken promise")
    parser.add_argument("--keep", type=Path, help="a folder for journals; by default a new one")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="pgq-faults-"))
    # the server may run as another user
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    scenes = [options.scene] if options.scene else TURNS
    for scene in dict.fromkeys(scenes):
        if missing := missing_for(scene):
            print(f"scene {scene} is left out: {missing}", flush=True)
            scenes = [each for each in scenes if each != scene]
    if not scenes:
        return 1
    totals = Totals()
    began = time.monotonic()
    try:
        for number in itertools.count():
            left = options.seconds - (time.monotonic() - began)
            if left <= 0:
                break
            scene = scenes[number % len(scenes)]
            outcome = play_round(scene, min(options.round, left), str(seed), folder / str(seed))
            tell(scene, seed, outcome)
            totals.add(outcome)
            if outcome.violations:
                print(f"  the journals are in {folder / str(seed)}", flush=True)
                if not options.all:
                    break
            else:
                shutil.rmtree(folder / str(seed), ignore_errors=True)
            seed += 1
    except KeyboardInterrupt:
        print("stopped", flush=True)
    totals.tell(time.monotonic() - began)
    return 1 if totals.broken else 0


@dataclass
class Totals:
    """What came of all rounds so far."""

    rounds: int = 0
    broken: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.rounds += 1
        self.broken += bool(outcome.violations)
        self.faults += outcome.faults
        self.units += outcome.units

    def tell(self, seconds: float) -> None:
        print(f"\n{self.rounds} rounds in {seconds:.0f} s, {self.broken} with broken promises")
        for what, count in sorted(self.faults.items()):
            print(f"  {count:6} {what}")
        print(f"  {kills(self.faults):6} kills of processes in all")
        print(f"{sum(self.units.values())} transactions:")
        for what, count in sorted(self.units.items()):
            print(f"  {count:6} {what}")


def tell(scene: str, seed: int, outcome: Outcome) -> None:
    acknowledged = sum(n for what, n in outcome.units.items() if what.endswith(" done"))
    print(
        f"scene {scene}, seed {seed}: {sum(outcome.faults.values())} faults,"
        f" {kills(outcome.faults)} kills, {acknowledged} of {sum(outcome.units.values())}"
        f" transactions acknowledged, {len(outcome.violations)} broken promises",
        flush=True,
    )
    told: Counter[str] = Counter()
    for violation in outcome.violations:
        told[violation.kind] += 1
        if told[violation.kind] <= FEW:
            print(f"  {violation}", flush=True)
    for kind, count in told.items():
        if count > FEW:
            print(f"  {kind}: {count} in all", flush=True)


def kills(faults: Counter[str]) -> int:
    """How many processes, or servers, were killed."""
    return sum(n for what, n in faults.items() if "killed" in what or what == "failover")


if __name__ == "__main__":
    raise SystemExit(main())
