"""The exhaustive form: what is a pair, what is done of all, and that it finds what is planted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from explorer.every_pair import NEARNESS, ORDERS, names_of
from explorer.explore import Explorer
from explorer.footprints import measure, pairs_of, without_any
from explorer.pair_faults import PAIR_FAULTS
from explorer.plant import Fault, plant
from explorer.progress import Progress, share
from explorer.script import LEVELS
from support.databases import Databases

SEED = 1
UNTIL_FOUND = 60
"""Trials of the pairs of a function within which its planted fault has to be found."""

WORKERS = ("workers",)


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def explorer(databases: Databases, said: list[str]) -> Iterator[Explorer]:
    explorer = Explorer(
        databases.dsn_of("postgres"), SEED, name=databases.name("pairs"), say=said.append
    )
    yield explorer
    explorer.close()


@pytest.fixture
def workers(databases: Databases, said: list[str]) -> Iterator[Explorer]:
    explorer = Explorer(
        databases.dsn_of("postgres"),
        SEED,
        name=databases.name("workers"),
        areas=WORKERS,
        levels=LEVELS[:1],
        say=said.append,
    )
    yield explorer
    explorer.close()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ack", "cancel_job"),
        pytest.param("publish", "alter_topic", marks=pytest.mark.slow),
        pytest.param("", "", marks=pytest.mark.slow),
    ],
)
def test_no_pair_breaks_a_promise(explorer: Explorer, first: str, second: str) -> None:
    pairs = [(first, second)] if first else pairs_of(measure(explorer.runner, SEED, ("queue",)))
    for finding in explorer.explore(names_of(pairs, SEED)[: 2 if first else 12], seconds=600):
        pytest.fail(str(finding), pytrace=False)


def test_functions_share_a_table_when_one_of_them_writes_there(explorer: Explorer) -> None:
    footprints = measure(explorer.runner, SEED, (*WORKERS, "queue"))
    pairs = set(pairs_of(footprints))
    assert footprints["heartbeat"]["worker"] is True
    assert footprints["peek_jobs"]["job"] is False
    assert {("heartbeat", "delete_worker"), ("ack", "peek_jobs"), ("peek_jobs", "ack")} <= pairs
    assert not pairs & {("heartbeat", "ack"), ("peek_jobs", "peek_jobs")}
    some = set(pairs_of(footprints, only=["delete_worker"]))
    assert some == {pair for pair in pairs if "delete_worker" in pair}


@pytest.mark.slow
def test_every_call_succeeds_somewhere(explorer: Explorer) -> None:
    assert without_any(measure(explorer.runner, SEED)) == []


def test_a_pair_meets_at_every_mix_of_levels(explorer: Explorer) -> None:
    trial = explorer.trial("ack+nack/first/same")
    assert trial == explorer.trial("ack+nack/first/same")
    met = [step for step in trial.steps if step.session and step.call != "commit"]
    mixes = {
        (trial.level(one.session), trial.level(other.session))
        for one, other in zip(met[::2], met[1::2], strict=True)
    }
    assert mixes == {(one, other) for one in LEVELS for other in LEVELS}
    assert [step.call.partition("_")[0] for step in met] == ["ack", "nack"] * 9


def test_what_is_done_of_all() -> None:
    pairs = [("ack", "ack"), ("ack", "nack"), ("nack", "ack")]
    names = names_of(pairs, SEED)
    assert len(set(names)) == len(names) == 3 * len(ORDERS) * len(NEARNESS)
    near = [name for name in names if name.endswith("same")]
    assert names[: len(near)] == near
    of_one = {name for name in names if name.startswith("ack+ack")}
    done = of_one | {"ack+nack/old/same", "of+another/old/same"}
    assert share(names, done, 9) == [
        "all: 1 of 2 pairs in all orders, 2 in some; 15 of 42 orders of pairs,"
        " 135 of 378 with their levels (35.7 %)",
        "same: 1 of 2 pairs in all orders, 2 in some; 8 of 21 orders of pairs,"
        " 72 of 189 with their levels (38.1 %)",
        "other: 1 of 2 pairs in all orders, 1 in some; 7 of 21 orders of pairs,"
        " 63 of 189 with their levels (33.3 %)",
    ]
    assert share(names, names, 1)[0].endswith("42 of 42 with their levels (100.0 %)")


def test_a_changed_product_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "some" / "file"
    progress = Progress(path, {"product": "a"})
    progress.begin({"ack": {"job": True}})
    progress.note("ack+ack/old/same")
    again = Progress(path, {"product": "a"})
    assert again.footprints == {"ack": {"job": True}}
    assert again.done == {"ack+ack/old/same"}
    changed = Progress(path, {"product": "b"})
    assert (changed.footprints, changed.done) == (None, set())
    changed.begin({})
    assert Progress(path, {"product": "a"}).footprints is None


@pytest.mark.slow
def test_two_halves_are_the_whole(workers: Explorer, said: list[str], tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    only = ["delete_worker"]
    assert not list(workers.explore_pairs(path, 600, part=(1, 2), only=only))
    half = workers.trials
    _, *names = path.read_text().splitlines()
    assert len(set(names)) == len(names) == half
    assert f" {half} of {2 * half} orders of pairs" in said[-3]
    assert not list(workers.explore_pairs(path, 600, only=only))
    assert workers.trials == 2 * half
    _, *names = path.read_text().splitlines()
    assert len(set(names)) == len(names) == 2 * half
    assert said[-3].endswith("(100.0 %)")
    assert not list(workers.explore_pairs(path, 600, only=only))
    assert workers.trials == 2 * half


@pytest.mark.slow
def test_what_was_found_is_not_done(workers: Explorer, tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    # what a faulty function locks says nothing
    assert not list(workers.explore_pairs(path, 0))
    plant(
        workers.database.house,
        Fault("delete_worker", "begin return true; end", WORKERS, frozenset({"worker differs"})),
    )
    [*found] = islice(workers.explore_pairs(path, 600, only=["delete_worker"]), 1)
    _, *names = path.read_text().splitlines()
    assert found[0].violation.kind == "worker differs"
    assert found[0].trial.name not in names


@pytest.mark.slow
@pytest.mark.parametrize("fault", PAIR_FAULTS.values(), ids=list(PAIR_FAULTS))
def test_a_planted_fault_is_found(explorer: Explorer, fault: Fault) -> None:
    explorer.anew()
    plant(explorer.database.house, fault)
    pairs = pairs_of(measure(explorer.runner, SEED, fault.areas), only=[fault.function])
    found = any(
        fault.kinds
        & {violation.kind for violation in explorer.run(explorer.trial(name)).violations}
        for name in names_of(pairs, SEED)[:UNTIL_FOUND]
    )
    explorer.anew()
    assert found
