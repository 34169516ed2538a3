"""A short fault run of each scene; and its checks, which must find each fault that is planted.

``make faults`` runs longer, and CONTRIBUTING.md says how.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fault_runs.check_house import check_house
from fault_runs.evidence import Evidence, read_journals
from fault_runs.faults import FAR, Breaker
from fault_runs.journal import Journal
from fault_runs.planted import PLANTED, copy
from fault_runs.round import check, fault_times, play, play_round, settle
from fault_runs.scenes import SCENES, missing_for
from fault_runs.stage import Stage
from support.clock import Clock
from support.session import Session
from support.waiting import aside, wait_until_blocked

pytestmark = pytest.mark.slow

SECONDS = {"server": 15.0, "standby": 6.0, "time": 6.0, "disk": 6.0, "spark": 15.0}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the account of a server can come to, which it cannot in those of pytest."""
    with tempfile.TemporaryDirectory(prefix="pgq-faults-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(
    "scene", [pytest.param(s, marks=pytest.mark.long) if s == "spark" else s for s in SCENES]
)
def test_no_fault_breaks_a_promise(folder: Path, scene: str) -> None:
    if missing := missing_for(scene):
        pytest.skip(missing)
    outcome = play_round(scene, SECONDS[scene], "7", folder / scene)
    assert not outcome.violations, "\n".join(map(str, outcome.violations[:20]))
    assert sum(outcome.faults.values()) > 0
    assert sum(n for what, n in outcome.units.items() if what.endswith(" done")) > 200


def test_a_round_ends_though_the_clock_hides_a_deadlock(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that steps back puts off the timers of a waiting session, also that for deadlocks."""
    if missing := missing_for("time"):
        pytest.skip(missing)
    monkeypatch.setattr("fault_runs.round.PATIENCE", 60.0)
    with (
        Stage(SCENES["time"], folder / "deadlock", "7") as stage,
        stage.observe() as observer,
        psycopg.connect(stage.direct) as one,
        psycopg.connect(stage.direct) as other,
    ):
        breaker = Breaker(stage, "7", Journal(stage.folder / "faults"))
        stage.step_server_clock(FAR)
        [(told,)] = observer.execute("select extract(epoch from clock_timestamp())").fetchall()
        assert float(told) - time.time() > FAR / 2
        observer.execute("create table elsewhere ()")
        other.execute("set deadlock_timeout = '20s'")
        one.execute("lock table elsewhere")
        # publishers wait for this one
        other.execute("lock table pgq.topic")
        for session, table in ((one, "pgq.topic"), (other, "elsewhere")):
            aside(partial(session.execute, f"lock table {table}".encode()))
            wait_until_blocked(observer, session.info.backend_pid)
        stage.step_server_clock(0)
        assert settle(stage, breaker) == []


# ---------------------------------------------------------------------------- planted faults


@pytest.fixture(scope="module")
def stage(folder: Path) -> Iterator[Stage]:
    """A round that has ended, with all its journals."""
    quiet = replace(SCENES["server"], faults={"client": 4, "cut": 1})
    with Stage(quiet, folder / "planted", "7") as stage:
        breaker = play(stage, 8, "7")
        assert settle(stage, breaker) == []
        stage.pooler.kill()
        yield stage


_numbers = itertools.count()


@pytest.fixture
def evidence(stage: Stage) -> Iterator[tuple[Evidence, Session]]:
    """The journals of the round, and a copy of its database."""
    name = f"planted_{next(_numbers)}"
    elsewhere = make_conninfo(stage.direct, dbname="template1")
    with psycopg.connect(elsewhere, autocommit=True) as connection:
        connection.execute(f"create database {name} template postgres".encode())
    dsn = stage.server.dsn_for(name)
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        Session.connect(dsn, autocommit=True) as session,
    ):
        yield (
            Evidence(
                read_journals(stage.folder / "journals"),
                fault_times(stage.folder / "faults"),
                connection,
            ),
            session,
        )


def kinds(evidence: Evidence) -> Counter[str]:
    """What the checks find, by kind."""
    check(evidence)
    check_house(evidence, Clock(evidence.connection.info.dsn))
    return Counter(violation.kind for violation in evidence.violations)


def test_nothing_is_found_where_nothing_is_wrong(evidence: tuple[Evidence, Session]) -> None:
    assert kinds(evidence[0]) == Counter(), evidence[0].violations


def test_nothing_is_found_in_copies_as_they_should_be(evidence: tuple[Evidence, Session]) -> None:
    copy(*evidence, lambda payloads: None)
    assert kinds(evidence[0]) == Counter(), evidence[0].violations


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(evidence: tuple[Evidence, Session], name: str) -> None:
    planted = PLANTED[name]
    planted.plant(*evidence)
    assert planted.kind in kinds(evidence[0]), evidence[0].violations
