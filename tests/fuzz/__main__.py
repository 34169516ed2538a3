"""``make fuzz``: calls every function with odd arguments until one breaks a promise.

It ends at the first finding, with the smallest script for psql that shows it; with ``--all`` it
goes on, and tells findings that look alike once.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections import Counter
from itertools import chain

from fuzz.fuzzer import Found, Fuzzer
from fuzz.large import large
from fuzz.world import World
from pgq.embedded import Server
from support import servers


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (60)")
    parser.add_argument("--seed", type=int, help="what is drawn from; by default a new one")
    parser.add_argument("--functions", default="", help="only these, with commas")
    parser.add_argument("--calls", type=int, default=16, help="the most calls of a plan (16)")
    parser.add_argument("--all", action="store_true", help="go on after a finding")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {options.seed}", flush=True)
    url = os.environ.get("DATABASE_URL")
    if url:
        return work(url, options)
    server = Server(settings={**servers.FAST, "autovacuum": "off"})
    servers.start(server)
    try:
        return work(server.dsn, options)
    finally:
        server.stop()


def work(dsn: str, options: argparse.Namespace) -> int:
    world = World(dsn, f"pgq_fuzz_{os.getpid()}")
    try:
        fuzzer = Fuzzer(
            world,
            options.seed,
            functions=[name for name in options.functions.split(",") if name],
            most_calls=options.calls,
        )
        began = time.monotonic()
        found = 0
        contents = large(world.catalog, 100_000_000)
        first = None if options.functions else fuzzer.try_plan(contents)
        for one in chain([first] if first else [], fuzzer.search(options.seconds)):
            found += 1
            tell(one)
            if not options.all:
                break
        spent = time.monotonic() - began
        print(told(world.counts))
        calls = sum(world.counts.values())
        print(
            f"\nseed {options.seed}: {calls} calls in {fuzzer.plans} plans in {spent:.0f} s,"
            f" {found or 'nothing'} found"
        )
        return 1 if found else 0
    finally:
        world.close()


def tell(found: Found) -> None:
    print(f"\nfound: {found.finding}\n\n{found.plan}\n", flush=True)


def told(counts: Counter[tuple[str, str]]) -> str:
    """How often each function was called, succeeded, and raised each code."""
    lines = []
    for function in sorted({function for function, _ in counts}):
        codes = {code: number for (name, code), number in counts.items() if name == function}
        succeeded = codes.pop("success", 0)
        raised = " ".join(f"{code}:{number}" for code, number in sorted(codes.items()))
        calls = succeeded + sum(codes.values())
        lines.append(f"{function:20} {calls:6} calls {succeeded:6} succeeded  {raised}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
