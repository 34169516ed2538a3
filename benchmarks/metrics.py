"""What pgq.metrics() takes: 1,000 topics of 8 partitions, 1,000 groups, 10 million messages.

Messages are inserted in bulk, into two segments of each partition, interleaved as publishers leave
them. A third of the partitions of a group is caught up, a third is a little behind, a third is far
behind, in the segment before. Beside that 200 queues of 50 jobs and one of a million, of which some
are leased, some delayed and many dead letters. Then both functions are called again and again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import psutil  # noqa: E402
import psycopg  # noqa: E402
from benchmarks.cells.base import settle  # noqa: E402
from benchmarks.harness import Bench, Database, commit_of  # noqa: E402
from benchmarks.report import plain_table  # noqa: E402
from benchmarks.systems import SYSTEMS  # noqa: E402

__all__ = ["main"]

TARGET = 250.0
"""Milliseconds that a call may take."""

FILL = """
insert into pgq.message_{leaf} (partition_id, log_offset, published_at, segment, payload)
select
    p.partition_id,
    p.segment_first_offset + n,
    now() - interval '1 hour' + (p.segment_first_offset + n) * interval '1 millisecond',
    {leaf},
    '{{"n": 1}}'
from generate_series(0, {messages} - 1) as n
cross join pgq.partition as p
"""

POSITIONS = """
insert into pgq.group_position (
    group_id, partition, seq, first_offset, next_offset, recorded_at
)
select l.group_id, l.partition, j.seq + s, 1, case l.partition % 3
        when 0 then (select max(n.last_offset) from pgq.topic_stats as n
            where n.topic = (select topic from pgq.topic limit 1)) + 1
        when 1 then p.segment_first_offset + 5
        else 2
    end, now()
from pgq.group_partition as l
inner join pgq.partition as p on p.partition_id = l.partition_id
cross join lateral (
    select max(k.seq) as seq from pgq.group_position as k
    where k.group_id = l.group_id and k.partition = l.partition
) as j
cross join generate_series(1, 10) as s
"""

JOBS = """
insert into pgq.job (
    job_id, queue_id, partition_id, log_offset, visible_at, segment, attempt, priority, lease_token
)
select
    nextval('pgq.job_id'),
    q.queue_id,
    q.partition_id,
    1,
    now() + case when n % 1000 = 0 then interval '1 minute' when n % 10 = 0 then interval '1 day'
        else n * interval '-1 millisecond' end,
    q.segment,
    1,
    5,
    case when n % 1000 = 0 then gen_random_uuid() end
from pgq.queue as q
cross join lateral generate_series(1, case q.queue when 'long' then {jobs} else 50 end) as n
"""

DEAD = """
insert into pgq.dead_job (
    job_id, queue_id, partition_id, log_offset, segment, priority, attempt, died_at
)
select nextval('pgq.job_id'), q.queue_id, q.partition_id, 1, q.segment, 5, 3, now()
from pgq.queue as q
cross join generate_series(1, {jobs} / 4)
where q.queue = 'long'
"""


def build(database: Database, topics: int, messages: int, jobs: int) -> None:
    """Make the database that is measured."""
    partitions = topics * 8
    with database.connect() as connection:
        connection.execute("set synchronous_commit = off")
        connection.execute(
            "select pgq.create_topic('topic.' || n, 8),"
            " pgq.create_group('topic.' || n, 'group.' || n)"
            " from generate_series(1, %s) as n",
            [topics],
        )
        for part in (0, 1):
            [(leaf,)] = connection.execute("select distinct segment from pgq.partition").fetchall()
            fill = FILL.format(leaf=leaf, messages=messages // partitions // 2)
            connection.execute(fill.encode())
            if part == 0:
                connection.execute(
                    "update pgq.segment set opened_at = opened_at - interval '30 days'"
                )
                moved = "select count(*) from pgq.segment_range"
                while connection.execute(moved).fetchone() != (2 * partitions,):
                    connection.execute("select from pgq.cleanup()")
        connection.execute(POSITIONS)
        connection.execute("select pgq.create_queue('queue.' || n) from generate_series(1, 200) n")
        connection.execute("select pgq.create_queue('long')")
        connection.execute(JOBS.format(jobs=jobs).encode())
        connection.execute(DEAD.format(jobs=jobs).encode())


def measured(
    connection: psycopg.Connection[Any], statement: str, calls: int
) -> tuple[list[float], float]:
    """Milliseconds of each call, and of the processor for one; the first counts for nothing."""
    process = psutil.Process(connection.info.backend_pid)
    connection.execute(statement.encode())
    before = process.cpu_times()
    taken = []
    for _ in range(calls):
        begun = time.perf_counter()
        connection.execute(statement.encode())
        taken.append((time.perf_counter() - begun) * 1000)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return sorted(taken), used * 1000 / calls


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 when it was sound, whatever the target."""
    chosen = options(arguments)
    rows = []
    with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=1) as bench:
        machine = {"revision": commit_of(HERE), **bench.description()}
        bench.install("template_pgq", SYSTEMS["pgq"].schema)
        database = bench.fresh("bench", template="template_pgq")
        begun = time.perf_counter()
        build(database, chosen.topics, chosen.messages, chosen.jobs)
        machine["built in"] = f"{time.perf_counter() - begun:.0f} s"
        for state in ("never analyzed", "vacuumed and analyzed"):
            if state != "never analyzed":
                settle(bench, database)
            with database.connect() as connection:
                for what, statement in (
                    ("metrics()", "select count(*) from pgq.metrics()"),
                    ("metrics_text()", "select length(pgq.metrics_text())"),
                    ("topics and groups", "select count(*) from pgq._log_figures(now())"),
                    ("queues", "select count(*) from pgq._queue_samples(now())"),
                    ("group_lag, the view", "select count(lag) from pgq.group_lag"),
                ):
                    taken, used = measured(connection, statement, chosen.calls)
                    rows.append((f"{what}, {state}", taken, used))
        with database.connect() as connection:
            figures = connection.execute(
                "select labels ->> 'state' as state, value from pgq.metrics()"
                " where name = 'pgq_queue_jobs' and labels ->> 'queue' = 'long'"
            ).fetchall()
            machine["jobs of the long queue"] = ", ".join(
                f"{value:,.0f} {state}" for state, value in figures
            )
    print(*(f"- {name}: {value}" for name, value in machine.items()), "", sep="\n")
    heading = ["what", "median", "p95", "most", "processor", "", ""]
    lines = [
        [
            what,
            f"{statistics.median(taken):.0f}",
            f"{taken[int(len(taken) * 0.95)]:.0f}",
            f"{taken[-1]:.0f}",
            f"{used:.0f}",
            "ms",
            ("pass" if taken[int(len(taken) * 0.95)] <= TARGET else "MISS")
            if what.startswith("metrics")
            else "",
        ]
        for what, taken, used in rows
    ]
    print(plain_table([heading, *lines], numbers={1, 2, 3, 4}))
    if chosen.json is not None:
        written = {"machine": machine, "figures": {what: taken for what, taken, _ in rows}}
        chosen.json.write_text(json.dumps(written, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
