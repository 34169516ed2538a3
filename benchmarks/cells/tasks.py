"""The work that is measured: what has to be there, a run of it, and what it has to leave behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.cells.base import JOB_BODY, LOG_BODY
from benchmarks.harness import Bench, Database
from benchmarks.pgbench import Load
from benchmarks.systems import System

__all__ = ["Flowing", "InOrder", "Keyed", "Place", "Reading", "Task", "Working", "Writing"]


@dataclass
class Place:
    """One system's database, and what has happened there so far."""

    bench: Bench
    system: System
    database: Database
    filled: int = 0
    done: int = 0
    left: int = 0
    """Jobs that clients had in hand when a run ended: leased, and to be claimed only later."""
    rate: float = 0.0
    """What the last run reached: how much work the next one is given."""

    def do(self, script: str, **variables: int | str) -> str:
        """Run one of the system's psql scripts."""
        return self.system.do(self.bench, self.database, script, **variables)

    def fill(self, what: str, amount: int, body: int, **variables: int) -> None:
        """Write messages or jobs, in thousands."""
        rounded = (amount + 999) // 1000 * 1000
        self.system.fill(self.bench, self.database, what, rounded, body, **variables)
        self.filled += rounded

    def check(self, what: str, **expected: int) -> None:
        """Fail when the log, the queue or what was consumed is not as it should be."""
        self.system.check(self.bench, self.database, what, **expected)


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """One kind of work, by so many clients, in batches of so many."""

    scripts: Mapping[str, str]
    clients: int
    batch: int = 1
    body: int = LOG_BODY
    keeps: bool = False
    """Whether one filled database serves all rounds."""

    @abstractmethod
    def begin(self, place: Place) -> None:
        """Make what the work needs, once per database."""

    def prepare(self, place: Place, seconds: int) -> None:
        """Make what all runs together need, when they last so many seconds."""
        return

    def refill(self, place: Place, seconds: int) -> None:
        """Make what the next run needs."""
        return

    @abstractmethod
    def run(self, place: Place, seconds: int) -> float:
        """Do it for about so long; the rate of messages or jobs."""

    @abstractmethod
    def check(self, place: Place) -> None:
        """Fail unless everything is as the runs should have left it."""

    def load(
        self,
        place: Place,
        *,
        seconds: int | None = None,
        transactions: int | None = None,
        variables: Mapping[str, int] | None = None,
    ) -> Load:
        """What pgbench is to do."""
        return Load(
            script=place.system.script(self.scripts[place.system.kind]),
            clients=self.clients,
            body=self.body,
            batch=self.batch,
            seconds=seconds,
            transactions=transactions,
            variables=variables,
        )


@dataclass(frozen=True, kw_only=True)
class Writing(Task):
    """Publish or enqueue, into an empty table at first."""

    partitions: int = 8
    queue: bool = False
    deferred: bool = False

    def begin(self, place: Place) -> None:
        if self.queue:
            place.do("create_queue")
        else:
            made = "create_deferred" if self.deferred else "create_topic"
            place.do(made, partitions=self.partitions)

    def run(self, place: Place, seconds: int) -> float:
        outcome = place.bench.pgbench(place.database, self.load(place, seconds=seconds))
        place.done += outcome.transactions * self.batch
        return outcome.rate * self.batch

    def check(self, place: Place) -> None:
        if self.queue:
            place.check("queue", waiting=place.done, finished=0)
        else:
            if self.deferred:
                place.do("assign")
            place.check("log", messages=place.done)


@dataclass(frozen=True, kw_only=True)
class Flowing(Task):
    """Publish into a deferred topic of one partition, and consume it at the same time."""

    def begin(self, place: Place) -> None:
        place.do("create_deferred", partitions=1)
        place.do("create_groups", groups=1)

    def run(self, place: Place, seconds: int) -> float:
        outcome = place.bench.pgbench(place.database, self.load(place, seconds=seconds))
        place.done += outcome.transactions
        return outcome.rate

    def check(self, place: Place) -> None:
        rest = "select count(*) from pgq.consume('bench', 'g1', max_messages => 1000000)"
        place.database.row(rest)
        place.check("log", messages=place.done)
        place.database.expect("messages consumed", "select sum(committed_offset)::bigint"
                              " from pgq.group_lag", place.done)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Reading(Task):
    """Read a filled log, which is in memory, by group after group.

    The filled databases stay for all rounds; every round has new groups.
    """

    keeps: bool = True
    messages: int = 320_000
    fastest: int = 900_000

    def begin(self, place: Place) -> None:
        place.do("create_topic", partitions=8)
        place.fill("messages", self.messages, self.body)

    def prepare(self, place: Place, seconds: int) -> None:
        fastest = min(self.fastest, 20_000 * self.batch)
        place.do("create_groups", groups=2 + fastest * seconds // self.messages)

    def run(self, place: Place, seconds: int) -> float:
        # Groups before this one have come to the end.
        group = place.done // self.messages + 1
        load = self.load(place, seconds=seconds, variables={"rows": self.messages, "group": group})
        outcome = place.bench.pgbench(place.database, load)
        if not place.system.has("consumed"):
            return outcome.rate * self.batch
        before, place.done = place.done, int(place.do("consumed"))
        return (place.done - before) / outcome.seconds

    def check(self, place: Place) -> None:
        place.check("consumed", messages=self.messages)


@dataclass(frozen=True, kw_only=True)
class Working(Task):
    """Claim and finish jobs: a fixed amount of work, so that all systems do the same."""

    body: int = JOB_BODY
    expected: int
    """Jobs per second to make provision for: about what a run then lasts."""
    most: int = 400_000
    in_hand: tuple[str, ...] = ()
    """Systems whose clients finish jobs in the call that leases the next ones."""

    def begin(self, place: Place) -> None:
        place.do("create_queue")

    def refill(self, place: Place, seconds: int) -> None:
        # Behind the last claim there are jobs for all, and each client may have some in hand.
        at_once = self.clients * self.batch
        wanted = (self._transactions(place, seconds) + 3) * at_once
        missing = wanted - (place.filled - place.done - place.left)
        if missing > 0:
            place.fill("jobs", missing, self.body)

    def run(self, place: Place, seconds: int) -> float:
        transactions = self._transactions(place, seconds)
        # The first call of each client has nothing to finish; what the last one leases stays so.
        extra = 1 if place.system.kind in self.in_hand else 0
        outcome = place.bench.pgbench(
            place.database, self.load(place, transactions=transactions + extra)
        )
        finished = transactions * self.clients * self.batch
        place.done += finished
        place.left += extra * self.clients * self.batch
        place.rate = finished / outcome.seconds
        return place.rate

    def check(self, place: Place) -> None:
        place.check("queue", waiting=place.filled - place.done, finished=place.done)

    def _transactions(self, place: Place, seconds: int) -> int:
        wanted = min((place.rate or self.expected) * seconds, self.most)
        return max(int(wanted) // (self.clients * self.batch), 1)


@dataclass(frozen=True, kw_only=True)
class InOrder(Working):
    """Claim and finish jobs of an ordered queue, while many wait behind them."""

    behind: int = 100_000
    keys: int = 1
    """They take turns."""

    def begin(self, place: Place) -> None:
        place.do("create_ordered")

    def refill(self, place: Place, seconds: int) -> None:
        wanted = self.behind + self._transactions(place, seconds)
        missing = wanted - (place.filled - place.done)
        if missing > 0:
            place.fill("ordered", missing, self.body, keys=self.keys)


@dataclass(frozen=True, kw_only=True)
class Keyed(Task):
    """Work off a topic of one partition, with messages of keys that take turns."""

    ordered: bool = False
    """Whether the queue is."""
    in_order: bool = False
    """Whether the messages of each key have to be worked on in order, none left out."""
    keys: int = 20
    most: int = 3_000
    """Messages per second to make provision for."""

    def begin(self, place: Place) -> None:
        place.do("create_keyed", ordered=str(self.ordered).lower())

    def prepare(self, place: Place, seconds: int) -> None:
        place.fill("keyed", self.most * (seconds + 5), self.body, keys=self.keys)

    def run(self, place: Place, seconds: int) -> float:
        outcome = place.bench.pgbench(place.database, self.load(place, seconds=seconds))
        [done] = place.database.row("select count(*) from done")
        before, place.done = place.done, done
        return (place.done - before) / outcome.seconds

    def check(self, place: Place) -> None:
        once = "select count(distinct number) from done"
        place.database.expect("messages worked on", once, place.done)
        if self.in_order:
            late = (
                f"select count(*) from (select number - lag(number, 1, number - {self.keys})"
                " over (partition by key order by done_id) as step from done) as steps"
                f" where step <> {self.keys}"
            )
            place.database.expect("messages out of order", late, 0)
