"""Measure a topic on one server beside the same topic over two, on the same processors."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.harness import Bench, BenchmarkError, commit_of  # noqa: E402
from benchmarks.spark import source  # noqa: E402
from benchmarks.spark_writing import TOPIC, Place  # noqa: E402
from benchmarks.systems import install_script  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["main"]

WAYS = {"one": 1, "one, in a list": 1, "two": 2}
"""How many servers have the topic; a list of one goes the way of several."""


def measure(
    benches: Sequence[Bench],
    spark: SparkSession,
    frame: DataFrame,
    way: str,
    chosen: argparse.Namespace,
) -> tuple[float, float]:
    """Seconds to write all rows by key, and to read them."""
    from pgq.spark import Pgq

    databases = [bench.fresh("spark", template="template_spark") for bench in benches[: WAYS[way]]]
    for bench, database in zip(benches, databases, strict=False):
        database.run(f"select pgq.create_topic('{TOPIC}', {chosen.partitions})")
        bench.checkpoint()
    urls = [
        Place(bench, spark, database, frame, chosen.rows).url
        for bench, database in zip(benches, databases, strict=False)
    ]
    where: Any = urls[0] if way == "one" else urls
    broker = Pgq(spark, where, {"user": "postgres"})
    start = time.monotonic()
    broker.publish(frame.selectExpr("key", "value"), topic=TOPIC, producer="bench", seq=1)
    written = time.monotonic() - start
    count = sum(database.row("select count(*)::int from pgq.messages")[0] for database in databases)
    if count != chosen.rows:
        raise BenchmarkError(f"{way}: {count} messages of {chosen.rows}")
    start = time.monotonic()
    broker.read(topic=TOPIC, min_partitions=8).write.format("noop").mode("overwrite").save()
    return written, time.monotonic() - start


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="spark_shards.py", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a row (default 200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=8, help="of the topic (default 8)")
    parser.add_argument("--tasks", type=int, default=4, help="that write (default 4)")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    chosen = options(arguments)
    from pgq.local_spark import local_session

    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with ExitStack() as running:
        spark = local_session(chosen.master, name="pgq bench", **{"spark.driver.memory": "2g"})
        running.callback(spark.stop)
        benches = [
            running.enter_context(Bench(bin_dir=chosen.pg_bin, wal_gigabytes=2)) for _ in range(2)
        ]
        for bench in benches:
            bench.install("template_spark", install_script())
        frame = source(spark, chosen.rows, chosen.size, chosen.tasks)
        for number in range(chosen.rounds + 1):
            for way in random.sample(list(WAYS), len(WAYS)):
                seconds = measure(benches, spark, frame, way, chosen)
                if number > 0:
                    found[way].append(seconds)
                rates = [f"{chosen.rows / each:,.0f}/s" for each in seconds]
                label = f"round {number}" if number else "warm-up"
                print(f"  {label}: {way}: {rates}", file=sys.stderr, flush=True)
        print(f"- revision: {commit_of(HERE)}")
        for name, value in benches[0].description().items():
            print(f"- {name}: {value}")
        print(f"- Spark: {spark.version}, {chosen.master}")
        print(
            f"- rows: {chosen.rows:,} of {chosen.size} bytes with a key, {chosen.rounds} rounds\n"
        )
    print("| servers | written, rows/s | read, rows/s |\n|---|---|---|")
    for way, seconds in found.items():
        written, read = (
            chosen.rows / statistics.median(each[place] for each in seconds) for place in (0, 1)
        )
        print(f"| {way} | {written:,.0f} | {read:,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
