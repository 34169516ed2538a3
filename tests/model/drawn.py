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
    "delays",
    "groups",
    "labels",
    "leases",
    "limited",
    "lives",
    "members",
    "once",
    "partitions",
    "priorities",
    "queues",
    "seconds",
    "seldom",
    "sizes",
    "steps",
    "topics",
    "uniques",
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
# an idempotency key
once = st.sampled_from([None, None, None, None, "first", "second"])
members = st.sampled_from([0, 1])
topics = st.sampled_from(TOPICS)
groups = st.sampled_from(GROUPS)
queues = st.sampled_from(QUEUES)
labels = st.sampled_from([None, None, *LABELS])
uniques = st.sampled_from([None, None, "one", "other"])
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
