"""Calls that give access and take it, and the roles that the others of their trial act as."""

from __future__ import annotations

from explorer.draw import Arguments, Draw
from explorer.registry import call

__all__ = ["CONSUME", "HEIR", "OWNER", "PUBLISH", "ROLES", "acting"]

ROLES = ("pgq_explorer_app", "pgq_explorer_other")
HEIR = "pgq_explorer_heir"
"""A member of the first of them."""
OWNER = "none"
"""What SET ROLE calls the user of the session, who may do everything."""

PUBLISH = frozenset({"publish", "publish_batch", "enqueue", "enqueue_batch"})
CONSUME = frozenset(
    {
        "check_range",
        "claim_job",
        "claim_offsets",
        "commit_offset",
        "consume",
        "extend_poll",
        "fetch",
        "fetch_packed",
        "fetch_range",
        "finish_and_claim",
        "peek_jobs",
        "poll",
        "release_poll",
        "seek",
    }
)


def acting(draw: Draw, name: str, arguments: Arguments) -> Arguments:
    """The arguments with the role that calls, where a trial has roles: the key ``@``."""
    if not draw.guarded:
        return arguments
    role = OWNER
    if name in PUBLISH | CONSUME and draw.some(0.8):
        role = draw.rng.choice([*ROLES, ROLES[0], HEIR])
    return {**arguments, "@": role}


def _target(draw: Draw) -> Arguments:
    targets: list[Arguments] = []
    if draw.topics:
        targets += [{"topic": draw.topic()}] * 3 + [{"topic": "*"}]
    if draw.queues:
        targets += [{"queue": draw.queue()}] * 3 + [{"queue": "*"}]
    return draw.rng.choice(targets)


@call("access", 4)
def grant_access(draw: Draw) -> Arguments:
    return {
        "role": draw.rng.choice([*ROLES, ROLES[0], ROLES[0], "public"]),
        "access": draw.rng.choice(["publish", "consume", "consume", "publish", "monitor", "admin"]),
        **_target(draw),
    }


@call("access", 5)
def revoke_access(draw: Draw) -> Arguments:
    given: Arguments = {"role": draw.rng.choice([*ROLES, ROLES[0], ROLES[0], "public"])}
    if draw.some(0.5):
        given["access"] = draw.rng.choice(["publish", "consume", "admin"])
    return {**given, **_target(draw)}


@call("access", 1)
def restrict(draw: Draw) -> Arguments:
    """Not a function of its own: alter_topic or alter_queue."""
    what = "topic" if draw.topics and (not draw.queues or draw.some(0.5)) else "queue"
    name = draw.topic() if what == "topic" else draw.queue()
    return {"what": what, what: name, "restricted": draw.some(0.6)}
