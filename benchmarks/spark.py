"""Measure Spark's ways into and out of pgq beside the raw ones, on the same rows, in one run."""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks import spark_partitions  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, Database, commit_of  # noqa: E402
from benchmarks.spark_cluster import standalone  # noqa: E402
from benchmarks.spark_writing import (  # noqa: E402
    TOPIC,
    Place,
    copy_json,
    copy_keyed,
    copy_rows,
    jdbc_rows,
    pgq_publish,
    pgq_save,
)
from benchmarks.systems import install_script  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["main"]

READ_TASKS = 8

RAW_TABLES = (
    "create table plain (id bigint generated always as identity primary key, key text,"
    " payload jsonb, body bytea)",
    "create table raw (log_offset bigint primary key, published_at timestamptz not null,"
    " key text, headers jsonb, body bytea not null)",
)


# ------------------------------------------------------------------------------ reading


def _read(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def read_raw(place: Place) -> None:
    """The raw table by partitionColumn."""
    _read(
        place.spark.read.jdbc(
            place.url,
            "raw",
            column="log_offset",
            lowerBound=1,
            upperBound=place.rows + 1,
            numPartitions=READ_TASKS,
            properties=place.properties(),
        )
    )


def read_pgq(place: Place) -> None:
    """The topic, as users read it."""
    _read(place.broker().read(topic=TOPIC, min_partitions=READ_TASKS))


def read_source(place: Place) -> None:
    """The topic by the data source of the streams, in batch."""
    from pgq.spark import register

    register(place.spark)
    _read(
        place.spark.read.format("pgq")
        .option("url", place.url)
        .option("user", "postgres")
        .option("topic", TOPIC)
        .option("minPartitions", READ_TASKS)
        .load()
    )


# ------------------------------------------------------------------------------ the runs


@dataclass(frozen=True)
class Cell:
    """What is compared: the reference first."""

    name: str
    title: str
    systems: Mapping[str, Callable[[Place], None]]
    targets: Mapping[str, float]
    fill: Callable[[Place], None] | None = None
    """What fills the one database that all systems use."""
    rows: int | None = None
    """How many, unless the command line says it."""


def source(spark: SparkSession, rows: int, size: int, partitions: int) -> DataFrame:
    """Rows of JSON text of about so many bytes, kept in memory."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    spare = len('{"id": 1234567, "filler": ""}')
    frame = spark.range(0, rows, 1, partitions).select(
        F.concat(
            F.lit('{"id": '),
            F.col("id"),
            F.lit(', "filler": "'),
            F.substring(
                F.repeat(F.sha2(F.col("id").cast("string"), 256), 1 + size // 64), 1, size - spare
            ),
            F.lit('"}'),
        ).alias("value"),
        F.concat(F.lit("key "), F.col("id") % 1000).alias("key"),
    )
    frame = frame.persist(StorageLevel.MEMORY_ONLY)
    frame.count()
    return frame


def check(place: Place, system: str) -> None:
    """Fail unless the database holds what it should."""
    if system.startswith(("copy", "jdbc")):
        place.database.expect("rows", "select count(*) from plain", place.rows)
    elif system.endswith(("atomic", "data source")):
        place.database.expect(
            "messages, and offsets without gaps",
            "select sum(last_offset)::bigint, (select count(*) from pgq.messages)"
            f" from pgq.list_offsets('{TOPIC}')",
            place.rows,
            place.rows,
        )


def fill(place: Place) -> None:
    """The same messages in the topic and in the raw table."""
    pgq_publish("value", atomic=False)(place)
    place.database.run(
        "insert into raw select row_number() over (order by partition, log_offset), published_at,"
        " key, headers, body from pgq.messages",
        "vacuum analyze",
    )


CELLS = [
    Cell(
        "write",
        "write",
        {
            "copy": copy_rows,
            "jdbc": jdbc_rows,
            "not atomic": pgq_publish("value", atomic=False),
            "atomic": pgq_publish("value", atomic=True),
            "keyed, not atomic": pgq_publish("key", "value", atomic=False),
            "keyed, atomic": pgq_publish("key", "value", atomic=True),
            "data source": pgq_save("value"),
            "keyed, data source": pgq_save("key", "value"),
            "JSON, data source": pgq_save("value", valueFormat="json"),
            "JSON, not atomic": pgq_publish("value as payload", atomic=False),
            "JSON, atomic": pgq_publish("value as payload", atomic=True),
            "copy with keys": copy_keyed,
            "copy into jsonb": copy_json,
        },
        {
            "not atomic": 0.75,
            "atomic": 0.75,
            "keyed, not atomic": 0.65,
            "keyed, atomic": 0.65,
            "data source": 0.8,
            "keyed, data source": 0.65,
            "JSON, data source": 0.65,
            "JSON, not atomic": 0.65,
            "JSON, atomic": 0.65,
        },
    ),
    Cell(
        "read",
        "read",
        {"raw": read_raw, "pgq": read_pgq, "source": read_source},
        {"pgq": 0.75, "source": 0.55},
        fill=fill,
    ),
    Cell(
        "partitions",
        "stream, by partitions",
        {str(count): spark_partitions.stream(count) for count in (1, 8, 64)},
        {"8": 0.95, "64": 0.7},
        fill=spark_partitions.fill(1, 8, 64),
    ),
    Cell(
        "small",
        "40,000 rows",
        {
            "a batch of a stream, 1 partition": spark_partitions.stream(1),
            "a batch of a stream, 1,000 partitions": spark_partitions.stream(1000),
            "read, 1 partition": spark_partitions.read(1),
            "read, 1,000 partitions": spark_partitions.read(1000),
        },
        {},
        fill=spark_partitions.fill(1, 1000),
        rows=40_000,
    ),
]


def measure(
    bench: Bench, spark: SparkSession, frame: DataFrame, cell: Cell, chosen: argparse.Namespace
) -> dict[str, list[float]]:
    """Seconds of each round, by system; the systems of a round run in a new random order."""
    found: dict[str, list[float]] = {name: [] for name in cell.systems}
    rows = cell.rows or chosen.rows
    kept: Database | None = None
    for number in range(chosen.rounds + 1):
        order = list(cell.systems)
        random.shuffle(order)
        for system in order:
            database = kept or bench.fresh("spark", template="template_spark")
            place = Place(bench, spark, database, frame, rows)
            if kept is None:
                database.run(*RAW_TABLES)
                database.run(f"select pgq.create_topic('{TOPIC}', {chosen.partitions})")
            if cell.fill is not None and kept is None:
                cell.fill(place)
                kept = database
            bench.checkpoint()
            start = time.monotonic()
            cell.systems[system](place)
            seconds = time.monotonic() - start
            check(place, system)
            # The first round warms up Spark's classes and compiled code.
            if number > 0:
                found[system].append(seconds)
            rate = rows / seconds
            label = f"round {number}" if number else "warm-up"
            print(f"  {cell.name} {label}: {system} {rate:,.0f}/s", file=sys.stderr, flush=True)
    return found


def report(results: Mapping[str, Mapping[str, Sequence[float]]], rows: int) -> str:
    """The table, in Markdown."""
    lines = [
        "| cell | system | rows/s | of the reference | target | |",
        "|---|---|---|---|---|---|",
    ]
    for cell in CELLS:
        if cell.name not in results:
            continue
        rates = {
            name: (cell.rows or rows) / statistics.median(seconds)
            for name, seconds in results[cell.name].items()
        }
        reference = rates[next(iter(cell.systems))]
        for name, rate in rates.items():
            target = cell.targets.get(name)
            verdict = "" if target is None else "pass" if rate / reference >= target else "MISS"
            shown = "" if target is None else f">= {target}"
            lines.append(
                f"| {cell.title} | {name} | {rate:,.0f} | {rate / reference:.2f} | {shown} "
                f"| {verdict} |"
            )
    return "\n".join(lines) + "\n"


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="spark.py", description=__doc__)
    parser.add_argument("--cell", choices=[cell.name for cell in CELLS], help="only this cell")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a row (default 200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=8, help="of the topic (default 8)")
    parser.add_argument("--tasks", type=int, default=4, help="that write (default 4)")
    parser.add_argument(
        "--master",
        default="local[2]",
        help="as Spark has it, or standalone[N]: N workers of a core",
    )
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--wal", type=int, default=4, help="GB of WAL kept ready (default 4)")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells asked for; 0 when every run was sound, whatever the targets."""
    chosen = options(arguments)
    from pgq.local_spark import local_session

    with ExitStack() as running:
        master = chosen.master
        if found := re.fullmatch(r"standalone\[(\d+)\]", master):
            master = running.enter_context(standalone(int(found[1])))
        spark = local_session(
            master, name="pgq bench", **{"spark.driver.memory": "2g", "spark.executor.memory": "1g"}
        )
        running.callback(spark.stop)
        return run(spark, chosen)


def run(spark: SparkSession, chosen: argparse.Namespace) -> int:
    """Run the cells asked for on this session."""
    try:
        with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=chosen.wal) as bench:
            description = {
                "revision": commit_of(HERE),
                **bench.description(),
                "Spark": f"{spark.version}, {chosen.master}",
                "rows": f"{chosen.rows:,} of {chosen.size} bytes,"
                f" median of {chosen.rounds} rounds after one that warms up",
            }
            bench.install("template_spark", install_script())
            frame = source(spark, chosen.rows, chosen.size, chosen.tasks)
            results = {
                cell.name: measure(bench, spark, frame, cell, chosen)
                for cell in CELLS
                if chosen.cell in (None, cell.name)
            }
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    machine = "\n".join(f"- {name}: {value}" for name, value in description.items())
    text = f"{machine}\n\n{report(results, chosen.rows)}"
    print(text)
    if chosen.markdown is not None:
        chosen.markdown.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
