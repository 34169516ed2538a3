"""Calls that create, alter and drop topics, groups and queues."""

from __future__ import annotations

from explorer.draw import JOB_TTLS, RETENTIONS, WINDOWS, Arguments, Draw
from explorer.keyed_calls import alter_limits
from explorer.limit_calls import alter_claim_limits
from explorer.registry import call

__all__: list[str] = []


@call("settings store", 2)
def create_topic(draw: Draw) -> Arguments:
    given = {
        "partitions": draw.rng.choice([1, 2]),
        "retention": draw.rng.choice(RETENTIONS),
        "max_bytes": 1 if draw.some(0.05) else None,
    }
    if draw.deferred and draw.some(0.5):
        given["deferred"] = True
    # one that is there is returned, if what is given of these agrees
    topic = draw.rng.choice(["c", "c", "d", "a"])
    if topic == "a":
        given = {name: value for name, value in given.items() if draw.some(0.5)}
    return {"topic": topic, **given}


@call("settings store", 4)
def alter_topic(draw: Draw) -> Arguments:
    choice = draw.rng.random()
    if choice < 0.3:
        return {"topic": draw.topic(), "partitions": draw.rng.choice([2, 2, 3])}
    if choice < 0.35:
        return {"topic": draw.topic(), "max_bytes": draw.rng.choice([1, 1000000])}
    if choice < 0.45:
        return {"topic": draw.topic(), "no_limit": ["retention"]}
    if choice < 0.6:
        return {"topic": draw.topic(), "idempotency_window": draw.rng.choice(WINDOWS)}
    return {"topic": draw.topic(), "retention": draw.rng.choice(RETENTIONS)}


@call("settings", 0.7)
def drop_topic(draw: Draw) -> Arguments:
    return {"topic": draw.topic()}


@call("settings", 1.5)
def create_group(draw: Draw) -> Arguments:
    return {
        "topic": draw.topic(),
        "consumer_group": draw.group(),
        "start": draw.rng.choice(["earliest", "latest"]),
        "out_of_range": draw.rng.choice(["error", "skip", None]),
    }


@call("settings", 1.5)
def alter_group(draw: Draw) -> Arguments:
    return {
        "topic": draw.topic(),
        "consumer_group": draw.group(),
        "out_of_range": draw.rng.choice(["error", "skip", None]),
    }


@call("settings", 1.5)
def drop_group(draw: Draw) -> Arguments:
    return {"topic": draw.topic(), "consumer_group": draw.group()}


@call("settings store", 2)
def create_queue(draw: Draw) -> Arguments:
    given = {"retention": draw.rng.choice(RETENTIONS), "job_ttl": draw.rng.choice(JOB_TTLS)}
    queue = draw.rng.choice(["s", "s", "t", "q"])
    if queue == "q":
        given = {name: value for name, value in given.items() if draw.some(0.5)}
    return {"queue": queue, **given, "lease": "10 minutes"}


@call("settings store keyed limits", 3)
def alter_queue(draw: Draw) -> Arguments:
    if draw.keyed and draw.some(0.6):
        return {"queue": draw.queue(), **alter_limits(draw)}
    if draw.limited and draw.some(0.9):
        return {"queue": draw.queue(), **alter_claim_limits(draw)}
    choice = draw.rng.random()
    if choice < 0.2:
        return {"queue": draw.queue(), "max_attempts": draw.rng.choice([1, 2])}
    if 0.2 <= choice < 0.25:
        most = draw.rng.choice([{"max_leased": 1}, {"max_leased": 3}, {"max_unfinished": 4}])
        return {"queue": draw.queue(), **most}
    if choice < 0.35:
        return {"queue": draw.queue(), "no_limit": [draw.rng.choice(["retention", "job_ttl"])]}
    if choice < 0.55:
        return {"queue": draw.queue(), "job_ttl": draw.rng.choice(JOB_TTLS)}
    if choice < 0.7:
        return {"queue": draw.queue(), "idempotency_window": draw.rng.choice(WINDOWS)}
    return {"queue": draw.queue(), "retention": draw.rng.choice(RETENTIONS)}


@call("settings", 0.7)
def drop_queue(draw: Draw) -> Arguments:
    return {"queue": draw.queue()}
