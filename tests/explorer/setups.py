"""What stands before and behind the steps of a trial, and which calls there are for it."""

from __future__ import annotations

from explorer.access_calls import ROLES
from explorer.calls import CALLS, Call
from explorer.draw import JOB_TTLS, RETENTIONS, Draw
from explorer.ending_calls import MODES
from explorer.follow_calls import FOLLOWERS, IN_ORDER
from explorer.keyed_calls import KEYED
from explorer.limit_calls import rate
from explorer.newest_calls import NEWEST
from explorer.poison_calls import DEAD, POISON
from explorer.script import HOUSE, Step
from explorer.tick_calls import TICKS

__all__ = ["calls_of", "pick", "setup_of", "tail_of"]

TAILS: tuple[tuple[int | None, ...], ...] = (
    (),
    (0, None),
    (0, 3700, None, 7500),
    (0, None, 11000),
    (3700, 0, None, 11000),
    (0, 3700, None, 44000),
)
"""How trials end: the clock goes on by so many seconds, then there is cleanup, twice; None: more is
published and enqueued. What stands in a segment that is closed already goes too early by it."""


def _limits(draw: Draw) -> dict[str, object]:
    """Of a queue, at least one; where ticks come to it they must find room."""
    rng = draw.rng
    limits: dict[str, object] = {}
    if rng.random() < 0.6:
        limits["max_leased"] = rng.choice([1, 2, 3])
    if rng.random() < 0.5:
        limits.update(rate(rng))
    if not draw.mixed and (not limits or rng.random() < 0.3):
        limits["max_unfinished"] = rng.choice([2, 5])
    return limits


def setup_of(draw: Draw, areas: set[str]) -> list[Step]:
    rng = draw.rng
    steps: list[Step] = []

    def house(call: str, /, **arguments: object) -> None:
        steps.append(Step(HOUSE, call, arguments))

    def drawn(call: str) -> None:
        steps.append(Step(HOUSE, call, CALLS[call].draw(draw)))

    draw.limited = "limits" in areas
    draw.mixed = "mixed" in areas
    draw.guarded = "access" in areas
    draw.noted = "noted" in areas
    with_log = bool(areas & {"log", "bulk", "settings", "store", "journal"}) and not draw.mixed
    draw.prefetched = "prefetch" in areas
    with_queue = bool(areas & {"queue", "bulk", "settings", "store", "limits", "prefetch"})
    if with_log:
        draw.topics["a"] = 2 if draw.wide else rng.choice([1, 1, 2])
        draw.deferred = "deferred" in areas
        house(
            "create_topic",
            topic="a",
            partitions=draw.topics["a"],
            retention=rng.choice(RETENTIONS),
            **({"deferred": True} if draw.deferred else {}),
        )
        if draw.wide or draw.some(0.4):
            draw.topics["b"] = 1
            house("create_topic", topic="b", partitions=1, retention=rng.choice(RETENTIONS))
        for group in ["g", "h"] if draw.wide or draw.some(0.3) else ["g"]:
            house(
                "create_group",
                topic="a",
                consumer_group=group,
                out_of_range=rng.choice(["error", "skip"]),
            )
    if with_queue:
        draw.queues = ["q", "r"] if draw.wide or draw.some(0.4) else ["q"]
        draw.keyed = keyed = "keyed" in areas
        # with claimed, a job that lost its lease at a limited key waits without its unique key
        modes = [mode for mode in MODES if mode != "claimed"] if keyed else MODES
        for queue in draw.queues:
            house(
                "create_queue",
                queue=queue,
                retention=rng.choice(RETENTIONS),
                lease="10 minutes",
                job_ttl=rng.choice(JOB_TTLS),
                max_attempts=(attempts := rng.choice([1, 2, None])),
                no_limit=["max_attempts"] if attempts is None else None,
                backoff="0",
                archive=draw.some(0.7),
                unique_until=rng.choice(modes) if "endings" in areas else None,
                ordered=draw.mixed
                or (draw.some(0.6) if "endings" in areas and not keyed else None),
                after_dead_letter=rng.choice(["continue", "stop"]) if "endings" in areas else None,
                **(
                    (_limits(draw) if "limits" in areas else {})
                    | ({"max_unfinished": rng.choice([2, 3, 5])} if "room" in areas else {})
                ),
                **({"max_leased_per_key": rng.choice([1, 1, 1, 2, 2, None])} if keyed else {}),
                **({"keep_results": draw.some(0.8)} if draw.noted else {}),
            )
    if draw.guarded:
        for what, names in (("topic", draw.topics), ("queue", draw.queues)):
            for name in names:
                for access in ("publish", "consume"):
                    if draw.some(0.8):
                        house("grant_access", role=ROLES[0], access=access, **{what: name})
    if "workers" in areas:
        drawn("heartbeat")
    if "poison" in areas:
        # among many partitions a member looks at near ones first
        for name, partitions in ((POISON, rng.choice([2, 2, 20])), (DEAD, rng.choice([1, 2]))):
            house(
                "create_topic",
                topic=name,
                partitions=partitions,
                no_limit=["retention"],
                deferred=draw.some(0.3),
            )
        house(
            "create_group",
            topic=POISON,
            consumer_group="g",
            max_attempts=rng.choice([1, 2, 2, 3]),
            dead_letter_topic=DEAD,
        )
        for _ in range(rng.choice([1, 2, 4, 5])):
            drawn("publish_poison")
    if "duplicates" in areas:
        house(
            "create_queue",
            queue=NEWEST,
            no_limit=["retention", "job_ttl", "max_attempts"],
            backoff="0",
            unique_until="claimed",
            on_duplicate=rng.choice(["replace", "replace", "postpone"]),
        )
        for call in ("enqueue_newest", "claim_job_newest"):
            if draw.some(0.6):
                drawn(call)
    if "follow" in areas:
        draw.followed = True
        for queue in (FOLLOWERS, IN_ORDER):
            house(
                "create_queue",
                queue=queue,
                no_limit=["retention", "job_ttl", "max_attempts"],
                backoff="0",
                ordered=queue == IN_ORDER,
            )
        for _ in range(rng.choice([0, 1, 2, 3])):
            drawn("subscribe")
    if "ticks" in areas:
        house("create_queue", queue=TICKS, no_limit=["retention", "job_ttl"])
        house("create_topic", topic=TICKS, partitions=rng.choice([1, 2]), no_limit=["retention"])
        for _ in range(rng.choice([1, 2])):
            drawn("create_schedule")
        house("move_clock", seconds=rng.choice([0, 1900, 3700]))
    for _ in range(rng.choice([0, 1, 2, 4])):
        if with_log and (not with_queue or draw.some(0.5)):
            drawn(rng.choice(["publish", "publish_batch"]))
        elif "keyed" in areas:
            drawn(rng.choice([*KEYED, "claim_job"]))
        elif with_queue:
            drawn(rng.choice(["enqueue", "enqueue_batch", "claim_job"]))
    if draw.limited:
        for _ in range(rng.choice([1, 2, 3])):
            drawn("enqueue_batch_unique" if draw.mixed else "enqueue_batch")
        for _ in range(rng.choice([0, 1, 1, 2])):
            drawn("claim_job")
    if draw.prefetched:
        for call in ("enqueue_batch", "enqueue_batch", "claim_job"):
            drawn(call)
        house("move_clock", seconds=rng.choice([0, 660, 3700]))
    if "bulk" in areas:
        for _ in range(rng.choice([1, 1, 2])):
            drawn("begin_write")
    if with_log and draw.some(0.3):
        drawn(rng.choice(["consume", "poll", "claim_offsets"]))
    if draw.some(0.6):
        # a segment that is about to be sealed, sealed, closed, or all but truncated
        house("move_clock", seconds=3700)
        for _ in range(rng.choice([0, 0, 0, 1, 2, 3])):
            house("cleanup")
        if draw.some(0.3):
            if with_log:
                drawn("publish")
            house("move_clock", seconds=rng.choice([3700, 11000]))
            for _ in range(rng.choice([0, 1, 2])):
                house("cleanup")
    if "effects" in areas:
        drawn("enqueue")
        drawn("claim_job")
    return steps


def tail_of(draw: Draw, areas: set[str]) -> list[Step]:
    """What shows whether everything still goes the way it should: more messages, and some hours."""
    steps: list[Step] = []

    def house(call: str, /, **arguments: object) -> None:
        steps.append(Step(HOUSE, call, arguments))

    def more() -> None:
        for call, target, names in (
            ("publish", "topic", [*draw.topics, "c"]),
            ("enqueue", "queue", [*draw.queues, "s"]),
        ):
            for name in names if len(names) > 1 else ():
                arguments = CALLS[call].draw(draw)
                steps.append(Step(HOUSE, call, {**arguments, target: name}))

    if draw.some(0.3):
        more()
    # a minute later a claim looks at all limited keys, whatever was forgotten
    for seconds in () if draw.keyed and draw.some(0.7) else draw.rng.choice(TAILS):
        if seconds is None:
            more()
        else:
            if seconds:
                house("move_clock", seconds=seconds)
            house("cleanup")
            house("cleanup")
    return steps


def calls_of(areas: set[str]) -> list[Call]:
    return [c for c in CALLS.values() if c.areas & areas]


def pick(draw: Draw, calls: list[Call]) -> Call:
    # where settings are called they are called often: as rare as in life they meet nothing
    weights = [c.weight * (2 if "settings" in c.areas else 1) for c in calls]
    return draw.rng.choices(calls, weights)[0]
