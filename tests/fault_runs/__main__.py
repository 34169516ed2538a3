"""``make faults``: rounds in which all that pgq does is under way while things are killed.

Each round has a fresh server, a scene, and a seed that is printed and replays what is broken and
what clients choose (not how the machine shares its time among them). It ends with the first round
that breaks a promise; its journals are kept then.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from fault_runs.round import Outcome, play_round
from fault_runs.stage import SCENES, false_time_library

FEW = 5
"""Broken promises of a kind that are told."""

ROUND = 60.0
"""Seconds of a round, without its end."""

TURNS = ["server", "standby", "server", "time", "server", "disk"]


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
    faults: Counter[str] = Counter()
    units: Counter[str] = Counter()
    broken = 0
    began = time.monotonic()
    turn = 0
    while time.monotonic() - began < options.seconds:
        scene = options.scene or TURNS[turn % len(TURNS)]
        turn += 1
        if scene == "disk" and os.geteuid() != 0:
            print("a full disk: left out, since only root can mount a small one", flush=True)
            continue
        if scene == "time" and false_time_library() is None:
            print("the server's clock: left out, there is no libfaketime", flush=True)
            continue
        length = min(options.round, options.seconds - (time.monotonic() - began))
        outcome = play_round(scene, length, str(seed), folder / str(seed))
        tell(scene, seed, outcome)
        faults += outcome.faults
        units += outcome.units
        broken += bool(outcome.violations)
        if outcome.violations:
            print(f"  the journals are in {folder / str(seed)}", flush=True)
            if not options.all:
                break
        else:
            shutil.rmtree(folder / str(seed), ignore_errors=True)
        seed += 1
    print(f"\n{turn} rounds in {time.monotonic() - began:.0f} s, {broken} with broken promises")
    for what, count in sorted(faults.items()):
        print(f"  {count:6} {what}")
    print(f"  {kills(faults):6} kills of processes in all")
    print(f"{sum(units.values())} transactions:")
    for what, count in sorted(units.items()):
        print(f"  {count:6} {what}")
    return 1 if broken else 0


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
