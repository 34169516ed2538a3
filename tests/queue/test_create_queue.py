"""create_queue: settings and their limits, names, and what it says to one that exists."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from support.queue import settings
from support.session import Connect, Session, contents, new_name, refused, unchanged

DEFAULTS = {
    "lease": timedelta(seconds=30),
    "max_attempts": 5,
    "delay": timedelta(0),
    "job_ttl": timedelta(days=14),
    "retention": timedelta(days=14),
    "backoff": timedelta(seconds=1),
    "backoff_max": timedelta(hours=1),
    "backoff_jitter": 0.1,
    "archive": True,
    "notify": False,
    "paused": False,
    "idempotency_window": timedelta(days=1),
    "unique_until": "finished",
    "ordered": False,
    "after_dead_letter": "continue",
    "max_leased": None,
    "rate_limit": None,
    "rate_interval": None,
    "rate_burst": None,
    "max_unfinished": None,
    "max_leased_per_key": None,
    "restricted": False,
    "max_message_bytes": 1048576,
    "on_duplicate": "keep",
    "debounce_max": None,
    "keep_results": False,
}

CHOSEN: dict[str, Any] = {
    "lease": timedelta(minutes=5),
    "max_attempts": 9,
    "delay": timedelta(seconds=3),
    "job_ttl": timedelta(days=3),
    "retention": timedelta(days=2),
    "backoff": timedelta(seconds=7),
    "backoff_max": timedelta(minutes=7),
    "backoff_jitter": 0.5,
    "archive": False,
    "notify": True,
    "idempotency_window": timedelta(hours=1),
    "unique_until": "claimed",
    "ordered": True,
    "after_dead_letter": "stop",
    "max_leased": 7,
    "rate_limit": 20,
    "rate_interval": timedelta(minutes=1),
    "rate_burst": 50,
    "max_unfinished": 1000,
    "max_message_bytes": 20000,
    "keep_results": True,
}

LIMITS = ["max_attempts", "job_ttl", "retention", "max_leased", "rate_limit", "max_unfinished"]

BAD_NAMES = [
    "",
    "a" * 64,
    "two words",
    'quo"te',
    "quo'te",
    "semi;colon",
    "sla/sh",
    "línea",
    "line\n",
    "pg_temp.\x01",
    "$1",
]

BAD_SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("22023", {"lease": "0"}),
    ("22023", {"lease": "-1 second"}),
    ("22023", {"lease": "36501 days"}),
    ("22023", {"max_attempts": 0}),
    ("22023", {"max_attempts": -1}),
    ("22023", {"delay": "-1 second"}),
    ("22023", {"job_ttl": "0"}),
    ("22023", {"job_ttl": "-1 day"}),
    ("22023", {"job_ttl": "36501 days"}),
    ("22023", {"retention": "0"}),
    ("22023", {"retention": "-1 day"}),
    ("22023", {"retention": "36501 days"}),
    ("22023", {"delay": "1 day", "job_ttl": "1 day"}),
    ("22023", {"delay": "2 days", "job_ttl": "1 day"}),
    ("22023", {"delay": "15 days"}),
    ("22023", {"backoff": "-1 second"}),
    ("22023", {"backoff_max": "-1 second"}),
    ("22023", {"backoff_jitter": -0.1}),
    ("22023", {"backoff_jitter": 1.1}),
    ("22023", {"backoff_jitter": float("nan")}),
    ("22023", {"no_limit": ["lease"]}),
    ("22023", {"no_limit": ["max_attempts", None]}),
    ("22023", {"no_limit": ["max_attempts"], "max_attempts": 2}),
    ("22023", {"no_limit": ["job_ttl", "retention"], "job_ttl": "1 day"}),
    ("22023", {"no_limit": ["job_ttl", "retention"], "retention": "1 day"}),
]


@pytest.mark.parametrize("nulls", [{}, {**dict.fromkeys(CHOSEN), "no_limit": None}])
def test_defaults(connection: Session, nulls: dict[str, None]) -> None:
    """A setting that is null has its default, as one that is not given."""
    name = new_name("queue")
    before = datetime.now().astimezone()
    created = connection.create_queue(queue=name, **nulls)
    found = settings(connection, name)
    assert created == tuple(found.values())
    assert found.pop("queue") == name
    made, changed = found.pop("created_at"), found.pop("updated_at")
    assert before <= made <= changed <= datetime.now().astimezone()
    assert found == DEFAULTS


def test_every_setting_is_kept(connection: Session) -> None:
    name = new_name("queue")
    connection.create_queue(queue=name, **CHOSEN)
    found = settings(connection, name)
    assert {setting: found[setting] for setting in CHOSEN} == CHOSEN


@pytest.mark.parametrize("lifted", [[], *([name] for name in LIMITS), LIMITS])
def test_no_limit(connection: Session, lifted: list[str]) -> None:
    """Those that are named have none, the others their default."""
    name = new_name("queue")
    created = connection.create_queue(queue=name, no_limit=lifted)
    found = settings(connection, name)
    assert created == tuple(found.values())
    assert {setting: found[setting] for setting in DEFAULTS} == {
        **DEFAULTS,
        **dict.fromkeys(lifted),
    }


# ---------------------------------------------------------------------------- what exists


def test_one_that_exists_is_returned(connection: Session) -> None:
    """As it is, if it has the settings that are given; what is not given is not compared."""
    name = new_name("queue")
    created = connection.create_queue(queue=name, **CHOSEN)
    connection.execute("select pgq.pause_queue(%s)", [name])
    expected = created._replace(paused=True)
    before = contents(connection)
    for given in ({}, *({setting: value} for setting, value in CHOSEN.items()), CHOSEN):
        assert connection.create_queue(queue=name, **given) == expected, given
    assert connection.create_queue(queue=name, **dict.fromkeys(CHOSEN)) == expected
    assert contents(connection) == before


def test_what_it_is_now_is_compared(connection: Session, queue: str) -> None:
    """Not what it was created with."""
    connection.alter_queue(queue=queue, lease="1 hour", no_limit=["retention"])
    found = connection.create_queue(queue=queue, lease="1 hour", no_limit=["retention"])
    assert found == tuple(settings(connection, queue).values())
    with unchanged(connection):
        refused("MQ005", connection.create_queue, queue=queue, lease="30 seconds")


OTHERS: dict[str, tuple[Any, str, str]] = {
    "lease": ("1 minute", "00:01:00", "00:05:00"),
    "max_attempts": (5, "5", "9"),
    "delay": ("0", "00:00:00", "00:00:03"),
    "job_ttl": ("14 days", "14 days", "3 days"),
    "retention": ("50 hours", "50:00:00", "2 days"),
    "backoff": ("0", "00:00:00", "00:00:07"),
    "backoff_max": ("1 hour", "01:00:00", "00:07:00"),
    "backoff_jitter": (0, "0", "0.5"),
    "archive": (True, "true", "false"),
    "notify": (False, "false", "true"),
    "idempotency_window": ("2 hours", "02:00:00", "01:00:00"),
    "unique_until": ("removed", "removed", "claimed"),
    "ordered": (False, "false", "true"),
    "after_dead_letter": ("continue", "continue", "stop"),
    "max_leased": (8, "8", "7"),
    "rate_limit": (21, "21", "20"),
    "rate_interval": ("1 second", "00:00:01", "00:01:00"),
    "rate_burst": (1, "1", "50"),
    "max_unfinished": (1, "1", "1000"),
    "max_message_bytes": (20001, "20001", "20000"),
    "keep_results": (False, "false", "true"),
}


def test_every_declared_setting_is_tried(connection: Session) -> None:
    declared = connection.execute("select name from unnest(pgq._queue_settings())").fetchall()
    assert {name for (name,) in declared} == {
        *CHOSEN,
        *("max_leased_per_key", "on_duplicate", "debounce_max"),
    }


def test_each_setting_that_differs_is_named(connection: Session) -> None:
    """With what was given and what the queue has, and with what to do; nothing changes."""
    name = new_name("queue")
    connection.create_queue(queue=name, **CHOSEN)
    assert [*OTHERS] == [*CHOSEN]
    for setting, (other, given, has) in OTHERS.items():
        # those that agree are not named
        arguments = {"queue": name, **CHOSEN, setting: other}
        with unchanged(connection):
            error = refused("MQ005", connection.create_queue, **arguments)
        assert f'"{name}"' in str(error.diag.message_primary)
        assert error.diag.message_detail == f"{setting}: given {given}, has {has}."
        assert "pgq.alter_queue" in str(error.diag.message_hint)
    others = {setting: other for setting, (other, _, _) in OTHERS.items()}
    error = refused("MQ005", connection.create_queue, queue=name, **others)
    assert error.diag.message_detail == (
        "; ".join(f"{s}: given {given}, has {has}" for s, (_, given, has) in sorted(OTHERS.items()))
        + "."
    )


def test_a_limit_that_is_lifted_is_compared(connection: Session) -> None:
    """Where there is none and one is given, and the other way round."""
    limited, unlimited = new_name("queue"), new_name("queue")
    connection.create_queue(queue=limited, **CHOSEN)
    connection.create_queue(queue=unlimited, no_limit=LIMITS)
    for setting in LIMITS:
        connection.create_queue(queue=unlimited, no_limit=[setting])
        _, _, has = OTHERS[setting]
        for queue, given, detail in (
            (limited, {"no_limit": [setting]}, f"given no limit, has {has}"),
            (unlimited, {setting: CHOSEN[setting]}, f"given {has}, has no limit"),
        ):
            with unchanged(connection):
                error = refused("MQ005", connection.create_queue, queue=queue, **given)
            assert error.diag.message_detail == f"{setting}: {detail}."


def test_a_setting_that_the_defaults_would_not_bear(connection: Session) -> None:
    """What is given is compared with what the queue has, not with what a new one would have."""
    patient, ordered, limited = (new_name("queue") for _ in range(3))
    for queue, first, again in (
        (patient, {"job_ttl": "30 days", "delay": "20 days"}, {"delay": "20 days"}),
        (ordered, {"ordered": True}, {"max_leased_per_key": 3}),
        (limited, {"rate_limit": 5}, {"rate_interval": "1 second"}),
    ):
        connection.create_queue(queue=queue, **first)
        with unchanged(connection):
            if queue == ordered:
                refused("MQ005", connection.create_queue, queue=queue, ordered=True, **again)
            else:
                assert connection.create_queue(queue=queue, **again).queue == queue
    with unchanged(connection):
        refused("MQ005", connection.create_queue, queue=patient, delay="40 days")


def test_bad_arguments_are_refused_before(connection: Session, queue: str) -> None:
    """What no queue can have is not compared with what this one has."""
    with unchanged(connection):
        refused("22023", connection.create_queue, queue=queue, lease="0")
    with unchanged(connection):
        refused("22023", connection.create_queue, queue=queue, no_limit=["lease"])


# ---------------------------------------------------------------------------- names


def test_names(connection: Session) -> None:
    for name in ("a", "Z", "0", ".", "-", "_", "select", "A.b-c_9", "x" * 63):
        connection.create_queue(queue=name)
        connection.execute("select pgq.drop_queue(%s)", [name])
    for name in BAD_NAMES:
        with unchanged(connection):
            refused("22023", connection.create_queue, queue=name)
    with unchanged(connection):
        refused("22004", connection.create_queue, queue=None)


def test_names_differ_by_case(connection: Session) -> None:
    name = new_name("queue")
    connection.create_queue(queue=name)
    connection.create_queue(queue=name.upper())


@pytest.mark.parametrize(("sqlstate", "bad"), BAD_SETTINGS)
def test_bad_settings(connection: Session, sqlstate: str, bad: dict[str, Any]) -> None:
    with unchanged(connection):
        refused(sqlstate, connection.create_queue, queue=new_name("queue"), **bad)


def test_two_in_one_transaction(connect: Connect) -> None:
    connection = connect()
    first, second = new_name("queue"), new_name("queue")
    connection.create_queue(queue=first)
    connection.create_queue(queue=second, retention="5 hours")
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.create_queue(queue=first, retention="5 hours")
    assert caught.value.sqlstate == "MQ005"
    assert connection.create_queue(queue=first, retention="14 days")
    connection.commit()
    assert settings(connection, first)["retention"] == timedelta(days=14)
    assert settings(connection, second)["retention"] == timedelta(hours=5)


def test_rollback_leaves_nothing(connect: Connect) -> None:
    connection = connect()
    name = new_name("queue")
    connection.create_queue(queue=name)
    connection.rollback()
    connection.create_queue(queue=name)
    connection.commit()
