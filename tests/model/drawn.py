"""What the steps of the model test are drawn from."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

__all__ = [
    "GROUPS",
    "KEYS",
    "LABELS",
    "MODES",
    "QUEUES",
    "TOPICS",
    "choices",
    "dead_ends",
    "dead_letters",
    "delays",
    "groups",
    "labels",
    "late",
    "leases",
    "letters_of",
    "limited",
    "limits",
    "lives",
    "members",
    "once",
    "other_topic",
    "partitions",
    "priorities",
    "queues",
    "seconds",
    "seldom",
    "sizes",
    "steps",
    "topics",
    "turns",
    "uniques",
    "windows",
]

TOPICS = ["blue", "red"]
GROUPS = ["even", "odd"]
QUEUES = ["mail", "work"]
KEYS = ["a", "b", "c", "d"]
LABELS = ["rare", "usual"]
MODES = ["finished", "claimed", "removed"]

seconds = st.sampled_from([1, 10, 60]).map(lambda n: timedelta(seconds=n))
leases = st.one_of(st.none(), seconds)
delays = st.one_of(st.none(), st.none(), seconds)
# how long something is kept, or lives; None: for ever
lives = st.sampled_from([timedelta(minutes=10), timedelta(hours=1), None])
# how many at most; None: the default
sizes = st.sampled_from([1, 2, 3, 100, None])
# how long idempotency keys count
windows = st.sampled_from([10, 600, 86400]).map(lambda n: timedelta(seconds=n))
# an idempotency key
once = st.sampled_from([None, None, None, None, "first", "second"])
members = st.sampled_from([0, 1])
# whether a topic is deferred
late = st.sampled_from([None, False, True])
topics = st.sampled_from(TOPICS)
groups = st.sampled_from(GROUPS)
queues = st.sampled_from(QUEUES)
labels = st.sampled_from([None, None, *LABELS])
uniques = st.sampled_from([None, None, "one", "other"])
# the keys of jobs, by which an ordered queue has them follow each other
turns = st.sampled_from([None, "k", "k", "l"])
dead_ends = st.sampled_from([None, "continue", "stop", "stop"])
# of queues, with what a duplicate does: rate_interval and rate_burst are given as the model has to
# know them
limits: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        *({}, {}, {}, {"max_leased": 2}, {"max_unfinished": 6}),
        {"max_leased": 3, "max_unfinished": 20},
        *({"max_leased_per_key": 1}, {"max_leased_per_key": 1}, {"max_leased_per_key": 2}),
        {"max_leased_per_key": 1, "max_leased": 2},
        {"rate_limit": 2, "rate_interval": timedelta(seconds=10), "rate_burst": 3},
        {"on_duplicate": "replace", "keep_results": True, "max_leased": 4},
        *({"on_duplicate": "replace"}, {"on_duplicate": "postpone"}),
    ]
)
# how often a group may fail, and whether its dead letters have where to go: elsewhere they do not
dead_letters = st.sampled_from(
    [
        *[(None, None)] * 5,
        *((1, "other"), (2, "other"), (2, "other"), (3, "other")),
        *((2, None), (None, "other"), (0, "other"), (2, "same"), (2, "none")),
    ]
)
priorities = st.sampled_from([None, 0, 0, 1, 9])
partitions = st.sampled_from([None, None, None, 0, 1, 2])
seldom = st.sampled_from([False] * 7 + [True])
steps = st.sampled_from([0, 0, 0, -1, 1, -5, 5])
# which of several things that only the run knows: what is drawn must not depend on the database
choices = st.integers(0, 11)


def limited(**settings: Any) -> dict[str, Any]:
    """Settings that may have no limit, as arguments: None is said by ``no_limit``."""
    given = {name: value for name, value in settings.items() if value is not None}
    return {**given, "no_limit": [name for name in settings if name not in given]}


def other_topic(topic: str) -> str:
    """To which its groups send what they give up."""
    return TOPICS[1 - TOPICS.index(topic)]


def letters_of(topic: str, drawn: tuple[int | None, str | None]) -> dict[str, Any]:
    """The settings of dead letters of a group, those that are given."""
    attempts, where = drawn
    names = {"other": other_topic(topic), "same": topic, "none": "nowhere"}
    given = {"max_attempts": attempts, "dead_letter_topic": names.get(where or "")}
    return {name: value for name, value in given.items() if value is not None}
