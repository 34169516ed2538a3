"""A bounded run of the explorer of interleavings; ``make explore`` runs it for longer.

What a failure prints ends with the arguments that replay it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from explorer.access_faults import WRONG_ORDER
from explorer.explore import Explorer, names
from explorer.faults import FAULTS
from explorer.plant import Fault, plant
from support.databases import Databases
from support.waiting import aside, wait_until_blocked

SEED = 1
FOUND_LATE = "a key that a look finds free"
PLANTED = [
    pytest.param(fault, id=name, marks=pytest.mark.long if number % 8 or name == FOUND_LATE else ())
    for number, (name, fault) in enumerate(FAULTS.items())
]
UNTIL_FOUND = 1600
"""Trials within which a planted fault has to be found."""


@pytest.fixture(scope="module")
def explorer(databases: Databases) -> Iterator[Explorer]:
    explorer = Explorer(
        databases.dsn_of("postgres"),
        SEED,
        name=databases.name("explorer"),
        say=lambda told: None,
    )
    yield explorer
    explorer.close()


@pytest.mark.parametrize(
    ("mode", "trials"),
    [
        ("random", 45),
        ("pairs", 40),
        pytest.param("random", 200, marks=pytest.mark.slow),
        pytest.param("pairs", 150, marks=[pytest.mark.slow, pytest.mark.long]),
    ],
)
def test_no_interleaving_breaks_a_promise(explorer: Explorer, mode: str, trials: int) -> None:
    some = itertools.islice(names(mode), trials)
    for finding in explorer.explore(some, seconds=600):
        pytest.fail(str(finding), pytrace=False)


# Between the look and the write nobody comes, unless the call is stopped there.
LOOK_THEN_WRITE = Fault(
    "_take_key",
    """
    declare
        holder_id bigint;
    begin
        select u.job_id into holder_id from pgq.unique_job as u
        where u.queue_id = _take_key.queue_id and u.unique_key = _take_key.unique_key;
        if holder_id is null then
            assert public.gate();
            insert into pgq.unique_job
            values (_take_key.queue_id, _take_key.unique_key, _take_key.job_id, true)
            on conflict do nothing;
        end if;
        return coalesce(holder_id, _take_key.job_id);
    end
    """,
    ("queue", "endings"),
    frozenset({"two of a key", "key not held"}),
)


@pytest.fixture(scope="module")
def stopping(databases: Databases) -> Iterator[Explorer]:
    """Its calls stop between their statements."""
    explorer = Explorer(
        databases.dsn_of("postgres"),
        SEED,
        name=databases.name("stopping"),
        gates=True,
        say=lambda told: None,
    )
    yield explorer
    explorer.close()


@pytest.mark.parametrize("trials", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_no_call_that_stops_breaks_a_promise(stopping: Explorer, trials: int) -> None:
    some = itertools.islice(names("both"), trials)
    for finding in stopping.explore(some, seconds=600):
        pytest.fail(str(finding), pytrace=False)


def test_calls_stop_at_their_gates(stopping: Explorer) -> None:
    """Most of those that are to stop; some end before they have come so far."""
    logs = [line for n in range(8) for line in stopping.run(stopping.trial(f"r{n}")).log]
    to_stop = [line for line in logs if "stops at gate" in line]
    assert sum(line.endswith("waits") for line in to_stop) > len(to_stop) / 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(LOOK_THEN_WRITE, id="look", marks=pytest.mark.long),
        pytest.param(WRONG_ORDER, id="order"),
    ],
)
def test_what_shows_only_between_statements_is_found(stopping: Explorer, fault: Fault) -> None:
    stopping.anew()
    plant(stopping.database.house, fault)
    found = found_within(stopping, fault)
    stopping.anew()
    assert found


def found_within(explorer: Explorer, fault: Fault) -> bool:
    """Whether a fault that is planted gives itself away."""
    for name in itertools.islice(names("random"), UNTIL_FOUND):
        history = explorer.run(explorer.trial(name, fault.areas))
        if fault.kinds & {violation.kind for violation in history.violations}:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(explorer: Explorer, fault: Fault) -> None:
    explorer.anew()
    plant(explorer.database.house, fault)
    found = found_within(explorer, fault)
    explorer.anew()
    assert found


def test_a_trial_is_the_same_again(explorer: Explorer) -> None:
    assert explorer.trial("r17") == explorer.trial("r17")
    assert explorer.trial("p3.5") == explorer.trial("p3.5")
    assert explorer.trial("r17") != explorer.trial("r18")


def test_what_others_lock_is_waited_for(
    explorer: Explorer, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Autovacuum does: no session goes ahead of a setup that such a one holds up."""
    trial = explorer.trial("r53", ("access", "queue"))
    empty = explorer.database.empty
    with psycopg.connect(explorer.database.dsn) as other:

        def empty_and_lock() -> None:
            empty()
            other.execute("lock table pgq.access_grant")
            aside(let_go)

        def let_go() -> None:
            with psycopg.connect(databases.dsn_of("postgres"), autocommit=True) as observer:
                wait_until_blocked(observer, explorer.runner.actors[0].link.pid)
            other.rollback()

        monkeypatch.setattr(explorer.database, "empty", empty_and_lock)
        history = explorer.run(trial)
    assert [line for line in history.log if line.startswith("house") and "waits" in line] == []
    assert history.violations == []
