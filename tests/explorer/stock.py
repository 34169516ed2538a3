"""What the house makes before two calls meet, so that they find something to do."""

from __future__ import annotations

from explorer.calls import CALLS
from explorer.draw import Arguments, Near
from explorer.script import HOUSE, Late, Step

__all__ = ["stock_of"]

JOBS = "enqueue enqueue claim_job"
MESSAGES = "publish publish_batch"
POISON = "publish_poison publish_poison"

FOLLOWED = "enqueue_followed publish enqueue_followed claim_followed"
WRITE = "begin_write write_chunk"

# What has to be done before, by the call, or by the kind of what it names.
NEEDED = {
    "job": JOBS,
    "jobs": JOBS,
    "running": JOBS,
    "next job": JOBS,
    "id": JOBS,
    "released": f"{JOBS} release_job",
    "lease": f"{MESSAGES} poll",
    "polled": f"{MESSAGES} poll",
    "range": f"{MESSAGES} claim_offsets",
    "write": WRITE,
    "followed": FOLLOWED,
    "followed id": FOLLOWED,
    "all followed": FOLLOWED,
    "poison lease": f"{POISON} poll_poison",
    "poison polled": f"{POISON} poll_poison",
    "poison range": f"{POISON} consume_poison",
    "alter_schedule": "create_schedule",
    "assign_offsets": MESSAGES,
    "claim_followed": "enqueue_followed publish",
    "claim_job": "enqueue enqueue",
    "claim_job_keyed": "enqueue enqueue",
    "claim_offsets": MESSAGES,
    "commit_offset": MESSAGES,
    "consume": MESSAGES,
    "consume_poison": POISON,
    "drop_group": "create_group",
    "drop_queue": "create_queue enqueue",
    "drop_schedule": "create_schedule",
    "drop_topic": f"create_topic create_group {MESSAGES}",
    "fetch": MESSAGES,
    "fetch_dead_letters": f"{JOBS} reject_job",
    "finish_and_claim": "enqueue",
    "finish_effect": f"{JOBS} begin_effect",
    "delete_effect": f"{JOBS} begin_effect",
    "delete_worker": "heartbeat",
    "pause_queue": "resume_queue",
    "pause_schedule": "create_schedule resume_schedule",
    "peek_jobs": "enqueue",
    "poll": MESSAGES,
    "poll_poison": POISON,
    "purge_queue": f"{JOBS} reject_job enqueue",
    "redrive": f"{JOBS} reject_job",
    "cancel_jobs": "enqueue enqueue",
    "retry_jobs": f"{JOBS} nack",
    "resume_queue": "enqueue pause_queue",
    "resume_schedule": "create_schedule pause_schedule",
    "revoke_access": "grant_access",
    "run_schedules": "create_schedule",
    "seek": MESSAGES,
    "seek_poison": POISON,
    "unsubscribe": "subscribe",
}

_NAMED = {
    "create_group": ("consumer_group", "topic"),
    "create_queue": ("queue",),
    "create_schedule": ("schedule",),
    "create_topic": ("topic",),
}

IN_THE_WAY = {"delay", "idempotency_key", "idempotency_keys", "label"}
"""Arguments that may keep a claim from finding what was made for it."""


def stock_of(draw: Near, theme: set[str], calls: list[tuple[int, Step]]) -> list[Step]:
    """Steps of the house for calls that name the first, or the last, of all things."""
    steps = [Step(HOUSE, "move_clock", {"seconds": draw.rng.choice(_moves(theme))})]
    made = set()
    # what is rejected is not named later
    for place, step in sorted(calls, key=lambda c: "reject_job" not in NEEDED.get(c[1].call, "")):
        draw.place = place
        steps += _out_of_the_way(draw, step)
        late = step.arguments.get("*")
        needed = NEEDED.get(step.call, "").split()
        if isinstance(late, Late) and not needed:
            needed = NEEDED[late.kind].split()
        if (place, *needed) in made:
            continue
        made.add((place, *needed))
        steps += [_stocked(draw, _enqueued(name, theme)) for name in needed]
    return steps


def _out_of_the_way(draw: Near, step: Step) -> list[Step]:
    """What is to be created must not be there with other settings from the round before."""
    named = _NAMED.get(step.call)
    if named is None or draw.some(0.3) or step.arguments[named[0]] in (*draw.topics, *draw.queues):
        return []
    arguments = {name: step.arguments[name] for name in named}
    return [Step(HOUSE, step.call.replace("create", "drop"), arguments)]


def _moves(theme: set[str]) -> list[int]:
    """As far as leases last, and not much farther: what is kept for hours has to stay."""
    return [1900, 3700] if "ticks" in theme else [0, 660, 660, 1900]


def _enqueued(name: str, theme: set[str]) -> str:
    """The call by which a theme enqueues."""
    if name == "enqueue" and "keyed" in theme:
        return "enqueue_keyed"
    if name == "enqueue" and theme & {"endings", "mixed"}:
        return "enqueue_unique"
    return name


def _stocked(draw: Near, name: str) -> Step:
    arguments: Arguments = CALLS[name].draw(draw)
    arguments = {key: value for key, value in arguments.items() if key not in IN_THE_WAY}
    if name == "create_topic":
        arguments = {"topic": draw.topic(), "partitions": draw.topics.get(draw.topic(), 1)}
    elif name == "create_queue":
        arguments = {"queue": draw.queue(), "lease": "10 minutes"}
    elif name == "enqueue_unique" and draw.some(0.5):
        arguments["unique_key"] = None
    if "lease" in arguments and name != "create_queue":
        arguments["lease"] = "10 minutes"
    return Step(HOUSE, name, arguments)
