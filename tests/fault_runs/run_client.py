"""The program of a client, in a process of its own that is forked from one which has read all."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

from fault_runs.client import Client
from fault_runs.consumers import CONSUMERS
from fault_runs.keepers import KEEPERS
from fault_runs.producers import PRODUCERS
from fault_runs.streams import STREAMS
from fault_runs.workers import WORKERS

__all__ = ["run_client"]


def run_client(kind: str, name: str, dsn: str, journal: str, seed: str, enough: str | None) -> None:
    """Do the work of a role until killed; SIGTERM ends one that produces.

    It waits while the file ``enough`` is there.
    """
    # that connections are lost is what this is about
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    client = Client(name, dsn, Path(journal), seed, Path(enough) if enough else None)

    def end(number: int, frame: object) -> None:
        client.ending = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    client.work({**PRODUCERS, **CONSUMERS, **WORKERS, **KEEPERS, **STREAMS}[kind](client))
