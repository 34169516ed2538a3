"""Draws trials: every interleaving of two short transactions, and random ones of three."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import cache

from explorer.calls import CALLS, Call
from explorer.draw import JOB_TTLS, RETENTIONS, Draw
from explorer.ending_calls import MODES
from explorer.follow_calls import FOLLOWERS, IN_ORDER
from explorer.keyed_calls import KEYED
from explorer.limit_calls import rate
from explorer.poison_calls import DEAD, POISON
from explorer.script import ENDINGS, HOUSE, LEVELS, Step, Trial
from explorer.themes import theme_of
from explorer.tick_calls import TICKS

__all__ = ["INTERLEAVINGS", "trial_of"]


@cache
def _merges(first: int, second: int) -> tuple[tuple[int, ...], ...]:
    """All orders of so many steps of session 1 and of session 2."""
    length = first + second
    return tuple(
        tuple(1 if place in chosen else 2 for place in range(length))
        for chosen in map(set, itertools.combinations(range(length), first))
    )


USUAL = (*LEVELS, *LEVELS[1:])
"""Snapshots that are old break more than the level at which most work."""

INTERLEAVINGS = len(_merges(3, 3))


def trial_of(
    seed: int,
    name: str,
    areas: tuple[str, ...] = (),
    levels: tuple[str, ...] = (),
    gates: bool = False,
) -> Trial:
    """The trial of this name: ``r12`` is the random one of number 12, ``p3.7`` the seventh
    interleaving of pair number 3. ``areas`` narrows the calls down, ``levels`` the isolation.
    With ``gates`` some of its calls stop on their way."""
    if gates:
        return _stopping(trial_of(seed, name, areas, levels), random.Random(f"{seed} {name} gates"))
    if name.startswith("p"):
        number, interleaving = name[1:].split(".")
        return _pair(seed, name, int(number), int(interleaving), areas, levels or USUAL)
    return _random(seed, name, areas, levels or USUAL)


def _stopping(trial: Trial, rng: random.Random) -> Trial:
    """The trial with gates at which calls stop, until others have taken some steps."""
    steps = []
    for step in trial.steps:
        gate = rng.randrange(1, rng.choice([4, 16, 16, 64]))
        if step.call not in (*ENDINGS, "look", "move_clock") and rng.random() < 0.4:
            step = replace(step, pause=(gate, rng.choice([1, 2, 3, 5])))
        steps.append(step)
    return replace(trial, steps=tuple(steps))


# ---------------------------------------------------------------------------- set-ups

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


def _setup(draw: Draw, areas: set[str]) -> list[Step]:
    rng = draw.rng
    steps: list[Step] = []

    def house(call: str, /, **arguments: object) -> None:
        steps.append(Step(HOUSE, call, arguments))

    def drawn(call: str) -> None:
        steps.append(Step(HOUSE, call, CALLS[call].draw(draw)))

    draw.limited = "limits" in areas
    draw.mixed = "mixed" in areas
    with_log = bool(areas & {"log", "bulk", "settings", "store", "journal"}) and not draw.mixed
    with_queue = bool(areas & {"queue", "bulk", "settings", "store", "limits"})
    if with_log:
        draw.topics["a"] = rng.choice([1, 1, 2])
        draw.deferred = "deferred" in areas
        house(
            "create_topic",
            topic="a",
            partitions=draw.topics["a"],
            retention=rng.choice(RETENTIONS),
            **({"deferred": True} if draw.deferred else {}),
        )
        if draw.some(0.4):
            draw.topics["b"] = 1
            house("create_topic", topic="b", partitions=1, retention=rng.choice(RETENTIONS))
        for group in ["g", "h"] if draw.some(0.3) else ["g"]:
            house(
                "create_group",
                topic="a",
                consumer_group=group,
                out_of_range=rng.choice(["error", "skip"]),
            )
    if with_queue:
        draw.queues = ["q", "r"] if draw.some(0.4) else ["q"]
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
                **(_limits(draw) if "limits" in areas else {}),
                **({"max_unfinished": rng.choice([2, 3, 5])} if "room" in areas else {}),
                **({"max_leased_per_key": rng.choice([1, 1, 1, 2, 2, None])} if keyed else {}),
            )
    if "poison" in areas:
        for name, partitions in ((POISON, 2), (DEAD, rng.choice([1, 2]))):
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


def _tail(draw: Draw, areas: set[str]) -> list[Step]:
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


# ---------------------------------------------------------------------------- random ones


def _calls(areas: set[str]) -> list[Call]:
    return [c for c in CALLS.values() if c.areas & areas]


def _pick(draw: Draw, calls: list[Call]) -> Call:
    # where settings are called they are called often: as rare as in life they meet nothing
    weights = [c.weight * (2 if "settings" in c.areas else 1) for c in calls]
    return draw.rng.choices(calls, weights)[0]


def _random(seed: int, name: str, areas: tuple[str, ...], some_levels: tuple[str, ...]) -> Trial:
    rng = random.Random(f"{seed} {name}")
    draw = Draw(rng)
    theme = theme_of(draw, areas)
    setup = _setup(draw, theme)
    calls = _calls(theme - {"journal"})
    housework = _calls({"house"} | (theme & {"journal"}))
    levels: list[str | None] = []
    sessions: list[list[Step]] = []
    for number in range(1, rng.choice([3, 4, 4])):
        levels.append(rng.choice(some_levels))
        if "bulk" in theme and LEVELS[0] in some_levels and draw.some(0.4):
            levels[-1] = LEVELS[0]  # commit_write refuses the others
        steps = [Step(number, "look")] if draw.some(0.5) else []
        for _ in range(rng.choice([1, 1, 2, 3, 4])):
            made = _pick(draw, calls)
            if levels[-1] == "read committed" and draw.some(0.08):
                made = CALLS["cleanup"]
            steps.append(Step(number, made.name, made.draw(draw)))
        steps.append(Step(number, "rollback" if draw.some(0.15) else "commit"))
        sessions.append(steps)
    if draw.some(0.75):
        number = len(sessions) + 1
        levels.append(None)
        steps = []
        if "journal" in theme and draw.some(0.7):
            # a journal so long that cleanup trims it
            for made in (_pick(draw, calls), CALLS["fill_journal"], CALLS["cleanup"]):
                steps.append(Step(number, made.name, made.draw(draw)))
        for _ in range(rng.choice([1, 2, 3, 4, 6])):
            if draw.some(0.25):
                # what is open is sealed, what was sealed before is closed
                steps.append(Step(number, "move_clock", {"seconds": 3700}))
                steps.append(Step(number, "cleanup"))
                continue
            made = _pick(draw, housework if draw.some(0.8) else calls)
            steps.append(Step(number, made.name, made.draw(draw)))
        sessions.append(steps)
    return Trial(
        name,
        tuple(levels),
        tuple(setup),
        tuple(_shuffled(rng, sessions)),
        tuple(_tail(draw, theme)),
        rng.choice(["30ms", "10s"]),
    )


def _shuffled(rng: random.Random, sessions: list[list[Step]]) -> list[Step]:
    """The steps of all sessions in one order, each session's in its own."""
    order = [number for number, steps in enumerate(sessions) for _ in steps]
    rng.shuffle(order)
    left = [iter(steps) for steps in sessions]
    return [next(left[number]) for number in order]


# ---------------------------------------------------------------------------- pairs


def _pair(
    seed: int,
    name: str,
    number: int,
    interleaving: int,
    areas: tuple[str, ...],
    some_levels: tuple[str, ...],
) -> Trial:
    rng = random.Random(f"{seed} p{number}")
    draw = Draw(rng)
    theme = theme_of(draw, areas)
    setup = _setup(draw, theme)
    calls = _calls(theme - {"journal"})
    levels: list[str | None] = []
    sessions: list[list[Step]] = []
    for session in (1, 2):
        if session == 2 and draw.some(0.4):
            levels.append(None)
            housework = _calls({"house"} | (theme & {"journal"}))
            others = [_pick(draw, housework if draw.some(0.5) else calls) for _ in range(2)]
            made = [CALLS["cleanup"], *others]
            rng.shuffle(made)
            sessions.append([Step(session, c.name, c.draw(draw)) for c in made])
            continue
        levels.append(rng.choice(some_levels))
        first = CALLS["look"] if draw.some(0.5) else _pick(draw, calls)
        then = _pick(draw, calls)
        sessions.append(
            [
                Step(session, first.name, first.draw(draw)),
                Step(session, then.name, then.draw(draw)),
                Step(session, "rollback" if draw.some(0.1) else "commit"),
            ]
        )
    tail = tuple(_tail(draw, theme))
    order = _merges(3, 3)[interleaving % INTERLEAVINGS]
    left = {1: iter(sessions[0]), 2: iter(sessions[1])}
    return Trial(
        name,
        tuple(levels),
        tuple(setup),
        tuple(next(left[session]) for session in order),
        tail,
        "30ms" if number % 2 else "10s",
    )
