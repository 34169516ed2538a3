"""A bounded run of the fuzzer of arguments; ``make fuzz`` runs it for longer.

What a failure prints is a script for psql, in a database as ``World`` prepares it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from explorer.plant import Fault
from fuzz.faults import FAULTS
from fuzz.fuzzer import Fuzzer
from fuzz.large import large
from fuzz.world import World
from support.databases import Databases
from support.house import refuse

SEED = 1

SEEDS = (1, 2, 3, 4, 5, 6)
UNTIL_FOUND = 120
"""Plans for the function alone, of each seed, within which a planted fault has to be found."""


@pytest.fixture(scope="module")
def world(databases: Databases) -> Iterator[World]:
    world = World(databases.dsn_of("postgres"), databases.name("fuzz"), databases.name("template"))
    yield world
    world.close()


def search(world: World, examples: int, most_calls: int) -> None:
    """Plans for each function in turn."""
    fuzzer = Fuzzer(world, SEED, most_calls=most_calls)
    world.counts.clear()
    for number in range(len(fuzzer.functions)):
        found = fuzzer.batch(number, examples)
        if found is not None:
            pytest.fail(str(found), pytrace=False)
    succeeded = {function for (function, code) in world.counts if code == "success"}
    refuse(f"{function} never succeeded" for function in sorted({*fuzzer.functions} - succeeded))


def test_no_argument_breaks_a_promise(world: World) -> None:
    search(world, 2, 3)


@pytest.mark.slow
def test_no_argument_breaks_a_promise_after_others(world: World) -> None:
    search(world, 7, 8)


@pytest.mark.slow
def test_contents_of_a_hundred_million_bytes(world: World) -> None:
    world.counts.clear()
    world.play(large(world.catalog, 100_000_000))
    refuse(f"{function}: {code}" for function, code in world.counts if code != "success")


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_planted_fault_is_found(world: World, fault: Fault) -> None:
    options = {"functions": [fault.function], "most_calls": 3, "committed": 0, "shrinking": 0}
    with world.planted(fault):
        for seed in SEEDS:
            found = Fuzzer(world, seed, **options).batch(0, UNTIL_FOUND)
            if found is not None:
                break
    assert found is not None
    assert found.finding.kind in fault.kinds, found


def test_a_seed_gives_the_same_plans_again(world: World) -> None:
    def first(seed: int) -> list[str]:
        fuzzer = Fuzzer(world, seed, committed=0)
        drawn: list[str] = []
        fuzzer.play = lambda plan: drawn.append(str(plan))  # type: ignore[method-assign]
        fuzzer.batch(0, 5)
        return drawn

    assert first(3) == first(3) != first(4)
