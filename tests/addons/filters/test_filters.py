"""What a filter takes: the same for all four calls."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.databases import Databases
from support.filters import (
    BY_FILTER,
    LETTERS,
    add_one,
    at,
    meant,
    names_of_times,
    taken_by,
    walk,
)
from support.house import load_pgq
from support.queue import new_queue
from support.session import Session, refused, row, unchanged

EVERY = pytest.mark.parametrize("function", BY_FILTER)

JOBS: dict[str, dict[str, Any]] = {
    "a": {"label": "x", "error": "timeout at 50%"},
    "b": {"label": "y", "error": "timeout at 5"},
    "c": {},
    "d": {"label": "x", "error": "Straße 漢: a_b.c\\d"},
    "e": {"label": "X"},
    "f": {"error": "x"},
}

FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"label": "x"}, "ad"),
    ({"label": "X"}, "e"),
    ({"label": "nobody's"}, ""),
    ({"error_contains": "timeout"}, "ab"),
    ({"error_contains": "timeout at 5"}, "ab"),
    ({"error_contains": "TIMEOUT"}, ""),
    ({"error_contains": "%"}, "a"),
    ({"error_contains": "t%t"}, ""),
    ({"error_contains": "_"}, "d"),
    ({"error_contains": "."}, "d"),
    ({"error_contains": ".*"}, ""),
    ({"error_contains": "\\d"}, "d"),
    ({"error_contains": "ß"}, "d"),
    ({"error_contains": "漢"}, "d"),
    ({"error_contains": " "}, "abd"),
    ({"label": "x", "error_contains": "timeout"}, "a"),
    ({"label": "y", "error_contains": "ß"}, ""),
    ({"label": "x", "error_contains": None, "key": None, "max_jobs": None}, "ad"),
]


@EVERY
def test_labels_and_errors(connection: Session, function: str) -> None:
    """Both as a whole, letter for letter; jobs of another queue with the same are not its."""
    queue, other = new_queue(connection), new_queue(connection)
    made = {}
    for name, job in JOBS.items():
        add_one(connection, function, other, **job)
        made[name] = add_one(connection, function, queue, **job)
    others = meant(connection, function, other)
    assert len(others) == len(JOBS)
    for given, expected in FILTERS:
        taken, result = taken_by(connection, function, queue, **given)
        assert taken == {made[name] for name in expected}, given
        assert (result.seen, result.after_id) == (len(JOBS), None), given
    taken, result = taken_by(connection, function, queue, all_jobs=True)
    assert (taken, result.seen) == (set(made.values()), len(JOBS))
    connection.call(function, queue=queue, label="x")
    assert meant(connection, function, other) == others


@EVERY
def test_times(connection: Session, function: str) -> None:
    """From the first on, and before the second: one that is met exactly is in the first alone."""
    queue = new_queue(connection)
    ids = [add_one(connection, function, queue, label="x") for _ in range(3)]
    table, column = ("dead_job", "died_at") if function in LETTERS else ("job", "visible_at")
    times = [at("10:00"), at("11:00"), at("12:00")]
    for job_id, time in zip(ids, times, strict=True):
        connection.execute(
            f"update pgq.{table} set {column} = %s where job_id = %s".encode(), [time, job_id]
        )
    since, before = names_of_times(function)
    for given, expected in (
        ({since: times[1]}, ids[1:]),
        ({before: times[1]}, ids[:1]),
        ({since: times[0], before: times[2]}, ids[:2]),
        ({since: times[1], before: times[1]}, []),
        ({since: times[2], before: times[0]}, []),
        ({since: "infinity"}, []),
        ({since: "-infinity", before: "infinity"}, ids),
        ({since: times[1], "label": "y"}, []),
        ({since: times[1], "label": "x", "max_jobs": 1}, ids[1:2]),
    ):
        taken, _ = taken_by(connection, function, queue, **given)
        assert taken == set(expected), given


@EVERY
def test_keys(connection: Session, function: str) -> None:
    queue = new_queue(connection, ordered=True)
    other = new_queue(connection, ordered=True)
    made = {
        key: add_one(connection, function, queue, key=key, label="x", error="no")
        for key in ("k", "l", "K")
    }
    add_one(connection, function, other, key="k")
    assert taken_by(connection, function, queue, key="k")[0] == {made["k"]}
    assert taken_by(connection, function, queue, key="k", label="x")[0] == {made["k"]}
    assert taken_by(connection, function, queue, key="k", error_contains="yes")[0] == set()
    assert taken_by(connection, function, queue, key="none")[0] == set()
    assert taken_by(connection, function, queue, key="")[0] == set()


@EVERY
@pytest.mark.parametrize("settings", [{}, {"max_leased_per_key": 1}])
def test_keys_need_an_ordered_queue(
    connection: Session, function: str, settings: dict[str, int]
) -> None:
    queue = new_queue(connection, **settings)
    add_one(connection, function, queue, key="k", label="x")
    with unchanged(connection):
        error = refused("22023", connection.call, function, queue=queue, key="k", label="x")
    assert queue in str(error.diag.message_detail)
    assert "label" in str(error.diag.message_hint)


@EVERY
@pytest.mark.parametrize("max_jobs", [1, 2, 3, 7, 8])
def test_a_walk_in_parts(connection: Session, function: str, max_jobs: int) -> None:
    """Each job once, in the order of the ids, whatever stands between them."""
    queue, other = new_queue(connection), new_queue(connection)
    ids = []
    for number in range(7):
        add_one(connection, function, other, label="x")
        ids.append(add_one(connection, function, queue, label="x"))
        add_one(connection, function, queue, label=f"y{number}")
    given: dict[str, Any] = {"queue": queue, "label": "x", "max_jobs": max_jobs}
    left = meant(connection, function, queue)
    after_id = None
    seen = []
    while True:
        result = connection.call(function, **given, after_id=after_id)
        now = meant(connection, function, queue)
        part, left = sorted(left - now), now
        assert part == ids[len(seen) :][:max_jobs]
        assert result.taken == len(part)
        seen += part
        after_id = result.after_id
        if after_id is None:
            break
        assert after_id == seen[-1], "no job behind the last one that was taken was looked at"
    assert seen == ids
    assert len(left) == 7


@EVERY
def test_a_walk_counts_each_job_once(connection: Session, function: str) -> None:
    queue = new_queue(connection)
    for number in range(9):
        add_one(connection, function, queue, label="xy"[number % 2])
    for most in range(1, 6):
        results = walk(connection, function, queue=queue, label="x", max_jobs=most, dry_run=True)
        assert sum(result.taken for result in results) == 5
        assert sum(result.seen for result in results) == 9
        assert all(result.taken == most for result in results[:-1])


@EVERY
def test_from_an_id_on(connection: Session, function: str) -> None:
    """Those with a higher id than after_id are looked at."""
    queue = new_queue(connection)
    ids = [add_one(connection, function, queue, label="x") for _ in range(3)]
    for after_id, expected in (
        (0, ids),
        (ids[0], ids[1:]),
        (ids[2], []),
        (2**63 - 1, []),
    ):
        taken, result = taken_by(connection, function, queue, label="x", after_id=after_id)
        assert taken == set(expected)
        assert (result.seen, result.after_id) == (len(expected), None)


@EVERY
def test_a_dry_run(connection: Session, function: str) -> None:
    """It changes nothing, and says what the call takes then."""
    queue = new_queue(connection)
    for number in range(5):
        add_one(connection, function, queue, label="xy"[number % 2])
    for given in ({"label": "x"}, {"label": "x", "max_jobs": 2}, {"label": "z"}):
        call: dict[str, Any] = {"queue": queue, **given}
        with connection.transaction(force_rollback=True):
            with unchanged(connection):
                said = connection.call(function, **call, dry_run=True)
            assert connection.call(function, **call) == said


@EVERY
def test_all_of_a_dry_run(connection: Session, function: str) -> None:
    """all_jobs, or dead_only for a purge, may be asked as well, and walked in parts."""
    queue = new_queue(connection)
    for _ in range(5):
        add_one(connection, function, queue)
    which = "dead_only" if function == "purge_queue" else "all_jobs"
    given: dict[str, Any] = {"queue": queue, which: True}
    with unchanged(connection):
        assert connection.call(function, **given, dry_run=True) == (5, 5, None)
    first = connection.call(function, **given, max_jobs=2, after_id=0)
    assert (first.taken, first.after_id is None) == (2, False)
    assert connection.call(function, **given, after_id=first.after_id) == (3, 3, None)


BAD: list[dict[str, Any]] = [
    {},
    {"all_jobs": False},
    {"all_jobs": True, "label": "x"},
    {"all_jobs": True, "error_contains": "x"},
    {"max_jobs": 1},
    {"after_id": 1},
    {"dry_run": True},
    {"label": "x", "after_id": -1},
    {"label": "x", "max_jobs": 0},
    {"label": "x", "max_jobs": -1},
    {"label": "x", "max_jobs": 1000001},
    {"error_contains": ""},
    {"label": "x" * 1000},
]


@EVERY
def test_bad_arguments(connection: Session, function: str) -> None:
    queue = new_queue(connection)
    add_one(connection, function, queue, label="x", error="x")
    with unchanged(connection):
        for given in BAD:
            refused("22023", connection.call, function, queue=queue, **given)
        refused("22004", connection.call, function, queue=None, label="x")
        refused("MQ002", connection.call, function, queue="nowhere", label="x")
        refused("MQ002", connection.call, function, queue="nowhere", key="x")
    assert connection.call(function, queue=queue, label="x", max_jobs=1000000).taken == 1


def test_arguments_that_exclude_each_other(connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    letter = add_one(connection, "redrive", queue, label="x")
    filters: list[dict[str, Any]] = [{"label": "x"}, {"died_before": "infinity"}]
    more: list[dict[str, Any]] = [{"max_jobs": 1}, {"after_id": 0}, {"dry_run": True}]
    with unchanged(connection):
        for given in (*filters, *more, {"per_second": 1}):
            refused("22023", connection.redrive, queue=queue, job_id=letter, **given)
        for given in (*filters, *more):
            refused("22023", connection.purge_queue, queue=queue, job_id=letter, **given)
            refused("22023", connection.purge_queue, queue=queue, all_jobs=True, **given)
        for given in filters:
            refused("22023", connection.purge_queue, queue=queue, dead_only=True, **given)
        for rate in (0, 0.0009, -1, 1000001, "NaN", "infinity"):
            refused("22023", connection.redrive, queue=queue, label="x", per_second=rate)


@EVERY
def test_an_encoding_of_one_byte(databases: Databases, function: str) -> None:
    """A search text is compared as the database has it; one that it cannot have is an error."""
    name = databases.name("filters_latin")
    with psycopg.connect(databases.dsn_of("postgres"), autocommit=True) as admin:
        admin.execute(f"drop database if exists {name} with (force)".encode())
        admin.execute(
            f"create database {name} template template0 encoding 'LATIN1' locale 'C'".encode()
        )
        try:
            load_pgq(conninfo=databases.dsn_of(name))
            with Session.connect(
                databases.dsn_of(name), autocommit=True, client_encoding="UTF8"
            ) as session:
                queue = new_queue(session)
                add_one(session, function, queue, error="zu spät", label="grün")
                assert row(session, "show server_encoding") == ("LATIN1",)
                for given, number in (
                    ({"error_contains": "ä"}, 1),
                    ({"error_contains": "Ã"}, 0),
                    ({"label": "grün"}, 1),
                ):
                    assert len(taken_by(session, function, queue, **given)[0]) == number
                refused("22P05", session.call, function, queue=queue, error_contains="漢")
        finally:
            admin.execute(f"drop database {name} with (force)".encode())
