"""Calls on a topic and a queue of a late leaf, beside the same calls on the first one.

    python benchmarks/leaves.py --leaf 40 --rounds 9

A ratio of 1 says that it does not matter how many topics and retentions there were before. Calls
alternate between the two in one session; each figure is the median of its rounds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "python" / "src")]

from benchmarks.systems import install_script  # noqa: E402

from pgq.embedded import Server  # noqa: E402

TURNS = 150

Calls = dict[str, Callable[[int], Any]]


def prepare(connection: psycopg.Connection[Any], leaf: int) -> None:
    """A topic and a queue on leaf 0, and others on the leaf that is asked for."""
    connection.execute("select pgq.set_storage_bounds(1000, 1000)")
    for name, retention in (("first", "10 days"), ("late", "20 days")):
        if name == "late":
            for n in range(1, leaf):
                connection.execute(f"select pgq.create_queue('q{n}', retention => '{n} hours')")
        given = f"retention => '{retention}', idempotency_window => '1 day'"
        connection.execute(f"select pgq.create_topic('{name}', partitions => 1, {given})")
        connection.execute(f"select pgq.create_queue('{name}', {given})")
        connection.execute(f"select pgq.create_group('{name}', 'g')")
    rows = connection.execute("select segment from pgq.queue where queue in ('first', 'late')")
    print("leaves", *(segment for (segment,) in rows.fetchall()))


def calls(cursor: psycopg.Cursor[Any], name: str) -> Calls:
    """What is timed; what a turn needs is made before by its first half."""

    def run(text: str) -> Callable[[int], Any]:
        return lambda n: cursor.execute(text.replace("$name", name).replace("$n", str(n)))

    return {
        "publish": run("select * from pgq.publish('$name', '{}')"),
        "consume 1": run("select * from pgq.consume('$name', 'g', 1)"),
        "publish, idempotency key": run(
            "select * from pgq.publish('$name', '{}', idempotency_key => '$name $n')"
        ),
        "fetch_range 1": run("select * from pgq.fetch_range('$name', 0, $n + 1, $n + 1)"),
        "enqueue": run("select * from pgq.enqueue('$name', '{}')"),
        "finish_and_claim": run("select * from pgq.finish_and_claim('$name')"),
        "claim_job": run("select * from pgq.claim_job('$name')"),
        "publish_batch 100": run(
            "select * from pgq.publish_batch('$name', array_fill('{}'::jsonb, array[100]))"
        ),
        "consume 100": run("select * from pgq.consume('$name', 'g', 100)"),
        "enqueue_batch 100": run(
            "select count(*) from pgq.enqueue_batch('$name', array_fill('{}'::jsonb, array[100]))"
        ),
        "claim_job 100": run("select * from pgq.claim_job('$name', 100)"),
    }


def main() -> int:
    """Print a ratio for each call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaf", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    with Server(settings={"fsync": "off", "autovacuum": "off"}) as server:
        with psycopg.connect(server.dsn, autocommit=True, prepare_threshold=None) as connection:
            connection.execute(install_script().read_bytes().partition(b"\n")[2])
            prepare(connection, chosen.leaf)
            cursor = connection.cursor()
            both = [calls(cursor, name) for name in ("first", "late")]
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in both[0]}
            for number in range(chosen.rounds):
                for name in both[0]:
                    turns = TURNS if "100" not in name else TURNS // 10
                    times = [0.0, 0.0]
                    for turn in range(turns):
                        for which in (0, 1) if turn % 2 else (1, 0):
                            begun = time.perf_counter()
                            both[which][name](number * TURNS + turn)
                            times[which] += time.perf_counter() - begun
                    found[name].append((times[0] / turns, times[1] / turns))
    print(f"{'call':28}{'first':>10}{'late':>10}  ratio")
    for name, pairs in found.items():
        first, late = (median(pair[which] for pair in pairs) * 1e6 for which in (0, 1))
        ratio = median(pair[1] / pair[0] for pair in pairs)
        print(f"{name:28}{first:7.0f} µs{late:7.0f} µs  {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
