"""What is measured: the systems side by side, and the cells with their targets."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Bench, BenchmarkError, Database, Load, Outcome, body_of

__all__ = ["CELLS", "SYSTEMS", "Cell", "Length", "Quantity", "System"]

HERE = Path(__file__).resolve().parent

LOG_BODY = 1024
JOB_BODY = 200


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long to measure."""

    seconds: int = 10
    snapshot_seconds: int = 180


# ---------------------------------------------------------------- systems


class System(ABC):
    """One of the things compared: its schema, how to fill it, and how to check it."""

    name: str
    schema: Path

    def script(self, name: str) -> Path:
        """One of its pgbench scripts."""
        return HERE / self.name / f"{name}.sql"

    def create_topic(self, database: Database, partitions: int) -> None:
        """Make the log that is written to."""
        return

    def create_queue(self, database: Database) -> None:
        """Make the queue."""
        return

    def create_groups(self, database: Database, groups: int) -> None:
        """Make the groups 1 … groups, each at the beginning of the log."""
        raise NotImplementedError

    @abstractmethod
    def fill_log(self, database: Database, messages: int, body: int) -> None:
        """Write messages, a multiple of 1000."""

    def fill_queue(self, database: Database, jobs: int, body: int) -> None:
        """Write jobs, a multiple of 1000."""
        raise NotImplementedError

    @abstractmethod
    def check_log(self, database: Database, messages: int) -> None:
        """Fail unless the log holds exactly so many messages, with dense offsets."""

    def consumed(self, database: Database) -> int:
        """How many messages all groups together have passed."""
        raise NotImplementedError

    def check_consumed(self, database: Database, messages: int) -> None:
        """Fail if a message could have been skipped or handed out twice within a group."""
        raise NotImplementedError

    def check_queue(self, database: Database, waiting: int, finished: int) -> None:
        """Fail unless so many jobs wait, so many are archived, and none is both."""
        raise NotImplementedError


class Bound(System):
    """A plain table: the least that storing the same bytes can cost."""

    name = "bound"
    schema = HERE / "bound" / "schema.sql"

    def fill_log(self, database: Database, messages: int, body: int) -> None:
        database.run(
            "insert into message (payload)"
            " select %(body)s::text::bytea from generate_series(1, %(messages)s::integer)",
            arguments={"body": body_of(body), "messages": messages},
        )

    def check_log(self, database: Database, messages: int) -> None:
        database.expect("rows", "select count(*) from message", messages)


class Primitives(System):
    """The published primitives: a counter row, a row per group, a table that is deleted from."""

    name = "primitives"
    schema = HERE / "primitives" / "schema.sql"

    def create_groups(self, database: Database, groups: int) -> None:
        database.run(
            "truncate consumer_offsets",
            "insert into consumer_offsets (group_id, topic_id, next_offset)"
            " select number, 1, 1 from generate_series(1, %(groups)s::integer) as number",
            arguments={"groups": groups},
        )

    def fill_log(self, database: Database, messages: int, body: int) -> None:
        database.run(
            "insert into topic (topic_id, c_offset, payload)"
            " select 1, number, %(body)s::text::bytea"
            " from generate_series(1, %(messages)s::integer) as number",
            "update log_counter set next_offset = %(messages)s + 1",
            arguments={"body": body_of(body), "messages": messages},
        )

    def fill_queue(self, database: Database, jobs: int, body: int) -> None:
        database.run(
            "insert into queue (payload)"
            " select %(body)s::text::bytea from generate_series(1, %(jobs)s::integer)",
            arguments={"body": body_of(body), "jobs": jobs},
        )

    def check_log(self, database: Database, messages: int) -> None:
        database.expect(
            "dense offsets",
            "select count(*), count(distinct c_offset), coalesce(min(c_offset), 1),"
            " coalesce(max(c_offset), 0) from topic",
            messages,
            messages,
            1,
            messages,
        )

    def consumed(self, database: Database) -> int:
        return int(database.row("select sum(next_offset - 1) from consumer_offsets")[0])

    def check_consumed(self, database: Database, messages: int) -> None:
        database.expect(
            "positions within the log",
            "select coalesce(max(next_offset), 1) <= (select next_offset from log_counter)"
            " from consumer_offsets",
            True,
        )

    def check_queue(self, database: Database, waiting: int, finished: int) -> None:
        database.expect(
            "jobs waiting, archived, archived once, in both",
            "select (select count(*) from queue), count(*), count(distinct id),"
            " (select count(*) from queue join queue_archive using (id)) from queue_archive",
            waiting,
            finished,
            finished,
            0,
        )


class Pgq(System):
    """This project, installed by psql from its sources."""

    name = "pgq"
    schema = HERE.parent / "sql" / "install.sql"

    def create_topic(self, database: Database, partitions: int) -> None:
        database.run(
            "select pgq.create_topic('bench', %(partitions)s)", arguments={"partitions": partitions}
        )

    def create_queue(self, database: Database) -> None:
        database.run("select pgq.create_queue('bench')")

    def create_groups(self, database: Database, groups: int) -> None:
        database.run(
            "select pgq.drop_group('bench', consumer_group) from pgq.list_groups('bench')",
            "select pgq.create_group('bench', 'g' || number)"
            " from generate_series(1, %(groups)s::integer) as number",
            arguments={"groups": groups},
        )

    def fill_log(self, database: Database, messages: int, body: int) -> None:
        database.run(
            "select count(*) from"
            " (select partitions from pgq.list_topics() where topic = 'bench') as bench,"
            " generate_series(1, %(messages)s::integer / 1000) as number,"
            " pgq.publish_batch('bench', partition => number %% partitions,"
            " bodies => array_fill(%(body)s::text::bytea, array[1000]))",
            arguments={"body": body_of(body), "messages": messages},
        )

    def fill_queue(self, database: Database, jobs: int, body: int) -> None:
        database.run(
            "select count(*) from generate_series(1, %(jobs)s::integer / 1000) as number,"
            " pgq.enqueue_batch('bench', bodies => array_fill(%(body)s::text::bytea,"
            " array[1000 + 0 * number]))",
            arguments={"body": body_of(body), "jobs": jobs},
        )

    def check_log(self, database: Database, messages: int) -> None:
        database.expect(
            "dense offsets",
            "select coalesce(sum(amount), 0)::bigint,"
            " coalesce(bool_and(first_offset = 1 and last_offset = amount), true)"
            " from (select count(distinct log_offset) as amount, min(log_offset) as first_offset,"
            " max(log_offset) as last_offset from pgq.message group by partition_id) as partitions",
            messages,
            True,
        )

    def consumed(self, database: Database) -> int:
        return int(database.row("select sum(position) from pgq.group_lag")[0])

    def check_consumed(self, database: Database, messages: int) -> None:
        database.expect(
            "claims that do not join the one before",
            "select count(*) from (select first_offset, lag(next_offset, 1, 1) over"
            " (partition by group_id, partition order by seq) as before"
            " from pgq.group_position) as claims where first_offset <> before",
            0,
        )
        database.run("select pgq.create_group('bench', 'check')")
        seen = _consume_all(database)
        seen.sort()
        expected: dict[int, int] = {}
        for partition, first, last, amount in seen:
            if first != expected.get(partition, 1) or last - first + 1 != amount:
                raise BenchmarkError(f"partition {partition}: lost or doubled at offset {first}")
            expected[partition] = last + 1
        total = sum(following - 1 for following in expected.values())
        if total != messages:
            raise BenchmarkError(f"consumed {total} of {messages} messages")

    def check_queue(self, database: Database, waiting: int, finished: int) -> None:
        database.expect(
            "jobs waiting, archived, archived once, in both, payloads",
            "select (select count(*) from pgq.job), count(*), count(distinct job_id),"
            " (select count(*) from pgq.job join pgq.job_archive using (job_id)),"
            " (select count(*) from pgq.message) from pgq.job_archive",
            waiting,
            finished,
            finished,
            0,
            waiting + finished,
        )


def _consume_all(database: Database) -> list[tuple[int, int, int, int]]:
    """What the group gets until nothing is left: partition, first and last offset, and how many."""
    parts: list[tuple[int, int, int, int]] = []
    with database.connect() as connection:
        while True:
            found = connection.execute(
                "select partition, min(log_offset), max(log_offset), count(body)"
                " from pgq.consume('bench', 'check', 7777) group by partition"
            ).fetchall()
            if not found:
                return parts
            parts += found


SYSTEMS: Mapping[str, System] = {system.name: system for system in (Bound(), Primitives(), Pgq())}


# ---------------------------------------------------------------- cells


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One figure of a cell, and what pgq is to reach.

    The target is a ratio to the reference system, or an absolute value when there is none.
    """

    name: str
    unit: str
    target: float | None = None
    reference: str | None = None
    at_most: bool = False


@dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """One comparison."""

    name: str
    title: str
    systems: Sequence[str]
    scripts: Mapping[str, str]
    quantities: Sequence[Quantity]
    once: bool = False

    @abstractmethod
    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        """Measure one system once, on data made for it."""

    def runs(self, system: str) -> bool:
        """Whether there is a script for this system."""
        return system in self.scripts

    def finish(self, bench: Bench) -> None:
        """Drop what the cell kept between rounds."""
        for name in self.scripts:
            bench.drop(f"bench_{name}")

    def fresh(self, bench: Bench, system: System) -> Database:
        """An empty database of this system."""
        return bench.fresh(f"bench_{system.name}", template=f"template_{system.name}")


def settle(bench: Bench, database: Database) -> None:
    """Leave no work behind that the measurement would have to do."""
    database.run("vacuum (analyze)")
    bench.checkpoint()


@dataclass(frozen=True, kw_only=True)
class Writing(Cell):
    """Publish or enqueue for a time into an empty table."""

    clients: int
    batch: int = 1
    body: int = LOG_BODY
    partitions: int = 8
    queue: bool = False

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        database = self.fresh(bench, system)
        if self.queue:
            system.create_queue(database)
        else:
            system.create_topic(database, self.partitions)
        bench.checkpoint()
        outcome = bench.pgbench(
            database,
            Load(
                script=system.script(self.scripts[system.name]),
                clients=self.clients,
                body=self.body,
                batch=self.batch,
                seconds=length.seconds,
            ),
        )
        written = outcome.transactions * self.batch
        if self.queue and system.name != "bound":
            system.check_queue(database, written, 0)
        else:
            system.check_log(database, written)
        return {"rate": written / outcome.seconds}


@dataclass(frozen=True, kw_only=True)
class PublishWal(Cell):
    """WAL of publishing in batches, into empty tables and without a checkpoint on the way."""

    batch: int = 100
    transactions: int = 300

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        database = self.fresh(bench, system)
        system.create_topic(database, 8)
        bench.checkpoint()
        load = Load(
            script=system.script(self.scripts[system.name]),
            batch=self.batch,
            transactions=self.transactions,
        )
        bench.pgbench(database, load)  # the pages touched first are written to the WAL in full
        start = bench.wal_position()
        bench.pgbench(database, load)
        messages = self.transactions * self.batch
        size = (bench.wal_position() - start) / messages
        system.check_log(database, 2 * messages)
        return {"wal": size}


@dataclass(frozen=True, kw_only=True)
class Reading(Cell):
    """Read a filled log, which is in memory, by group after group.

    The filled databases stay for all rounds; every round has new groups.
    """

    clients: int
    batch: int
    messages: int = 320_000
    fastest: int = 900_000
    filled: set[str] = field(default_factory=set, compare=False)

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        if system.name not in self.filled:
            database = self.fresh(bench, system)
            system.create_topic(database, 8)
            system.fill_log(database, self.messages, LOG_BODY)
            settle(bench, database)
            self.filled.add(system.name)
        database = bench.database(f"bench_{system.name}")
        if system.name != "bound":
            system.create_groups(database, 2 + self.fastest * length.seconds // self.messages)
        bench.checkpoint()
        outcome = bench.pgbench(
            database,
            Load(
                script=system.script(self.scripts[system.name]),
                clients=self.clients,
                batch=self.batch,
                seconds=length.seconds,
                variables={"rows": self.messages},
            ),
        )
        if system.name == "bound":
            system.check_log(database, self.messages)
            return {"rate": outcome.transactions * self.batch / outcome.seconds}
        consumed = system.consumed(database)
        system.check_consumed(database, self.messages)
        return {"rate": consumed / outcome.seconds}

    def finish(self, bench: Bench) -> None:
        super().finish(bench)
        self.filled.clear()


@dataclass(frozen=True, kw_only=True)
class Working(Cell):
    """Claim and finish jobs: a fixed amount of work, so that both do the same."""

    clients: int
    batch: int
    body: int = JOB_BODY
    expected: int
    """Jobs per second to make provision for: about what a run then lasts."""
    most: int = 400_000

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        database = self.fresh(bench, system)
        system.create_queue(database)
        wanted = min(self.expected * length.seconds, self.most)
        transactions = max(wanted // (self.clients * self.batch), 1)
        work = transactions * self.clients * self.batch
        spare = 2 * self.clients * self.batch
        jobs = (work + spare + 999) // 1000 * 1000
        system.fill_queue(database, jobs, self.body)
        settle(bench, database)
        outcome = bench.pgbench(
            database,
            Load(
                script=system.script(self.scripts[system.name]),
                clients=self.clients,
                batch=self.batch,
                transactions=transactions,
            ),
        )
        system.check_queue(database, jobs - work, work)
        return {"rate": work / outcome.seconds}


@dataclass(frozen=True, kw_only=True)
class JobWal(Cell):
    """WAL of a job's life, from empty tables and without a checkpoint on the way."""

    enqueue: str
    body: int
    batch: int = 1
    clients: int = 4
    jobs: int = 20_000

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        database = self.fresh(bench, system)
        system.create_queue(database)
        bench.checkpoint()
        transactions = self.jobs // self.clients // self.batch
        load = Load(
            script=system.script(self.enqueue),
            clients=self.clients,
            body=self.body,
            batch=self.batch,
            transactions=transactions + max(transactions // 10, 1),
        )
        start = bench.wal_position()
        enqueued = bench.pgbench(database, load).transactions * self.batch
        between = bench.wal_position()
        finished = (
            bench.pgbench(
                database,
                Load(
                    script=system.script(self.scripts[system.name]),
                    clients=self.clients,
                    batch=self.batch,
                    transactions=transactions,
                ),
            ).transactions
            * self.batch
        )
        end = bench.wal_position()
        system.check_queue(database, enqueued - finished, finished)
        written, worked = (between - start) / enqueued, (end - between) / finished
        return {"enqueue": written, "finish": worked, "life": written + worked}


@dataclass(frozen=True, kw_only=True)
class HeldSnapshot(Cell):
    """The same load twice, once while another session keeps an old snapshot.

    Figures are shares of the load's own rate without the snapshot, in the same part of the run.
    """

    clients: int
    body: int
    kind: str

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        seconds = length.snapshot_seconds
        window = max(min(30, seconds // 3), 1)
        amount = 0
        if self.kind != "publish":
            rate = self._run(bench, system, amount=60_000, seconds=3, held=False).average(0, 3)
            amount = max(int(rate * seconds * 1.5) // 1000 * 1000, 60_000)
        order = [False, True]
        random.shuffle(order)
        runs = {
            held: self._run(bench, system, amount=amount, seconds=seconds, held=held)
            for held in order
        }
        free, held = runs[False], runs[True]
        length_of = min(len(free.timeline), len(held.timeline))
        last = length_of - window
        return {
            "rate": free.average(0, length_of),
            "first": held.average(0, window) / free.average(0, window),
            "last": held.average(last, length_of) / free.average(last, length_of),
            "fade": held.average(last, length_of) / held.average(0, window),
        }

    def _run(
        self, bench: Bench, system: System, *, amount: int, seconds: int, held: bool
    ) -> Outcome:
        database = self.fresh(bench, system)
        if self.kind == "work":
            system.create_queue(database)
            system.fill_queue(database, amount, self.body)
        else:
            system.create_topic(database, 8)
        if self.kind == "claim":
            system.fill_log(database, amount, self.body)
            system.create_groups(database, 1)
        settle(bench, database)
        load = Load(
            script=system.script(self.scripts[system.name]),
            clients=self.clients,
            body=self.body,
            seconds=seconds,
        )
        with database.connect() as other:
            if held:
                other.execute("begin isolation level repeatable read")
                other.execute("select count(*) from pg_class")
            outcome = bench.pgbench(database, load)
            if held:
                other.execute("commit")
        done = outcome.transactions
        if self.kind == "work":
            system.check_queue(database, amount - done, done)
        elif self.kind == "claim":
            if system.consumed(database) != done:
                raise BenchmarkError(f"claimed {system.consumed(database)}, expected {done}")
        else:
            system.check_log(database, done)
        return outcome


# ---------------------------------------------------------------- the list

ALL = ("bound", "primitives", "pgq")
LEASED = ("primitives", "pgq")

ONE = {"bound": "insert", "primitives": "publish", "pgq": "publish"}
MANY = {"bound": "insert_batch", "primitives": "publish_batch", "pgq": "publish_batch"}
READ = {"bound": "read_range", "primitives": "consume", "pgq": "consume"}
CLAIM = {"primitives": "claim_offsets", "pgq": "claim_offsets"}
JOB = {"primitives": "job", "pgq": "claim_ack"}
JOBS = {"primitives": "job_batch", "pgq": "claim_ack_batch"}


def _rate(unit: str, target: float, reference: str) -> tuple[Quantity, ...]:
    return (Quantity(name="rate", unit=f"{unit}/s", target=target, reference=reference),)


def _wal(finish: float | None, life: float | None) -> tuple[Quantity, ...]:
    return (
        Quantity(name="enqueue", unit="bytes"),
        Quantity(name="finish", unit="bytes", target=finish, at_most=True),
        Quantity(name="life", unit="bytes", target=life, at_most=True),
    )


def _held(unit: str) -> tuple[Quantity, ...]:
    return (
        Quantity(name="rate", unit=f"{unit}/s"),
        Quantity(name="first", unit="share", target=0.9),
        Quantity(name="last", unit="share", target=0.9),
        Quantity(name="fade", unit="share"),
    )


CELLS: Sequence[Cell] = (
    Writing(
        name="publish-1",
        title="publish 1 message, 1 client",
        systems=ALL,
        scripts=ONE,
        clients=1,
        quantities=_rate("messages", 0.78, "bound"),
    ),
    Writing(
        name="publish-100",
        title="publish batches of 100, 4 clients",
        systems=ALL,
        scripts=MANY,
        clients=4,
        batch=100,
        quantities=_rate("messages", 0.85, "bound"),
    ),
    Writing(
        name="publish-1000",
        title="publish batches of 1000, 1 client",
        systems=ALL,
        scripts=MANY,
        clients=1,
        batch=1000,
        quantities=_rate("messages", 0.9, "bound"),
    ),
    Writing(
        name="publish-16",
        title="publish 1 message, 16 clients, one topic",
        systems=ALL,
        scripts=ONE,
        clients=16,
        partitions=16,
        quantities=_rate("messages", 0.6, "bound"),
    ),
    PublishWal(
        name="publish-wal",
        title="WAL of a message, batches of 100",
        systems=ALL,
        scripts=MANY,
        quantities=(Quantity(name="wal", unit="bytes", target=1215, at_most=True),),
    ),
    Reading(
        name="consume-100",
        title="consume 100 per claim, 4 clients",
        systems=ALL,
        scripts=READ,
        clients=4,
        batch=100,
        quantities=_rate("messages", 0.6, "bound"),
    ),
    Reading(
        name="consume-1000",
        title="consume 1000 per claim, 4 clients",
        systems=ALL,
        scripts=READ,
        clients=4,
        batch=1000,
        quantities=_rate("messages", 0.9, "bound"),
    ),
    Writing(
        name="enqueue-1",
        title="enqueue 1 job, 16 clients",
        systems=ALL,
        scripts={"bound": "insert", "primitives": "enqueue", "pgq": "enqueue"},
        clients=16,
        body=JOB_BODY,
        queue=True,
        quantities=_rate("jobs", 0.85, "bound"),
    ),
    Working(
        name="work-1",
        title="claim and finish 1 job, 16 workers",
        systems=LEASED,
        scripts=JOB,
        clients=16,
        batch=1,
        expected=5_000,
        quantities=_rate("jobs", 0.8, "primitives"),
    ),
    Working(
        name="work-100",
        title="claim and finish 100 jobs, 4 workers",
        systems=LEASED,
        scripts=JOBS,
        clients=4,
        batch=100,
        expected=80_000,
        quantities=_rate("jobs", 0.8, "primitives"),
    ),
    JobWal(
        name="job-wal-200",
        title="WAL of a job of 200 bytes, one by one",
        systems=LEASED,
        enqueue="enqueue",
        scripts=JOB,
        body=JOB_BODY,
        quantities=_wal(720, None),
    ),
    JobWal(
        name="job-wal-1k",
        title="WAL of a job of 1 KB, one by one",
        systems=LEASED,
        enqueue="enqueue",
        scripts=JOB,
        body=LOG_BODY,
        quantities=_wal(720, 2250),
    ),
    JobWal(
        name="job-wal-1k-100",
        title="WAL of a job of 1 KB, batches of 100",
        systems=LEASED,
        enqueue="enqueue_batch",
        scripts=JOBS,
        body=LOG_BODY,
        batch=100,
        quantities=_wal(720, None),
    ),
    HeldSnapshot(
        name="snapshot-publish",
        title="held snapshot: publish, 2 clients",
        systems=("pgq",),
        scripts=ONE,
        clients=2,
        body=LOG_BODY,
        kind="publish",
        once=True,
        quantities=_held("messages"),
    ),
    HeldSnapshot(
        name="snapshot-claim",
        title="held snapshot: claim_offsets, 2 clients",
        systems=("pgq",),
        scripts=CLAIM,
        clients=2,
        body=16,
        kind="claim",
        once=True,
        quantities=_held("claims"),
    ),
    HeldSnapshot(
        name="snapshot-work",
        title="held snapshot: claim and ack, 4 workers",
        systems=("pgq",),
        scripts=JOB,
        clients=4,
        body=JOB_BODY,
        kind="work",
        once=True,
        quantities=_held("jobs"),
    ),
)
