"""Several create one topic, or one group: one of them makes it, the others are told what it is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.log import committed_offsets, new_topic, newest
from support.session import Connect, Session, new_name, unchanged
from support.snapshots import LEVELS, old_session
from support.waiting import PATIENCE, aside, blocked

Settings = dict[str, Any]

FIRST: dict[str, Settings] = {
    "topic": {"partitions": 3, "no_limit": ["retention"]},
    "group": {"out_of_range": "skip"},
}
# what the second one gives beside such a first one, and whether that agrees
SECONDS: list[tuple[str, Settings, bool]] = [
    ("topic", {}, True),
    ("topic", {"partitions": 3}, True),
    ("topic", {"no_limit": ["retention", "max_bytes"], "notify": False}, True),
    ("topic", {"partitions": 5}, False),
    ("topic", {"partitions": 3, "retention": "7 days"}, False),
    ("group", {}, True),
    ("group", {"start": "latest"}, True),
    ("group", {"start": "latest", "out_of_range": "skip"}, True),
    ("group", {"out_of_range": "error"}, False),
]
both = pytest.mark.parametrize("kind", FIRST)
seconds = pytest.mark.parametrize(("kind", "given", "agrees"), SECONDS)


def names_of(log: Session, kind: str) -> dict[str, str]:
    """The names of a topic that is not there yet, or of a group of a topic with messages."""
    if kind == "topic":
        return {"topic": new_name("topic")}
    return {"topic": new_topic(log, partitions=2, messages=2, groups=()), "consumer_group": "g"}


def create(session: Session, kind: str, names: dict[str, str], settings: Settings) -> Any:
    """What is returned, or the code of the error."""
    try:
        return getattr(session, f"create_{kind}")(**names, **settings)
    except psycopg.Error as error:
        return error.sqlstate


def listed(log: Session, kind: str, names: dict[str, str]) -> Any:
    """What there is of that name; it has all that belongs to it, once."""
    if kind == "topic":
        [found] = [row for row in log.list_topics() if row.topic == names["topic"]]
        assert len(log.list_offsets(**names)) == found.partitions
        log.publish(**names, payload=1, partition=found.partitions - 1)
        assert newest(log, names["topic"], found.partitions - 1) == 1
    else:
        [found] = log.list_groups(topic=names["topic"])
        assert len(committed_offsets(log, **names)) == 2
    return found


@seconds
def test_the_second_waits_for_the_first(
    shared_connect: Connect, log: Session, kind: str, given: Settings, agrees: bool
) -> None:
    """Then it is told what the first one has made."""
    names = names_of(log, kind)
    first, second = shared_connect(), shared_connect(autocommit=True)
    made = create(first, kind, names, FIRST[kind])
    waiting = blocked(log, second, lambda: create(second, kind, names, given))
    first.commit()
    assert waiting.result(PATIENCE) == (made if agrees else "MQ005")
    assert listed(log, kind, names) == made
    if kind == "group":
        assert committed_offsets(log, **names) == [0, 0]


@seconds
def test_the_second_makes_it_when_the_first_gives_up(
    shared_connect: Connect, log: Session, kind: str, given: Settings, agrees: bool
) -> None:
    """All of it is as the second one says, and nothing of the first is left."""
    names = names_of(log, kind)
    first, second = shared_connect(), shared_connect(autocommit=True)
    create(first, kind, names, FIRST[kind])
    waiting = blocked(log, second, lambda: create(second, kind, names, given))
    first.rollback()
    made = waiting.result(PATIENCE)
    assert listed(log, kind, names) == made
    if kind == "topic":
        assert made.partitions == given.get("partitions", 8)
        assert (made.retention is None) is ("no_limit" in given)
    else:
        assert made.out_of_range == given.get("out_of_range", "error")
        assert committed_offsets(log, **names) == ([2, 2] if "start" in given else [0, 0])


@both
def test_many_at_once(shared_connect: Connect, log: Session, kind: str) -> None:
    """Each at the start of its application: all get the same one."""
    names = names_of(log, kind)
    sessions = [shared_connect(autocommit=True) for _ in range(6)]
    answers = [
        aside(lambda session=session: create(session, kind, names, FIRST[kind]))
        for session in sessions
    ]
    assert {answer.result(PATIENCE) for answer in answers} == {listed(log, kind, names)}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("waits", [True, False])
@seconds
def test_one_that_was_made_since_the_snapshot(
    shared_connect: Connect,
    log: Session,
    kind: str,
    given: Settings,
    agrees: bool,
    waits: bool,
    level: str,
) -> None:
    """It cannot be seen, so the transaction begins anew, and is told what there is."""
    names = names_of(log, kind)
    first, late = (
        shared_connect(),
        old_session(lambda **options: shared_connect(**options).connection, level),
    )
    made = create(first, kind, names, FIRST[kind])
    if waits:
        waiting = blocked(log, late, lambda: create(late, kind, names, given))
        first.commit()
        assert waiting.result(PATIENCE) == "40001"
    else:
        first.commit()
        assert create(late, kind, names, given) == "40001"
    late.rollback()
    with unchanged(log):
        assert create(late, kind, names, given) == (made if agrees else "MQ005")
        late.rollback()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
@both
def test_one_that_was_dropped_since_the_snapshot(
    shared_connect: Connect, log: Session, kind: str, again: bool, level: str
) -> None:
    """What the snapshot shows of it is not the answer: it is there afterwards, as was said."""
    names = names_of(log, kind)
    create(log, kind, names, FIRST[kind])
    late = old_session(shared_connect, level)
    getattr(log, f"drop_{kind}")(**names)
    if again:
        create(log, kind, names, {})
    assert create(late, kind, names, FIRST[kind]) == "40001"
    late.rollback()
    made = create(late, kind, names, {})
    late.commit()
    assert made == listed(log, kind, names)


@pytest.mark.parametrize("level", LEVELS)
@both
def test_one_that_was_altered_since_the_snapshot(
    shared_connect: Connect, log: Session, kind: str, level: str
) -> None:
    """It is compared as the transaction sees it, which comes before the change; then by that."""
    names = names_of(log, kind)
    made = create(log, kind, names, FIRST[kind])
    late = old_session(shared_connect, level)
    change = {"topic": {"partitions": 5}, "group": {"out_of_range": "error"}}[kind]
    altered = getattr(log, f"alter_{kind}")(**names, **change)
    assert create(late, kind, names, FIRST[kind]) == made
    late.commit()
    assert listed(log, kind, names) == altered
    assert create(late, kind, names, FIRST[kind]) == "MQ005"
    late.rollback()
    assert create(late, kind, names, change) == altered
