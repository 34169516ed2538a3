"""What runs of bulk writes cost readers and publishers: a partition with 10,000 of them.

Two topics of one partition get the same messages: one by publish_batch, the other by as many atomic
bulk writes, each with a task of two chunks, so that each leaves a run. Then both are read and
published to by turns, in one run: in ranges, by a group with 100 messages a call, and one message a
call. At the end the same single publishes beside a snapshot that was held while further writes were
committed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import psycopg  # noqa: E402
from benchmarks.harness import Bench, Database, commit_of  # noqa: E402
from benchmarks.report import plain_table  # noqa: E402
from benchmarks.systems import install_script  # noqa: E402

__all__ = ["main"]

TOPICS = ("plain", "runs")
BODY = b"x" * 200


def fill(database: Database, writes: int, messages: int) -> float:
    """The same messages in both topics; returns the milliseconds that a commit took."""
    half = messages // 2
    chunk = (BODY * half, [len(BODY)] * half, [1 + len(BODY) * n for n in range(half)])
    commits = []
    with database.connect() as connection:
        for topic in TOPICS:
            connection.execute("select pgq.create_topic(%s, partitions => 1)", [topic])
            for group in ("ranges", "calls", "single"):
                connection.execute("select pgq.create_group(%s, %s)", [topic, group])
        for _ in range(writes):
            connection.execute(
                "select pgq.publish_batch('plain', bodies => %s)", [[BODY] * messages]
            )
        for _ in range(writes):
            commits.append(write(connection, chunk))
    database.run("vacuum analyze")
    return statistics.median(commits)


def write(connection: psycopg.Connection[Any], chunk: tuple[bytes, list[int], list[int]]) -> float:
    """One bulk write with a task of two chunks."""
    row = connection.execute("select write_id from pgq.begin_write(topic => 'runs')").fetchone()
    assert row is not None
    packed, lengths, starts = chunk
    with connection.transaction():
        for number in range(2):
            connection.execute(
                "select pgq.write_chunk(write_id => %s, task => 0, task_attempt => 'a',"
                " chunk => %s, lengths => %s, starts => %s, packed_bodies => %s,"
                " last_chunk => %s)",
                [row[0], number, lengths, starts, packed, number == 1],
            )
    begun = time.perf_counter()
    connection.execute("select pgq.commit_write(%s)", [row[0]])
    return (time.perf_counter() - begun) * 1000


def ranges(connection: psycopg.Connection[Any], topic: str, total: int) -> float:
    """Microseconds for a message, in ranges of 10,000 all over the partition."""
    step = total // 40
    begun = time.perf_counter()
    for number in range(40):
        first = number * step + 1
        found = connection.execute(
            "select count(*) from pgq.fetch_range(%s, 0, %s, %s)", [topic, first, first + 9999]
        ).fetchone()
        assert found == (10_000,)
    return (time.perf_counter() - begun) / 400_000 * 1e6


def calls(connection: psycopg.Connection[Any], topic: str, _: int) -> float:
    """Microseconds for a message that a group takes by 100."""
    begun = time.perf_counter()
    for _number in range(300):
        found = connection.execute(
            "select count(*) from pgq.consume(%s, 'calls', 100)", [topic]
        ).fetchone()
        assert found == (100,)
    return (time.perf_counter() - begun) / 30_000 * 1e6


def singles(connection: psycopg.Connection[Any], topic: str, _: int) -> float:
    """Microseconds for a message that a group takes alone."""
    begun = time.perf_counter()
    for _number in range(500):
        connection.execute("select from pgq.consume(%s, 'single', 1)", [topic])
    return (time.perf_counter() - begun) / 500 * 1e6


def publishes(connection: psycopg.Connection[Any], topic: str, _: int) -> float:
    """Microseconds for a single publish."""
    begun = time.perf_counter()
    for _number in range(500):
        connection.execute("select from pgq.publish(%s, body => %s)", [topic, BODY])
    return (time.perf_counter() - begun) / 500 * 1e6


CELLS: dict[str, Callable[[psycopg.Connection[Any], str, int], float]] = {
    "read in ranges of 10,000": ranges,
    "consume 100": calls,
    "consume 1": singles,
    "publish 1": publishes,
}


def measure(database: Database, chosen: argparse.Namespace) -> list[list[str]]:
    """The rows of the table."""
    rows = []
    total = chosen.writes * chosen.messages
    with database.connect() as connection:
        connection.execute("set synchronous_commit = off")
        for name, cell in CELLS.items():
            found: dict[str, list[float]] = {topic: [] for topic in TOPICS}
            for number in range(chosen.rounds + 1):
                for topic in TOPICS if number % 2 else TOPICS[::-1]:
                    seconds = cell(connection, topic, total)
                    if number:
                        found[topic].append(seconds)
            plain, runs = (statistics.median(found[topic]) for topic in TOPICS)
            rows.append([name, f"{plain:.1f}", f"{runs:.1f}", f"{runs / plain:.2f}"])
        with database.connect() as holder:
            holder.execute("begin isolation level repeatable read")
            holder.execute("select count(*) from pgq.topic")
            half = chosen.messages // 2
            chunk = (BODY * half, [len(BODY)] * half, [1 + len(BODY) * n for n in range(half)])
            for _ in range(chosen.held):
                write(connection, chunk)
            publishes(connection, "runs", total)
            plain, runs = (publishes(connection, topic, total) for topic in TOPICS)
            holder.execute("rollback")
        rows.append(
            [
                f"publish 1, {chosen.held} writes since a snapshot that is held",
                f"{plain:.1f}",
                f"{runs:.1f}",
                f"{runs / plain:.2f}",
            ]
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill, measure, print the table."""
    parser = argparse.ArgumentParser(prog="runs.py", description=__doc__)
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=600, help="of each write")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--held", type=int, default=1000, help="writes beside a held snapshot")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    chosen = parser.parse_args(arguments)
    with Bench(bin_dir=chosen.pg_bin) as bench:
        bench.install("template_runs", install_script())
        database = bench.fresh("runs", template="template_runs")
        commit = fill(database, chosen.writes, chosen.messages)
        rows = measure(database, chosen)
        description = {"revision": commit_of(HERE), **bench.description()}
    for name, value in description.items():
        print(f"- {name}: {value}")
    print(f"- a commit: {commit:.2f} ms (median of {chosen.writes:,})\n")
    print(plain_table([["microseconds for a message", "plain", "runs", "ratio"], *rows], {1, 2, 3}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
