"""What a role has set up goes on in its name: losing access is refused, or ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from addons.access.conftest import acting
from support.session import Session, refused, unchanged

EVE = "pgq_test_eve"
BOB = "pgq_test_bob"


@pytest.fixture
def house(connection: Session) -> Iterator[Session]:
    """A fresh database with a topic and a queue, and two roles that may call everything in it."""
    for role in (EVE, BOB):
        try:
            connection.execute(f"create role {role}")
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the tests' user may not create roles")
        connection.execute(f"grant usage on schema pgq to {role}")
        connection.execute(f"grant execute on all functions in schema pgq to {role}")
    connection.create_topic(topic="t", partitions=1)
    connection.create_topic(topic="src", partitions=1)
    connection.create_queue(queue="q")
    try:
        yield connection
    finally:
        connection.rollback()
        for role in (EVE, BOB):
            connection.execute(f"drop owned by {role}")
            connection.execute(f"drop role {role}")


def by(session: Session, role: str, function: str, **arguments: Any) -> Any:
    """What a function answers to a role."""
    with session.transaction():
        session.execute(f"set local role {role}")
        return session.call(function, **arguments)


def set_up(house: Session, role: str = EVE) -> None:
    """A subscription, a schedule of either kind, and a group with dead letters, by a role."""
    tick = {"payload": 1, "every": "1 hour", "starts_at": "2020-01-01 00:00+00"}
    by(house, role, "subscribe", subscription="s", topic="t", queue="q")
    by(house, role, "create_schedule", schedule="to_topic", topic="t", **tick)
    by(house, role, "create_schedule", schedule="to_queue", queue="q", **tick)
    by(
        house, role, "create_group",
        topic="src", consumer_group="g", max_attempts=1, dead_letter_topic="t",
    )  # fmt: skip


def named(error: psycopg.Error) -> list[str]:
    """The dependents that an error names."""
    assert "end_dependents => true" in (error.diag.message_hint or "")
    return [f"{text}." for text in (error.diag.message_detail or "").rstrip(".").split(". ")]


OF_TOPIC = [
    f'Subscription "s" was made by role "{EVE}".',
    f'Schedule "to_topic" was made by role "{EVE}".',
    f'The dead_letter_topic of group "g" of topic "src" was set by role "{EVE}".',
]
OF_QUEUE = [
    f'Subscription "s" was made by role "{EVE}".',
    f'Schedule "to_queue" was made by role "{EVE}".',
]


@pytest.mark.parametrize("how", ["grant", "alter"])
def test_what_is_closed(house: Session, how: str) -> None:
    """The first grant and restricted => true take access from all others."""
    set_up(house)
    for target, dependents in (({"topic": "t"}, OF_TOPIC), ({"queue": "q"}, OF_QUEUE[1:])):
        [kind] = target
        function, change = f"alter_{kind}", {"restricted": True, **target}
        if how == "grant":
            function, change = "grant_access", {"role": BOB, "access": "admin", **target}
        with unchanged(house):
            error = refused("2BP01", house.call, function, **change)
        assert named(error) == dependents

        house.call(function, **change, end_dependents=True)
    assert_ended(house)


def assert_ended(house: Session) -> None:
    """Nothing flows any more, and nothing was lost."""
    assert house.list_subscriptions() == []
    for schedule in house.list_schedules():
        assert schedule.paused
        assert schedule.last_error == f'42501: role "{EVE}", which made it, lost access'
    [group] = house.list_groups()
    assert (group.max_attempts, group.dead_letter_topic) == (None, None)
    assert house.run_schedules() == []
    house.publish(topic="t", payload=1)
    assert house.claim_job(queue="q") == []


@pytest.mark.parametrize("everything", [False, True], ids=["one", "all"])
def test_a_revoke(house: Session, everything: bool) -> None:
    """Of one topic and queue, or of all; what a grant on * still covers is no matter."""
    topic, queue = ("*", "*") if everything else ("t", "q")
    house.alter_topic(topic="t", restricted=True)
    house.alter_queue(queue="q", restricted=True)
    house.grant_access(role=EVE, access="publish", topic=topic)
    house.grant_access(role=EVE, access="consume", topic=topic)
    house.grant_access(role=EVE, access="publish", queue=queue)
    set_up(house)

    error = refused("2BP01", house.revoke_access, role=EVE, access="consume", topic=topic)
    assert named(error) == OF_TOPIC[:1]
    error = refused("2BP01", house.revoke_access, role=EVE, access="publish", topic=topic)
    assert named(error) == OF_TOPIC[1:]
    assert named(refused("2BP01", house.revoke_access, role=EVE, topic=topic)) == OF_TOPIC
    assert named(refused("2BP01", house.revoke_access, role=EVE, queue=queue)) == OF_QUEUE
    # what it has otherwise is enough
    house.grant_access(role="public", access="admin", topic="*" if topic == "t" else "t")
    with house.transaction(force_rollback=True):
        assert house.revoke_access(role=EVE, topic=topic) is True
    house.revoke_access(role="public", topic="*" if topic == "t" else "t")

    assert house.revoke_access(role=EVE, topic=topic, end_dependents=True) is True
    assert house.revoke_access(role=EVE, queue=queue, end_dependents=True) is True
    assert_ended(house)
    assert house.revoke_access(role=EVE, queue=queue) is False


def test_what_nobody_loses(house: Session) -> None:
    """What the owner has made, what its maker keeps by a membership, and what has ended."""
    set_up(house, house.info.user)
    for restricted in (True, False):
        house.alter_topic(topic="t", restricted=restricted)
        house.alter_queue(queue="q", restricted=restricted)
    house.unsubscribe(subscription="s")

    by(house, EVE, "subscribe", subscription="s", topic="t", queue="q")
    house.execute(f"grant {BOB} to {EVE}")
    house.grant_access(role=BOB, access="consume", topic="t")
    house.grant_access(role=BOB, access="publish", queue="q")
    assert house.list_subscriptions()[0].made_by == EVE
    # a grant to what is restricted takes nothing from others
    house.execute(f"revoke {BOB} from {EVE}")
    house.grant_access(role=BOB, access="admin", topic="t")


def test_who_answers(house: Session) -> None:
    """Who names the target anew, or resumes what nobody answers for; who only alters does not."""
    set_up(house)
    assert [s.made_by for s in (*house.list_subscriptions(), *house.list_schedules())] == [EVE] * 3
    house.alter_schedule(schedule="to_topic", payload=2)
    house.alter_group(topic="src", consumer_group="g", max_attempts=2)
    assert named(refused("2BP01", house.alter_topic, topic="t", restricted=True)) == OF_TOPIC
    house.alter_schedule(schedule="to_topic", topic="t")
    house.alter_group(topic="src", consumer_group="g", dead_letter_topic="t")
    assert named(refused("2BP01", house.alter_topic, topic="t", restricted=True)) == OF_TOPIC[:1]

    house.alter_queue(queue="q", restricted=True, end_dependents=True)
    [schedule] = house.list_schedules(schedule="to_queue")
    assert schedule.made_by == EVE
    with acting(house, EVE):
        refused("MQ009", house.resume_schedule, schedule="to_queue")
    assert house.resume_schedule(schedule="to_queue").made_by is None
    house.revoke_access(role="public", queue="q")


def test_who_restricts(house: Session) -> None:
    """Who has made an open topic or queue, by a membership too, and who administers all."""
    for role, made in ((EVE, "hers"), (BOB, "his")):
        by(house, role, "create_topic", topic=made)
        by(house, role, "create_queue", queue=made)
    for target in ({"topic": "t"}, {"topic": "his"}, {"queue": "q"}, {"queue": "his"}):
        [kind] = target
        with acting(house, EVE):
            error = refused("42501", house.grant_access, role=EVE, access="admin", **target)
            assert error.diag.message_hint
        with acting(house, EVE):
            refused("42501", house.call, f"alter_{kind}", restricted=True, **target)

    house.execute(f"grant {BOB} to {EVE}")
    for target in ({"topic": "hers"}, {"topic": "his"}, {"queue": "hers"}, {"queue": "his"}):
        with acting(house, EVE):
            house.grant_access(role=BOB, access="consume", **target)
            assert (EVE, "admin") in {(g.role, g.access) for g in house.list_access(**target)}
    house.execute(f"revoke {BOB} from {EVE}")

    house.grant_access(role=EVE, access="admin", topic="*")
    assert by(house, EVE, "alter_topic", topic="t", restricted=True).restricted
    assert by(house, EVE, "alter_topic", topic="his", restricted=True).restricted


def test_admins_end_what_is_attached(house: Session) -> None:
    """They see it, without names that are hidden from them."""
    set_up(house)
    by(house, EVE, "create_topic", topic="theirs")
    for target in ({"topic": "t"}, {"queue": "q"}, {"topic": "src"}):
        house.grant_access(role=EVE, access="admin", **target)
    for target, other in (({"topic": "t"}, (None, "t")), ({"queue": "q"}, ("q", None))):
        with acting(house, BOB):
            assert house.list_subscriptions() == []
            refused("MQ011", house.unsubscribe, subscription="s")
        for access in ("monitor", "publish", "consume"):
            house.grant_access(role=BOB, access=access, **target)
        with acting(house, BOB):
            assert house.list_subscriptions() == []
            refused("MQ011", house.unsubscribe, subscription="s")
        house.grant_access(role=BOB, access="admin", **target)
        with acting(house, BOB):
            [found] = house.list_subscriptions()
            assert (found.queue, found.topic, found.made_by) == (*other, EVE)
            house.unsubscribe(subscription="s")
            assert house.list_subscriptions() == []
        if "topic" in target:
            with acting(house, BOB):
                assert [group.consumer_group for group in house.list_groups()] == ["g"]
                lift = {"topic": "src", "consumer_group": "g", "no_limit": ["max_attempts"]}
                with house.transaction(force_rollback=True):
                    refused("MQ001", house.alter_group, **lift, out_of_range="skip")
                assert house.alter_group(**lift).dead_letter_topic is None
        house.revoke_access(role=BOB, **target)
