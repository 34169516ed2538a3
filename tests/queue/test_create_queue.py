"""create_queue: settings and their limits, names, and who wins when two create the same."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from jobs import AnyConnection, Connect, call, failure, new_name, refused, settings
from support import backend_pid, wait_until_blocked

DEFAULTS = {
    "lease": timedelta(seconds=30),
    "max_attempts": 5,
    "delay": timedelta(0),
    "retention": timedelta(days=14),
    "backoff": timedelta(seconds=1),
    "backoff_max": timedelta(hours=1),
    "backoff_jitter": 0.1,
    "archive": True,
    "notify": False,
    "paused": False,
}

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
    ("22004", {"lease": None}),
    ("22023", {"max_attempts": 0}),
    ("22023", {"max_attempts": -1}),
    ("22023", {"delay": "-1 second"}),
    ("22004", {"delay": None}),
    ("22023", {"retention": "0"}),
    ("22023", {"retention": "-1 day"}),
    ("22023", {"retention": "36501 days"}),
    ("22023", {"delay": "1 day", "retention": "1 day"}),
    ("22023", {"delay": "2 days", "retention": "1 day"}),
    ("22023", {"delay": "15 days"}),
    ("22023", {"backoff": "-1 second"}),
    ("22004", {"backoff": None}),
    ("22023", {"backoff_max": "-1 second"}),
    ("22004", {"backoff_max": None}),
    ("22023", {"backoff_jitter": -0.1}),
    ("22023", {"backoff_jitter": 1.1}),
    ("22023", {"backoff_jitter": float("nan")}),
    ("22004", {"backoff_jitter": None}),
    ("22004", {"archive": None}),
    ("22004", {"notify": None}),
]


def test_defaults(connection: AnyConnection) -> None:
    name = new_name()
    before = datetime.now().astimezone()
    [created] = call(connection, "create_queue", queue=name)
    found = settings(connection, name)
    assert created == tuple(found.values())
    assert found.pop("queue") == name
    made, changed = found.pop("created_at"), found.pop("updated_at")
    assert before <= made <= changed <= datetime.now().astimezone()
    assert found == DEFAULTS


def test_every_setting_is_kept(connection: AnyConnection) -> None:
    chosen = {
        "lease": timedelta(minutes=5),
        "max_attempts": 9,
        "delay": timedelta(seconds=3),
        "retention": timedelta(days=2),
        "backoff": timedelta(seconds=7),
        "backoff_max": timedelta(minutes=7),
        "backoff_jitter": 0.5,
        "archive": False,
        "notify": True,
    }
    name = new_name()
    call(connection, "create_queue", queue=name, **chosen)
    found = settings(connection, name)
    assert {setting: found[setting] for setting in chosen} == chosen


def test_null_lifts_attempts_and_retention(connection: AnyConnection) -> None:
    name = new_name()
    call(connection, "create_queue", queue=name, max_attempts=None, retention=None)
    found = settings(connection, name)
    assert (found["max_attempts"], found["retention"]) == (None, None)


def test_an_existing_queue_stays_as_it_is(connection: AnyConnection, queue: str) -> None:
    refused(connection, "MQ005", "create_queue", queue=queue, lease="1 hour")
    error = failure(connection, "create_queue", queue=queue)
    assert f'"{queue}"' in str(error)
    assert error.diag.message_hint


def test_names(connection: AnyConnection) -> None:
    for name in ("a", "Z", "0", ".", "-", "_", "select", "A.b-c_9", "x" * 63):
        call(connection, "create_queue", queue=name)
        connection.execute("select pgq.drop_queue(%s)", [name])
    for name in BAD_NAMES:
        refused(connection, "22023", "create_queue", queue=name)
    refused(connection, "22004", "create_queue", queue=None)


def test_names_differ_by_case(connection: AnyConnection) -> None:
    name = new_name()
    call(connection, "create_queue", queue=name)
    call(connection, "create_queue", queue=name.upper())


@pytest.mark.parametrize(("sqlstate", "bad"), BAD_SETTINGS)
def test_bad_settings(connection: AnyConnection, sqlstate: str, bad: dict[str, Any]) -> None:
    refused(connection, sqlstate, "create_queue", queue=new_name(), **bad)


def test_two_in_one_transaction(connect: Connect) -> None:
    connection = connect()
    first, second = new_name(), new_name()
    call(connection, "create_queue", queue=first)
    call(connection, "create_queue", queue=second, retention="5 hours")
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        call(connection, "create_queue", queue=first)
    assert caught.value.sqlstate == "MQ005"
    connection.commit()
    assert settings(connection, first)["retention"] == timedelta(days=14)
    assert settings(connection, second)["retention"] == timedelta(hours=5)


def test_rollback_leaves_nothing(connect: Connect) -> None:
    connection = connect()
    name = new_name()
    call(connection, "create_queue", queue=name)
    connection.rollback()
    call(connection, "create_queue", queue=name)
    connection.commit()


@pytest.mark.parametrize("winner_commits", [True, False])
def test_two_sessions_create_the_same(
    connect: Connect, connection: AnyConnection, winner_commits: bool
) -> None:
    """The second waits for the first and then knows."""
    name = new_name()
    first, second = connect(), connect(autocommit=True)
    call(first, "create_queue", queue=name)
    codes: list[str | None] = []

    def create() -> None:
        try:
            call(second, "create_queue", queue=name)
            codes.append(None)
        except psycopg.Error as error:
            codes.append(error.sqlstate)

    thread = threading.Thread(target=create)
    thread.start()
    wait_until_blocked(connection, backend_pid(second))
    first.commit() if winner_commits else first.rollback()
    thread.join()
    assert codes == ["MQ005" if winner_commits else None]
    assert settings(connection, name)["queue"] == name


def test_a_storage_class_that_vanishes_meanwhile(
    connect: Connect, connection: AnyConnection
) -> None:
    """cleanup forgets a retention that nobody uses just when somebody is about to use it."""
    connection.execute("insert into pgq.storage_class (retention) values ('77 hours')")
    remover, creator = connect(), connect(autocommit=True)
    remover.execute("select from pgq.storage_class where retention = '77 hours' for update")
    name = new_name()
    thread = threading.Thread(
        target=lambda: call(creator, "create_queue", queue=name, retention="77 hours")
    )
    thread.start()
    wait_until_blocked(connection, backend_pid(creator))
    remover.execute("delete from pgq.storage_class where retention = '77 hours'")
    remover.commit()
    thread.join()
    assert settings(connection, name)["retention"] == timedelta(hours=77)
