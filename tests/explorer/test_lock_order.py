"""Calls take locks in the order that the page of rules numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from explorer.explore import Explorer, names
from explorer.lock_order import install_reports, numbers, out_of_order
from support.databases import Databases
from support.house import ROOT

ORDER = numbers((ROOT / "sql" / "RULES.md").read_text())

MEANT = {
    # a publish to several partitions: who waits for a class alone holds none of its partitions
    ("storage_class", "partition"),
    # cleanup seals one class after another; it waits 200 ms at most, and no other call does this
    ("storage_class", "queue"),
    # a publish with an idempotency key above READ COMMITTED: this lock is released at once, by a
    # subtransaction
    ("topic", "partition"),
}

WRONG = """
create function pgq._wrong() returns void language plpgsql as $$
begin
    perform from pgq.queue as q where q.queue = 'q' for update;
    perform
    from pgq.topic as t
    where t.topic = 't'
    for no key update;
end
$$
"""


@pytest.fixture
def explorer(databases: Databases) -> Iterator[Explorer]:
    """One of a database whose functions report their locks."""
    explorer = Explorer(
        databases.dsn_of("postgres"), 1, name=databases.name("locks"), say=lambda told: None
    )
    explorer.database.house.rows(WRONG)
    assert install_reports(explorer.database.house) > 60
    yield explorer
    explorer.close()


def test_every_number_is_of_a_table(explorer: Explorer) -> None:
    tables = {
        row["relname"]
        for row in explorer.database.house.rows(
            "select relname from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'p')"
        )
    }
    assert sorted(set(ORDER.values())) == list(range(1, 20))
    assert set(ORDER) <= tables


def test_calls_keep_the_order(explorer: Explorer) -> None:
    for mode, trials in (("random", 40), ("pairs", 30)):
        for finding in explorer.explore(itertools.islice(names(mode), trials), seconds=600):
            pytest.fail(str(finding), pytrace=False)
    house = explorer.database.house
    met = house.rows("select distinct relation from public.lock_report")
    assert len({row["relation"] for row in met} & set(ORDER)) > 9
    assert out_of_order(house, ORDER) <= MEANT


def test_a_call_that_does_not_is_found(explorer: Explorer) -> None:
    house = explorer.database.house
    house.rows("select pgq._wrong()")
    assert out_of_order(house, ORDER) == {("queue", "topic")}
