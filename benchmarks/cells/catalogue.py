"""The list of cells, and what pgq is to reach in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.cells.base import JOB_BODY, LOG_BODY, Cell, Quantity
from benchmarks.cells.carrying import Carrying
from benchmarks.cells.instructions import instructions
from benchmarks.cells.snapshot import HeldSnapshot
from benchmarks.cells.tasks import InOrder, Keyed, Reading, Task, Working, Writing
from benchmarks.cells.timed import Timed
from benchmarks.cells.turns import Turns
from benchmarks.cells.wal import JobWal, PublishWal

__all__ = ["CELLS"]

ALL = ("bound", "primitives", "pgq")
LEASED = ("primitives", "pgq")

ONE = {"bound": "insert", "primitives": "publish", "pgq": "publish"}
MANY = {"bound": "insert_batch", "primitives": "publish_batch", "pgq": "publish_batch"}
READ = {"bound": "read_range", "primitives": "consume", "pgq": "consume"}
READ_UNFLUSHED = {
    "bound": "read_range",
    "primitives": "consume_unflushed",
    "pgq": "consume_unflushed",
}
ENQUEUE = {"bound": "insert", "primitives": "enqueue", "pgq": "enqueue"}
JOB = {"primitives": "job", "pgq": "claim_ack"}
CLAIM_UNFLUSHED = {"primitives": "job", "pgq": "claim_unflushed_ack"}
JOB_UNFLUSHED = {"primitives": "job_unflushed", "pgq": "claim_ack_unflushed"}
JOBS = {"primitives": "job_batch", "pgq": "claim_ack_batch"}
FINISH = JOB | {"pgq": "finish_and_claim"}
FINISH_MANY = JOBS | {"pgq": "finish_and_claim_batch"}

PUBLISH_1 = Writing(scripts=ONE, clients=1)
PUBLISH_16 = Writing(scripts=ONE, clients=16, partitions=16)
PUBLISH_100 = Writing(scripts=MANY, clients=4, batch=100)
PUBLISH_1000 = Writing(scripts=MANY, clients=1, batch=1000)
CONSUME_1 = Reading(scripts=READ, clients=2, batch=1)
CONSUME_100 = Reading(scripts=READ, clients=4, batch=100)
CONSUME_1000 = Reading(scripts=READ, clients=4, batch=1000)
ENQUEUE_1 = Writing(scripts=ENQUEUE, clients=16, body=JOB_BODY, queue=True)
WORK_1 = Working(scripts=JOB, clients=16, expected=5_000)
WORK_100 = Working(scripts=JOBS, clients=4, batch=100, expected=80_000)
ORDERED_1 = InOrder(scripts={"pgq": "claim_ack"}, clients=1, expected=1_000)
ORDERED_FEW = replace(ORDERED_1, behind=0)
# two jobs of each key: who finishes the first brings up the second
ORDERED_KEYS = replace(ORDERED_1, behind=200_000, keys=100_000)
UNORDERED = Keyed(scripts={"pgq": "work_keyed"}, clients=12)
FINISH_1 = replace(WORK_1, scripts=FINISH, in_hand=("pgq",))
FINISH_100 = replace(WORK_100, scripts=FINISH_MANY, in_hand=("pgq",))


def _rate(unit: str, reference: str, target: float | None) -> tuple[Quantity, ...]:
    return (Quantity(name="rate", unit=f"{unit}/s", reference=reference, target=target),)


def _messages(name: str, title: str, task: Task, target: float | None) -> Cell:
    """A rate of messages, and its ratio to the bound."""
    quantities = _rate("messages", "bound", target)
    return Timed(name=name, title=title, task=task, systems=ALL, quantities=quantities)


def _jobs(name: str, title: str, task: Task, target: float | None) -> Cell:
    """A rate of finished jobs, and its ratio to the primitives."""
    quantities = _rate("jobs", "primitives", target)
    return Timed(name=name, title=title, task=task, systems=LEASED, quantities=quantities)


def _ordered(name: str, title: str, task: InOrder) -> Cell:
    """A rate that nothing else has: it is to be that of the same queue with few jobs."""
    return Timed(
        name=name,
        title=f"claim and finish 1 {title}",
        task=task,
        systems=("pgq",),
        quantities=(Quantity(name="rate", unit="jobs/s"),),
    )


def _job_wal(
    name: str, title: str, scripts: dict[str, str], enqueue: str, body: int, life: int | None,
    batch: int = 1,
) -> Cell:  # fmt: skip
    return JobWal(
        name=name,
        title=f"WAL of {title}",
        systems=LEASED,
        enqueue=enqueue,
        scripts=scripts,
        body=body,
        batch=batch,
        quantities=(
            Quantity(name="enqueue", unit="bytes"),
            Quantity(name="finish", unit="bytes", target=720, at_most=True),
            Quantity(name="life", unit="bytes", target=life, at_most=True),
        ),
    )


def _held(name: str, title: str, task: Task, unit: str = "messages") -> Cell:
    """The last half minute of a held snapshot, as a share of that without."""
    return HeldSnapshot(
        name=f"snapshot-{name}",
        title=f"held snapshot: {title}",
        task=task,
        systems=("pgq",),
        once=True,
        quantities=(
            Quantity(name="rate", unit=f"{unit}/s"),
            Quantity(name="first", unit="share"),
            Quantity(name="last", unit="share", target=0.9),
            Quantity(name="fade", unit="share"),
        ),
    )


def _small(task: Task) -> Task:
    """With small bodies: minutes of large batches would fill the disk."""
    return replace(task, body=16)


def _above(script: str) -> tuple[Quantity, ...]:
    return (
        Quantity(name=f"{script} alone", unit="ms"),
        Quantity(name=f"{script} beside", unit="ms"),
        Quantity(name=f"{script} above", unit="ms", target=50, at_most=True),
    )


CELLS: Sequence[Cell] = (
    _messages("publish-1", "publish 1 message, 1 client", PUBLISH_1, None),
    _messages("publish-100", "publish batches of 100, 4 clients", PUBLISH_100, 0.9),
    _messages("publish-1000", "publish batches of 1000, 1 client", PUBLISH_1000, 0.93),
    _messages("publish-16", "publish 1 message, 16 clients, one topic", PUBLISH_16, None),
    Turns(
        name="deferred-16",
        title="publish 1 message, 16 clients, a deferred topic of one partition",
        tasks={
            "deferred": replace(PUBLISH_16, partitions=1, deferred=True),
            "ordinary": PUBLISH_16,
        },
        systems=("pgq",),
        quantities=(
            Quantity(name="rate", unit="messages/s"),
            Quantity(name="over ordinary", unit="share", target=1.15),
        ),
    ),
    PublishWal(
        name="publish-wal",
        title="WAL of a message, batches of 100",
        systems=ALL,
        scripts=MANY,
        quantities=(Quantity(name="wal", unit="bytes", target=1215, at_most=True),),
    ),
    PublishWal(
        name="publish-wal-8",
        title="WAL of a message for 8 queues, batches of 100",
        systems=("pgq",),
        scripts={"pgq": MANY["pgq"]},
        queues=8,
        # 2.5 times that of a publish alone
        quantities=(Quantity(name="wal", unit="bytes", target=3037, at_most=True),),
    ),
    _messages("consume-100", "consume 100 per claim, 4 clients", CONSUME_100, 0.5),
    _messages(
        "consume-100-unflushed",
        "consume 100 per claim, 4 clients, without a flush",
        replace(CONSUME_100, scripts=READ_UNFLUSHED),
        0.8,
    ),
    _messages("consume-1000", "consume 1000 per claim, 4 clients", CONSUME_1000, 0.9),
    _messages(
        "consume-1000-unflushed",
        "consume 1000 per claim, 4 clients, without a flush",
        replace(CONSUME_1000, scripts=READ_UNFLUSHED),
        None,
    ),
    Timed(
        name="enqueue-1",
        title="enqueue 1 job, 16 clients",
        task=ENQUEUE_1,
        systems=ALL,
        quantities=_rate("jobs", "bound", None),
    ),
    _jobs("work-1", "claim and finish 1 job, 16 workers", WORK_1, None),
    _ordered("ordered-few", "job of one key, 1 worker", ORDERED_FEW),
    _ordered("ordered-1", "job of one key, 100,000 behind it, 1 worker", ORDERED_1),
    _ordered("ordered-keys", "job of 100,000 keys, 2 of each, 1 worker", ORDERED_KEYS),
    Turns(
        name="ordered-parallel",
        title="work of 5 ms, 20 keys of one partition, 12 workers of an ordered queue",
        tasks={
            "ordered": replace(UNORDERED, ordered=True, in_order=True),
            "unordered": UNORDERED,
            "consumer": replace(
                UNORDERED, scripts={"pgq": "consume_keyed"}, clients=1, in_order=True
            ),
        },
        systems=("pgq",),
        quantities=(
            Quantity(name="rate", unit="jobs/s"),
            Quantity(name="over consumer", unit="share"),
            Quantity(name="over unordered", unit="share"),
        ),
    ),
    _jobs(
        "work-1-unflushed-claim",
        "claim without a flush and finish 1 job, 16 workers",
        replace(WORK_1, scripts=CLAIM_UNFLUSHED),
        None,
    ),
    _jobs(
        "work-1-unflushed",
        "claim and finish 1 job, 16 workers, no flush at all",
        replace(WORK_1, scripts=JOB_UNFLUSHED),
        None,
    ),
    _jobs("work-100", "claim and finish 100 jobs, 4 workers", WORK_100, 0.6),
    _jobs("finish-1", "finish_and_claim 1 job, 16 workers", FINISH_1, 0.7),
    _jobs("finish-100", "finish_and_claim 100 jobs, 4 workers", FINISH_100, 0.75),
    _job_wal("job-wal-200", "a job of 200 bytes, one by one", JOB, "enqueue", JOB_BODY, None),
    _job_wal("job-wal-1k", "a job of 1 KB, one by one", JOB, "enqueue", LOG_BODY, 2250),
    _job_wal(
        "job-wal-1k-100",
        "a job of 1 KB, batches of 100",
        JOBS,
        "enqueue_batch",
        LOG_BODY,
        None,
        batch=100,
    ),
    Carrying(
        name="carry",
        title="worst latency while cleanup carries 200,000 jobs",
        systems=("pgq",),
        quantities=(
            *_above("publish"),
            *_above("claim"),
            Quantity(name="seconds", unit="s of cleanup"),
        ),
    ),
    instructions(
        {
            "publish": 310,
            "consume": 400,
            "claim_job": 500,
            "enqueue": 190,
            "ack": 200,
            "finish_and_claim": 600,
        }
    ),
    _held("publish-1", "publish 1 message, 1 client", PUBLISH_1),
    _held("publish-16", "publish 1 message, 16 clients", PUBLISH_16),
    _held("publish-100", "publish batches of 100, 4 clients", _small(PUBLISH_100)),
    _held("publish-1000", "publish batches of 1000, 1 client", _small(PUBLISH_1000)),
    _held("consume-1", "consume 1 message, 2 clients", CONSUME_1),
    _held("consume-100", "consume 100 per claim, 4 clients", CONSUME_100),
    _held("consume-1000", "consume 1000 per claim, 4 clients", CONSUME_1000),
    _held("enqueue-1", "enqueue 1 job, 16 clients", ENQUEUE_1, "jobs"),
    _held("work-1", "claim and finish 1 job, 16 workers", WORK_1, "jobs"),
    _held("work-100", "claim and finish 100 jobs, 4 workers", _small(WORK_100), "jobs"),
    _held("finish-1", "finish_and_claim 1 job, 16 workers", FINISH_1, "jobs"),
    _held("finish-100", "finish_and_claim 100 jobs, 4 workers", _small(FINISH_100), "jobs"),
)
