"""``make explore``: looks for interleavings that break a promise, until the time is over.

It ends at the first finding, with the schedule, and the arguments that replay it; with ``--all`` it
goes on, and tells findings that look alike once. ``--mode all-pairs`` runs every pair of functions
that share a table, goes on from where it was stopped, and tells how much of all is done.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from explorer.every_pair import NEARNESS
from explorer.explore import Explorer, names, new_seed
from explorer.progress import DEFAULT
from pgq.embedded import Server

SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "max_locks_per_transaction": "256",
    "synchronous_commit": "off",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (60)")
    parser.add_argument(
        "--seed", type=int, help="what the trials are drawn from; by default a new one"
    )
    parser.add_argument("--mode", choices=["both", "pairs", "random", "all-pairs"], default="both")
    parser.add_argument(
        "--areas",
        default="",
        help="narrow it down: of log, queue, effects, endings, limits, keyed, room, bulk, mixed,"
        " settings, store, journal, deferred, ticks, poison, follow, access, workers, with commas",
    )
    parser.add_argument("--levels", default="", help="isolation levels to draw from, with commas")
    parser.add_argument("--gates", action="store_true", help="calls stop between their statements")
    parser.add_argument("--ignore", default="", help="kinds of findings to pass over, with commas")
    parser.add_argument("--all", action="store_true", help="go on after a finding")
    parser.add_argument("--resume", type=Path, default=DEFAULT, help="the file of --mode all-pairs")
    parser.add_argument("--part", default="1/1", help="of all pairs: 1/2 or 2/2 for two processes")
    parser.add_argument(
        "--only", default="", help="of all pairs: those with one of these functions"
    )
    parser.add_argument("--near", choices=NEARNESS, help="of all pairs: those that are so near")
    parser.add_argument("--trial", help="replay one trial: its name")
    parser.add_argument("--drop", default="", help="the steps to leave out of it, with commas")
    parser.add_argument("--times", type=int, default=1, help="how often to replay it")
    return parser.parse_args()


def replay(explorer: Explorer, options: argparse.Namespace) -> int:
    trial = explorer.trial(options.trial)
    trial = trial.without(int(place) for place in options.drop.split(",") if place)
    failed = False
    for _ in range(options.times):
        history = explorer.run(trial)
        print(explorer.finding(trial, history), flush=True)
        failed = failed or bool(history.violations)
    return 1 if failed else 0


def explore(explorer: Explorer, options: argparse.Namespace) -> int:
    began = time.monotonic()
    seen: dict[str, int] = {}
    if options.mode == "all-pairs":
        only = [name for name in options.only.split(",") if name]
        number, parts = (int(part) for part in options.part.split("/"))
        findings = explorer.explore_pairs(
            options.resume, options.seconds, (number, parts), only, options.near
        )
    else:
        findings = explorer.explore(names(options.mode), options.seconds)
    for finding in findings:
        count = seen.get(finding.signature, 0)
        seen[finding.signature] = count + 1
        if count == 0:
            print(
                f"\nfound after {finding.after:.1f} s: {finding.signature}\n{finding}", flush=True
            )
        if not options.all:
            break
    spent = time.monotonic() - began
    rate = explorer.trials / spent
    print(f"\nseed {explorer.seed}: {explorer.trials} trials in {spent:.0f} s, {rate:.1f} a second")
    for signature, count in sorted(seen.items(), key=lambda item: -item[1]):
        print(f"  {count} times {signature}")
    if not seen:
        print("nothing found")
    return 1 if seen else 0


def main() -> int:
    options = arguments()
    seed = options.seed if options.seed is not None else new_seed()
    if options.mode == "all-pairs" and options.seed is None:
        seed = 1
    print(f"seed {seed}", flush=True)
    url = os.environ.get("DATABASE_URL")
    if url:
        return work(url, seed, options)
    with Server(settings=SETTINGS) as server:
        return work(server.dsn, seed, options)


def work(dsn: str, seed: int, options: argparse.Namespace) -> int:
    explorer = Explorer(
        dsn,
        seed,
        name=f"pgq_explorer_{os.getpid()}",
        areas=tuple(area for area in options.areas.split(",") if area),
        ignored=frozenset(options.ignore.split(",")),
        gates=options.gates,
        levels=tuple(level for level in options.levels.split(",") if level),
    )
    try:
        return replay(explorer, options) if options.trial else explore(explorer, options)
    finally:
        explorer.close()


if __name__ == "__main__":
    raise SystemExit(main())
