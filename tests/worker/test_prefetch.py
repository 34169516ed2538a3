"""A process that ends in the middle of what it has prefetched."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.worker import AsyncWorker, Worker
from pgq.worker._claims import Claim
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]

PROGRAM = """
import asyncio
import os
import sys
from pgq.worker import AsyncWorker, Worker

kind, dsn, path, idempotent = sys.argv[1:]
kind = {"Worker": Worker, "AsyncWorker": AsyncWorker}[kind]
worker = kind(dsn, concurrency=1, poll=0.05)


def work(payload):
    with open(path, "a") as file:
        print(payload, file=file, flush=True)
    if payload == "bad":
        os._exit(9)


async def in_task(payload):
    work(payload)


worker.handler("mail", prefetch=5, lease=1.0, idempotent=idempotent == "idempotent")(
    work if kind is Worker else in_task
)
asyncio.run(worker.run()) if kind is AsyncWorker else worker.run()
"""


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    return Client(connection)


@pytest.mark.parametrize(("attempts", "idempotent"), [(1, ""), (2, ""), (2, "idempotent")])
def test_one_job_that_ends_its_process(
    dsn: str, client: Client, kind: Kind, tmp_path: Path, attempts: int, idempotent: str
) -> None:
    """It is a dead letter soon; the others are done, and none of them has lost an attempt."""
    client.admin.create_queue("mail", max_attempts=attempts, retention=timedelta(days=1))
    path = tmp_path / "begun"
    path.touch()
    client.enqueue_batch("mail", ["good 0", "good 1", "bad", "good 3", "good 4", "good 5"])
    command = [sys.executable, "-c", PROGRAM, kind.__name__, dsn, str(path), idempotent]

    def over() -> bool:
        client.admin.cleanup()
        return len(client.jobs.archived_jobs("mail")) == 5 and bool(
            client.jobs.dead_letters("mail")
        )

    process = subprocess.Popen(command)
    try:

        def over_at_last() -> bool:
            nonlocal process
            if process.poll() is not None:
                assert process.returncode == 9
                process = subprocess.Popen(command)
            return over()

        _wait_until(over_at_last, 3 * PATIENCE)
    finally:
        process.kill()
        process.wait()
    begun = Counter(path.read_text().splitlines())
    assert attempts <= begun["bad"] <= (2 * attempts if attempts > 1 else 1)
    if not idempotent:
        # what is not finished together is done once, at its first attempt
        assert set(begun.values()) == {1, begun["bad"]}
        assert {job.attempt for job in client.jobs.archived_jobs("mail")} == {1}


def test_a_job_that_is_held_for_lost_does_not_begin(
    dsn: str, client: Client, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease lasts longer in the database than the worker counts: it keeps its only attempt."""
    client.admin.create_queue("mail", max_attempts=1)
    claims: list[Claim] = []
    init = Claim.__init__

    def recording(claim: Claim, *given: Any) -> None:
        init(claim, *given)
        claims.append(claim)

    monkeypatch.setattr(Claim, "__init__", recording)
    seen: list[str] = []

    def work(payload: str) -> None:
        seen.append(payload)
        if len(seen) == 1:
            claims[-1].lose({*claims[-1].open} - {claims[-1].jobs[0].job_id})

    worker = kind(dsn, concurrency=1, poll=0.05)
    worker.handler("mail", prefetch=2, lease=1.0)(work)
    client.enqueue_batch("mail", ["first", "second"])
    with working(worker):
        _wait_until(
            lambda: len(client.jobs.archived_jobs("mail")) == 2 or client.jobs.dead_letters("mail")
        )
    assert (seen, client.jobs.dead_letters("mail")) == (["first", "second"], [])
