"""A bounded run of the explorer of interleavings; ``make explore`` runs it for longer.

What a failure prints ends with the arguments that replay it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from explorer.explore import Explorer, names
from explorer.faults import FAULTS
from explorer.plant import Fault, plant
from support.databases import Databases

SEED = 1
TRIALS = {"random": 140, "pairs": 120}
UNTIL_FOUND = 150
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


@pytest.mark.parametrize("mode", ["random", "pairs"])
def test_no_interleaving_breaks_a_promise(explorer: Explorer, mode: str) -> None:
    some = itertools.islice(names(mode), TRIALS[mode])
    for finding in explorer.explore(some, seconds=600):
        pytest.fail(str(finding), pytrace=False)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_planted_fault_is_found(explorer: Explorer, fault: Fault) -> None:
    explorer.anew()
    plant(explorer.database.house, fault)
    found = set()
    for name in itertools.islice(names("random"), UNTIL_FOUND):
        history = explorer.run(explorer.trial(name, fault.areas))
        found |= {violation.kind for violation in history.violations}
        if found & fault.kinds:
            break
    explorer.anew()
    assert found & fault.kinds


def test_a_trial_is_the_same_again(explorer: Explorer) -> None:
    assert explorer.trial("r17") == explorer.trial("r17")
    assert explorer.trial("p3.5") == explorer.trial("p3.5")
    assert explorer.trial("r17") != explorer.trial("r18")
