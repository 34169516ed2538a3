"""The calls that trials are made of. To add one, write a function of its name.

It draws the call's arguments; its decorator says where it belongs and how often it is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import explorer.access_calls
import explorer.deferred_calls
import explorer.effect_calls
import explorer.ending_calls
import explorer.filter_calls
import explorer.keyed_calls
import explorer.letter_calls
import explorer.newest_calls
import explorer.noted_calls
import explorer.reader_calls
import explorer.setting_calls
import explorer.tick_calls
import explorer.worker_calls  # noqa: F401  they register them
from explorer.draw import LEASES, MOVES, Arguments, Draw
from explorer.follow_calls import known_from_followed
from explorer.poison_calls import known_from_poison
from explorer.registry import CALLS, Call, call

__all__ = ["CALLS", "Call", "known_from"]

Row = dict[str, Any]


def document(number: int) -> str:
    return json.dumps({"n": number})


# ---------------------------------------------------------------------------- the log


@call("log store", 8)
def publish(draw: Draw) -> Arguments:
    number = draw.number()
    more: Arguments = {"headers": draw.headers()} if draw.followed else {}
    home = draw.home()
    if draw.followed and "partition" in home:
        more["key"] = draw.ordered_key()
    return {**home, "payload": document(number), **more, **draw.known_key(), "#": [number]}


@call("log store", 5)
def publish_batch(draw: Draw) -> Arguments:
    numbers = [draw.number() for _ in range(draw.rng.choice([1, 2, 3, 5]))]
    home = draw.home()
    batch: Arguments = {"topic": home["topic"], "payloads": [document(n) for n in numbers]}
    if "partition" in home:
        batch["partition"] = home["partition"]
    elif "key" in home:
        batch["keys"] = [draw.rng.choice(["x", "y", "z", None]) for _ in numbers]
    if draw.followed:
        batch["headers"] = [draw.headers() for _ in numbers]
    if "keys" not in batch:
        if draw.followed and "partition" in batch:
            batch["keys"] = [draw.ordered_key() for _ in numbers]
        for key in draw.known_key().values():  # one at most, and one partition: see check_keys
            batch["idempotency_keys"] = [draw.rng.choice([key, key, None]) for _ in numbers]
            if draw.deferred:  # which of several is the new one is not answered
                batch["idempotency_keys"] = [key, *[None for _ in numbers[1:]]]
    return {**batch, "#": numbers}


@call("log", 7)
def consume(draw: Draw) -> Arguments:
    return {**draw.member(), "max_messages": draw.rng.choice([1, 2, 100])}


@call("log", 3)
def claim_offsets(draw: Draw) -> Arguments:
    return {**draw.member(), "max_messages": draw.rng.choice([1, 2, 100])}


@call("log", 1)
def fetch_range(draw: Draw) -> Arguments:
    return {"*": draw.late("range")}


@call("log", 2)
def fetch(draw: Draw) -> Arguments:
    return {**draw.member(0.4), "max_messages": draw.rng.choice([1, 100])}


@call("log", 4)
def poll(draw: Draw) -> Arguments:
    return {
        **draw.member(),
        "max_messages": draw.rng.choice([1, 2, 100]),
        "lease": draw.rng.choice(LEASES),
    }


@call("log", 4)
def commit_offset(draw: Draw) -> Arguments:
    if draw.some(0.6):
        return {"*": draw.late("polled")}
    member = draw.member(0)
    return {**member, "committed_offset": draw.rng.choice([0, 1, 2, 3, 4])}


@call("log", 3)
def seek(draw: Draw) -> Arguments:
    if draw.some(0.5):
        return {**draw.member(0), "log_offset": draw.rng.choice([1, 2, 3, 4])}
    return {**draw.member(0.3), "start": draw.rng.choice(["earliest", "latest"])}


@call("log", 1)
def extend_poll(draw: Draw) -> Arguments:
    return {"*": draw.late("lease"), "lease": draw.rng.choice(LEASES)}


@call("log", 1)
def release_poll(draw: Draw) -> Arguments:
    return {"*": draw.late("lease")}


# ---------------------------------------------------------------------------- the queue


@call("queue store", 6)
def enqueue(draw: Draw) -> Arguments:
    number = draw.number()
    more = draw.known_key()
    if draw.some(0.15):
        more["delay"] = draw.rng.choice(["1 minute", "30 minutes"])
    if draw.some(0.2):
        more["priority"] = draw.rng.choice([None, 0, 1, 9])
    return {"queue": draw.queue(), "payload": document(number), **more, "#": [number]}


@call("queue store limits prefetch", 3)
def enqueue_batch(draw: Draw) -> Arguments:
    numbers = [draw.number() for _ in range(draw.rng.choice([1, 2, 3]))]
    more: Arguments = {}
    if draw.known_key():
        more["idempotency_keys"] = [draw.rng.choice(["a", "b", "c", None]) for _ in numbers]
    more["payloads"] = [document(n) for n in numbers]
    return {"queue": draw.queue(), **more, "#": numbers}


@call("queue limits prefetch", 8)
def claim_job(draw: Draw) -> Arguments:
    return {
        "queue": draw.queue(),
        "max_jobs": draw.rng.choice([1, None, 2, 100]),
        "lease": draw.rng.choice(LEASES),
        **prefetching(draw),
    }


def prefetching(draw: Draw) -> Arguments:
    """Often only the first of the jobs begins, where trials are of this."""
    if not draw.prefetched or draw.some(0.3):
        return {}
    return {"max_jobs": draw.rng.choice([2, 100]), "prefetch": True}


@call("queue limits", 4)
def ack(draw: Draw) -> Arguments:
    return {"*": draw.late("job")}


@call("queue prefetch", 2)
def ack_batch(draw: Draw) -> Arguments:
    return {"*": draw.late(draw.rng.choice(["jobs", "next job"]) if draw.prefetched else "jobs")}


@call("queue limits prefetch", 4)
def finish_and_claim(draw: Draw) -> Arguments:
    nothing: list[Arguments] = [{}, {"job_ids": None}, {"job_ids": []}]
    done = {"*": draw.late("jobs")} if draw.some(0.8) else draw.rng.choice(nothing)
    return {
        **done,
        "queue": draw.queue(),
        "max_jobs": draw.rng.choice([0, 1, 1, 2, 100]),
        "lease": draw.rng.choice(LEASES),
        **prefetching(draw),
    }


@call("queue limits prefetch", 4)
def nack(draw: Draw) -> Arguments:
    more = {"delay": draw.rng.choice(["0", "1 minute"])} if draw.some(0.7) else {}
    return {"*": draw.late("job"), **more, **draw.told("worker", "w")}


@call("queue prefetch", 1)
def nack_batch(draw: Draw) -> Arguments:
    return {"*": draw.late("jobs"), "delay": "0"}


@call("queue", 0.5)
def archive_job_batch(draw: Draw) -> Arguments:
    return {"*": draw.late("jobs"), **draw.told("result", "")}


@call("queue limits", 1)
def extend_lease(draw: Draw) -> Arguments:
    return {"*": draw.late("job"), "lease": draw.rng.choice(LEASES)}


@call("queue prefetch", 2)
def extend_lease_batch(draw: Draw) -> Arguments:
    jobs = draw.rng.choice(["jobs", "running"]) if draw.prefetched else "jobs"
    return {"*": draw.late(jobs), "lease": draw.rng.choice(LEASES)}


@call("queue", 1)
def archive_job(draw: Draw) -> Arguments:
    return {"*": draw.late("job"), **draw.told("result", "")}


# ---------------------------------------------------------------------------- bulk writes


@call("bulk", 4)
def begin_write(draw: Draw) -> Arguments:
    to_topic = not draw.mixed and draw.some(0.6)
    target = {"topic": draw.topic()} if to_topic else {"queue": draw.queue()}
    named = {"producer": "p", "seq": draw.rng.choice([1, 2])} if draw.some(0.3) else {}
    return {**target, **named, "atomic": draw.some(0.6)}


@call("bulk", 6)
def write_chunk(draw: Draw) -> Arguments:
    numbers = [draw.number() for _ in range(draw.rng.choice([1, 2]))]
    texts = [document(n) for n in numbers]
    more: Arguments = {}
    if draw.followed:
        more["headers"] = [draw.headers() for _ in numbers]
    if draw.followed or draw.mixed:
        more["keys"] = [draw.ordered_key() for _ in numbers]
    return {
        "*": draw.late("write"),
        **more,
        "task": draw.number(),
        "task_attempt": "1",
        # the only chunk of its task, or one that is stored as a run
        "chunk": numbers[0] % 2,
        "lengths": [len(text) for text in texts],
        "packed_payloads": "".join(texts),
        "last_chunk": True,
        "#": numbers,
    }


@call("bulk", 4)
def commit_write(draw: Draw) -> Arguments:
    return {"*": draw.late("write")}


@call("bulk", 1)
def abort_write(draw: Draw) -> Arguments:
    return {"*": draw.late("write")}


# ---------------------------------------------------------------------------- the house


@call("house", 6)
def cleanup(draw: Draw) -> Arguments:
    return {}


@call("house", 4)
def move_clock(draw: Draw) -> Arguments:
    """Not a function of pgq: moves the time by which it counts."""
    return {"seconds": draw.rng.choice(MOVES)}


@call("journal", 1)
def fill_journal(draw: Draw) -> Arguments:
    """Not a function of pgq: more than a thousand positions of one group."""
    return {"topic": draw.topic(), "consumer_group": "g", "partition": 0}


@call("look", 1)
def look(draw: Draw) -> Arguments:
    """Not a function of pgq: a plain select, which takes the snapshot."""
    return {}


def known_from(name: str, arguments: Arguments, rows: list[Row]) -> Iterator[tuple[str, Arguments]]:
    """What a call's answer lets later calls name, as kinds of :class:`Late`."""
    yield from known_from_poison(name, rows)
    if name.endswith("_followed"):
        yield from known_from_followed(name, arguments, rows)
        return
    if rows and {"job_id", "lease_token"} <= rows[0].keys():
        token = rows[0]["lease_token"]
        for row in rows:
            yield "job", {"job_id": row["job_id"], "lease_token": token}
            yield "id", {"job_id": row["job_id"]}
        job_ids = [row["job_id"] for row in rows]
        yield "jobs", {"job_ids": job_ids, "lease_token": token}
        if len(rows) > 1 and arguments.get("prefetch"):
            yield "running", {"job_ids": job_ids, "lease_token": token, "begun": job_ids}
            yield "next job", {"job_ids": job_ids[:1], "lease_token": token, "begun": job_ids[1:]}
    elif rows and {"job_id", "duplicate"} <= rows[0].keys():
        for row in rows:
            yield "id", {"job_id": row["job_id"]}
    elif name == "release_job" and rows[0]["release_job"]:
        yield "released", {"job_id": arguments["job_id"]}
    elif name == "poll" and rows:
        lease = {
            "topic": arguments["topic"],
            "consumer_group": arguments["consumer_group"],
            "partition": rows[0]["partition"],
            "lease_token": rows[0]["lease_token"],
        }
        yield "lease", lease
        yield "polled", {**lease, "committed_offset": rows[-1]["log_offset"]}
    elif name == "claim_offsets" and rows:
        yield "range", {"topic": arguments["topic"], **rows[0]}
    elif name == "begin_write" and rows[0]["duplicate"] is not True:
        yield "write", {"write_id": rows[0]["write_id"]}
