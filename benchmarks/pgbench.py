"""Runs of pgbench: what it is to do, what it says, and the log of its latencies."""

from __future__ import annotations

import os
import random
import re
import string
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgq.embedded import Server

__all__ = [
    "BenchmarkError",
    "Latency",
    "Load",
    "Outcome",
    "body_of",
    "run",
    "run_until_terminated",
]


class BenchmarkError(RuntimeError):
    """A run failed, or what it left behind is not what it should have left."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What pgbench is to do: scripts, by so many clients, for a time or a number of calls."""

    script: Path
    also: Sequence[Path] = ()
    """Further scripts; each transaction takes one of all at random."""
    clients: int = 1
    body: int = 1024
    batch: int = 1
    seconds: int | None = None
    transactions: int | None = None
    rate: int | None = None
    """Transactions per second to offer; without it as many as there can be."""
    variables: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What pgbench did."""

    transactions: int
    seconds: float

    @property
    def rate(self) -> float:
        """Transactions per second."""
        return self.transactions / self.seconds


@dataclass(frozen=True, kw_only=True)
class Latency:
    """One transaction: which script, when it was to begin and when it ended."""

    script: int
    began: float
    ended: float

    @property
    def milliseconds(self) -> float:
        """How long it took, with what it waited for its turn."""
        return (self.ended - self.began) * 1000


def body_of(size: int) -> str:
    """Bytes of a payload, as text: the same letters in every run, and nothing to compress."""
    return "".join(random.Random(size).choices(string.ascii_letters, k=size))


def _arguments(database: str, load: Load) -> list[str]:
    variables = {
        "body": body_of(load.body),
        "batch": load.batch,
        "clients": load.clients,
        "step": 0,
        "group": 1,
        "in_hand": 0,
        **(load.variables or {}),
    }
    return [
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={load.clients}",
        f"--jobs={min(load.clients, os.cpu_count() or 1)}",
        *([] if load.rate is None else [f"--rate={load.rate}"]),
        *(f"--define={name}={value}" for name, value in variables.items()),
        *(f"--file={script}" for script in (load.script, *load.also)),
        database,
    ]


def _name(load: Load) -> str:
    return "/".join(load.script.parts[-2:])


def run(server: Server, database: str, load: Load) -> Outcome:
    """Run a load and read what pgbench says about it."""
    if (load.seconds is None) == (load.transactions is None):
        raise BenchmarkError("a load has either seconds or transactions")
    length = (
        f"--time={load.seconds}"
        if load.seconds is not None
        else f"--transactions={load.transactions}"
    )
    result = server.run("pgbench", length, *_arguments(database, load), check=False)
    rate = re.search(r"^tps = ([0-9.]+)", result.stdout, re.MULTILINE)
    count = re.search(r"actually processed: (\d+)", result.stdout)
    if result.returncode != 0 or rate is None or count is None:
        raise BenchmarkError(f"pgbench failed on {_name(load)}: {_last_words(result.stderr)}")
    transactions = int(count[1])
    if transactions == 0:
        raise BenchmarkError(f"pgbench did nothing on {_name(load)}")
    return Outcome(transactions=transactions, seconds=transactions / float(rate[1]))


def run_until_terminated(
    server: Server, database: str, load: Load, *, most_seconds: int
) -> list[Latency]:
    """Run a load until somebody terminates its sessions; the latencies of all transactions."""
    with tempfile.TemporaryDirectory(prefix="pgq-bench-") as folder:
        result = server.run(
            "pgbench",
            f"--time={most_seconds}",
            "--log",
            f"--log-prefix={folder}/log",
            *_arguments(database, load),
            check=False,
        )
        lines = [
            line.split() for path in Path(folder).iterdir() for line in path.read_text().split("\n")
        ]
    errors = [line for line in result.stderr.splitlines() if re.search(r"ERROR: ", line)]
    # Client, its transaction's number, microseconds, script, and when it ended, in two parts.
    found = [
        Latency(
            script=int(line[3]),
            began=int(line[4]) + (int(line[5]) - int(line[2])) / 1e6,
            ended=int(line[4]) + int(line[5]) / 1e6,
        )
        for line in lines
        if line
    ]
    if errors or not found:
        raise BenchmarkError(f"pgbench failed on {_name(load)}: {_last_words(result.stderr)}")
    return found


def _last_words(output: str) -> str:
    return " ".join(output.splitlines())[-600:]
