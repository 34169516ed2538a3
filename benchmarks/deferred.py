"""What a deferred topic reaches: how soon a message is received, and what open transactions cost.

latency: a publisher commits a message every 15 ms or so, and a consumer waits for it, by NOTIFY or
by asking again and again. The time is from sending the commit to having the message.
open: 64 sessions publish, each with a transaction that stays open for 100 ms after it.
flat: 8 clients publish and consume on three servers, which take turns: nothing is open on one, a
snapshot is held on the next, and a transaction that has published stays open on the third. All the
time: --seconds says how long it is.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import psycopg  # noqa: E402
from benchmarks.cells.base import JOB_BODY, settle  # noqa: E402
from benchmarks.cells.tasks import Flowing, Place, Writing  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, Database, commit_of  # noqa: E402
from benchmarks.report import plain_table  # noqa: E402
from benchmarks.systems import SYSTEMS  # noqa: E402

from pgq import Client  # noqa: E402
from pgq.embedded import EmbeddedServerError  # noqa: E402

__all__ = ["Figure", "main"]

PGQ = SYSTEMS["pgq"]
PATIENCE = 10.0
"""Seconds after which a message that was not received is lost."""
WARM_UP = 10
"""Messages that count for nothing: sessions compile and plan."""
SESSIONS = 64
SLICE = 5
WINDOW = 30

OPEN = Writing(scripts={"pgq": "publish_open"}, clients=SESSIONS)
FLOW = Flowing(scripts={"pgq": "publish_consume"}, clients=8, batch=100, body=JOB_BODY)


@dataclass(kw_only=True)
class Figure:
    """One line: the median of some rounds, and what it is to be."""

    what: str
    unit: str
    target: float | None = None
    at_most: bool = False
    rounds: list[float] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The median."""
        return statistics.median(self.rounds)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def row(self) -> list[str]:
        """A line of the table."""
        places = 0 if self.unit.endswith("/s") else 2
        sign = "<=" if self.at_most else ">="
        return [
            self.what,
            f"{self.value:,.{places}f}",
            self.unit,
            "" if self.target is None else f"{sign} {self.target:g}",
            {None: "", True: "pass", False: "MISS"}[self.met],
            f"{min(self.rounds):,.{places}f} to {max(self.rounds):,.{places}f}",
        ]

    def written(self) -> Mapping[str, object]:
        """For JSON."""
        return {**vars(self), "value": self.value, "met": self.met}


Figures = dict[str, Figure]


def _note(figures: Figures, value: float, what: str, unit: str, **target: float) -> None:
    known = figures.setdefault(what, Figure(what=what, unit=unit, **target))  # type: ignore[arg-type]
    known.rounds.append(value)


def _turns(rounds: int, ways: Sequence[str]) -> Sequence[str]:
    """Each way once in each round, in a new order."""
    return [way for _ in range(rounds) for way in random.sample(list(ways), len(ways))]


# ---------------------------------------------------------------- latency


def received(database: Database, seconds: float, *, by_notify: bool) -> list[float]:
    """Milliseconds from sending each commit to having the message."""
    sent: dict[int, float] = {}
    trouble: list[BaseException] = []
    done = threading.Event()

    def publish() -> None:
        try:
            with psycopg.connect(database.dsn) as connection:
                end = time.monotonic() + seconds
                while time.monotonic() < end or len(sent) < 2 * WARM_UP:
                    time.sleep(random.uniform(0.01, 0.02))
                    Client(connection).publish("bench", body=str(len(sent)).encode())
                    sent[len(sent)] = time.monotonic()
                    connection.commit()
        except BaseException as error:
            trouble.append(error)
        finally:
            done.set()

    publisher = threading.Thread(target=publish)
    taken: list[float] = []
    with database.connect() as connection:
        client = Client(connection)
        if by_notify:
            connection.execute("listen pgq_topic")
        publisher.start()
        deadline = float("inf")
        while not done.is_set() or (len(taken) < len(sent) and time.monotonic() < deadline):
            messages = client.consume("bench", "g")
            now = time.monotonic()
            if done.is_set():
                deadline = min(deadline, now + PATIENCE)
            taken += [1000 * (now - sent[int(bytes(one.body or b""))]) for one in messages]
            if by_notify and not messages:
                for _ in connection.notifies(timeout=0.2, stop_after=1):
                    pass
        publisher.join()
    if trouble:
        raise BenchmarkError(f"the publisher failed: {trouble[0]}")
    if len(taken) != len(sent) or len(taken) <= WARM_UP:
        raise BenchmarkError(f"{len(taken)} messages received of {len(sent)}")
    return taken[WARM_UP:]


def latency(bench: Bench, chosen: argparse.Namespace) -> Figures:
    """Both kinds of topics, and both ways to wait."""
    figures: Figures = {}
    ways = {
        f"{kind} topic, {wait}": (kind == "deferred", wait == "NOTIFY")
        for kind in ("deferred", "ordinary")
        for wait in ("NOTIFY", "asking again")
    }
    for way in _turns(chosen.rounds, list(ways)):
        deferred, by_notify = ways[way]
        database = bench.fresh("bench_latency", template="template_pgq")
        with database.connect() as connection:
            client = Client(connection)
            client.admin.create_topic("bench", partitions=1, deferred=deferred, notify=by_notify)
            client.admin.create_group("bench", "g")
        bench.checkpoint()
        parts = statistics.quantiles(
            received(database, chosen.length, by_notify=by_notify), n=100, method="inclusive"
        )
        target = {"target": 10, "at_most": True} if deferred else {}
        _note(figures, parts[49], f"received, {way}: p50", "ms", **target)
        _note(figures, parts[98], f"received, {way}: p99", "ms", **target)
        print(f"  {way}: p50 {parts[49]:.2f}, p99 {parts[98]:.2f} ms", file=sys.stderr)
    return figures


# ---------------------------------------------------------------- open transactions


def open_sessions(bench: Bench, chosen: argparse.Namespace) -> Figures:
    """Throughput of sessions that keep what they have published open."""
    figures: Figures = {}
    # Without any waiting each session ends ten transactions a second.
    near = {"target": 0.9 * SESSIONS * 10}
    ways = {"deferred topic, partitions 1": 0, **{
        f"ordinary topic, partitions {number}": number for number in (1, 16, SESSIONS)
    }}  # fmt: skip
    for way in _turns(chosen.rounds, list(ways)):
        database = bench.fresh("bench_open", template="template_pgq")
        place = Place(bench, PGQ, database)
        deferred = ways[way] == 0
        task = Writing(**{**vars(OPEN), "partitions": ways[way] or 1, "deferred": deferred})
        task.begin(place)
        settle(bench, database)
        rate = task.run(place, chosen.length)
        task.check(place)
        what = f"{SESSIONS} sessions, open for 100 ms, {way}"
        _note(figures, rate, what, "messages/s", **(near if deferred else {}))
        print(f"  {what}: {rate:,.0f} per second", file=sys.stderr)
    return figures


# ---------------------------------------------------------------- what stays open for long

LONG: Mapping[str, Callable[[psycopg.Connection[object]], object]] = {
    "a snapshot held": lambda session: session.execute("select count(*) from pg_class"),
    "a publisher open": lambda session: Client(session).publish("bench", body=b"at last"),
}


def flat(bench: Bench, chosen: argparse.Namespace) -> Figures:
    """The rate at the beginning and at the end, with something open all the time and without."""
    with ExitStack() as stack:
        places = {"nothing open": _flowing(bench)}
        sessions: dict[str, psycopg.Connection[object]] = {}
        for name in LONG:
            # A server each: an open transaction is in the snapshots of all databases of a server.
            other = stack.enter_context(
                Bench(bin_dir=chosen.pg_bin, wal_gigabytes=min(chosen.wal, 1))
            )
            other.install("template_pgq", bench.script_of("template_pgq", PGQ.schema))
            places[name] = _flowing(other)
            sessions[name] = stack.enter_context(psycopg.connect(places[name].database.dsn))
        for name, session in sessions.items():
            session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            LONG[name](session)
        rates = _load(places, chosen.seconds)
        for place in places.values():
            FLOW.check(place)  # what was committed has been received
        for name, session in sessions.items():
            session.commit()
            if name == "a publisher open":
                places[name].done += 1
                FLOW.check(places[name])
    slices = len(rates["nothing open"])
    window = max(min(WINDOW // SLICE, slices // 3), 1)
    first = {name: statistics.fmean(found[:window]) for name, found in rates.items()}
    last = {name: statistics.fmean(found[-window:]) for name, found in rates.items()}
    figures: Figures = {}
    for name in places:
        what = f"publish and consume, {name}"
        _note(figures, first[name], f"{what}: first", "messages/s")
        _note(figures, last[name], f"{what}: last", "messages/s")
        fade = last[name] / first[name]
        _note(figures, fade, f"{what}: last of first", "share")
        if name != "nothing open":
            alone = last["nothing open"] / first["nothing open"]
            _note(figures, fade / alone, f"{what}: the same, beside nothing open", "share",
                  target=0.9)  # fmt: skip
    return figures


def _flowing(bench: Bench) -> Place:
    place = Place(bench, PGQ, bench.fresh("bench_flat", template="template_pgq"))
    FLOW.begin(place)
    settle(bench, place.database)
    return place


def _load(places: Mapping[str, Place], seconds: int) -> Mapping[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in places}
    length = max(min(SLICE, seconds // (3 * len(places))), 1)
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(rates["nothing open"]) < 3:
        for name in random.sample(list(places), len(places)):
            rates[name].append(FLOW.run(places[name], length))
        shown = ", ".join(f"{name} {found[-1]:,.0f}" for name, found in rates.items())
        print(f"  {shown}", file=sys.stderr)
    return rates


# ---------------------------------------------------------------- the program

PARTS: Mapping[str, Callable[[Bench, argparse.Namespace], Figures]] = {
    "latency": latency,
    "open": open_sessions,
    "flat": flat,
}


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="deferred.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only these parts")
    parser.add_argument("--rounds", type=int, default=3, help="of latency and open (default 3)")
    parser.add_argument("--length", type=int, default=4, help="seconds of their runs (default 4)")
    parser.add_argument("--seconds", type=int, default=90, help="length of flat (default 90)")
    parser.add_argument("--wal", type=int, default=1, help="gigabytes of WAL to write before")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    chosen = parser.parse_args(arguments)
    if min(chosen.rounds, chosen.length, chosen.seconds, chosen.wal) < 1:
        parser.error("rounds, length, seconds and wal start at 1")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 when every run was sound, whatever the targets."""
    chosen = options(arguments)
    figures: Figures = {}
    failed = False
    with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=chosen.wal) as bench:
        machine = {
            "revision": commit_of(HERE),
            **bench.description(),
            "runs": f"{chosen.rounds} rounds of {chosen.length} s; flat {chosen.seconds} s",
        }
        bench.install("template_pgq", PGQ.schema)
        for name in chosen.part or PARTS:
            try:
                figures |= PARTS[name](bench, chosen)
            except (BenchmarkError, EmbeddedServerError, psycopg.Error) as error:
                print(f"{name} failed: {error}", file=sys.stderr)
                failed = True
    found = list(figures.values())
    print(*(f"- {name}: {value}" for name, value in machine.items()), "", sep="\n")
    heading = ["what", "median", "unit", "target", "", "rounds"]
    print(plain_table([heading, *(one.row() for one in found)], numbers={1}))
    if chosen.json is not None:
        written = {"machine": machine, "figures": [one.written() for one in found]}
        chosen.json.write_text(json.dumps(written, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
