"""What the Python client costs: it consumes beside a plain cursor that calls the same function.

Both read the same messages by the same statement, in batches, on one connection each, taking turns
within a round; the result is the median of the rounds. The cursor gives tuples, the client objects.
The rate includes the server. The time that the reader's process computes for each message does not,
and depends less on what else the machine does.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import psycopg  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, Database, commit_of  # noqa: E402
from benchmarks.systems import install_script  # noqa: E402

from pgq import Client  # noqa: E402

__all__ = ["main"]

TOPIC = "bench"
PAYLOAD = {"sensor": "kitchen", "celsius": 21.5, "tags": ["a", "b"]}
STATEMENT = b"""
    select partition, log_offset, published_at, key, headers, payload, body
    from pgq.consume(topic => %s, consumer_group => %s, max_messages => %s)
"""

AnyConnection = psycopg.Connection[Any]
Way = Callable[[AnyConnection, str, int], int]


def by_cursor(connection: AnyConnection, group: str, batch: int) -> int:
    """A batch by psycopg alone."""
    with psycopg.Cursor(connection) as cursor:
        return len(cursor.execute(STATEMENT, [TOPIC, group, batch], binary=True).fetchall())


def by_client(connection: AnyConnection, group: str, batch: int) -> int:
    """A batch by the client."""
    return len(Client(connection).consume(TOPIC, group, max_messages=batch))


WAYS: Mapping[str, Way] = {"cursor": by_cursor, "client": by_client}
CONTENTS: Mapping[str, Mapping[str, Any]] = {
    "bodies of 200 bytes": {"body": b"x" * 200},
    "JSON payloads": {"payload": PAYLOAD},
}


def fill(database: Database, content: Mapping[str, Any], messages: int) -> None:
    """Make the topic, and publish so many times the same."""
    with database.connect() as connection:
        client = Client(connection)
        client.admin.create_topic(TOPIC, partitions=1)
        plural = {"body": "bodies", "payload": "payloads"}
        for _ in range(messages // 1000):
            client.publish_batch(
                TOPIC, **{plural[name]: [value] * 1000 for name, value in content.items()}
            )
        connection.execute("vacuum analyze")


def run(
    database: Database, group: str, way: Way, chosen: argparse.Namespace
) -> tuple[float, float]:
    """Read everything; returns the seconds that it took, and those that this process computed."""
    with database.connect() as connection:
        Client(connection).admin.create_group(TOPIC, group)
        way(connection, group, 1)
        rest, start, begin = chosen.messages - 1, time.perf_counter(), time.process_time()
        while got := way(connection, group, chosen.batch):
            rest -= got
        taken = time.perf_counter() - start, time.process_time() - begin
    if rest != 0:
        raise BenchmarkError(f"{rest} messages were not consumed")
    return taken


def measure(database: Database, chosen: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    """The times of each round, by way; the ways of a round run in a new random order."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for number in range(chosen.rounds):
        for name in random.sample(list(WAYS), len(WAYS)):
            found[name].append(run(database, f"{name}-{number}", WAYS[name], chosen))
    return found


def report(what: str, found: Mapping[str, Sequence[tuple[float, float]]], messages: int) -> str:
    """Lines of the table, in Markdown."""
    rates = {
        name: messages / statistics.median(seconds for seconds, _ in rounds)
        for name, rounds in found.items()
    }
    computed = {
        name: statistics.median(own for _, own in rounds) / messages * 1e6
        for name, rounds in found.items()
    }
    return "\n".join(
        f"| {what} | {name} | {rates[name]:,.0f} | {rates[name] / rates['cursor']:.2f} "
        f"| {computed[name]:.2f} | {computed[name] / computed['cursor']:.2f} |"
        for name in found
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 when every run was sound."""
    parser = argparse.ArgumentParser(prog="client.py", description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    chosen = parser.parse_args(arguments)
    lines = [
        f"| {chosen.batch} at a time | by | messages/s | of the cursor "
        "| µs of the reader's processor | of the cursor |",
        "|---|---|---|---|---|---|",
    ]
    try:
        with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=1) as bench:
            description = {"revision": commit_of(HERE), **bench.description()}
            bench.install("template_client", install_script())
            for number, (what, content) in enumerate(CONTENTS.items()):
                database = bench.fresh(f"client{number}", template="template_client")
                fill(database, content, chosen.messages)
                lines.append(report(what, measure(database, chosen), chosen.messages))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    print(*(f"- {name}: {value}" for name, value in description.items()), "", *lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
