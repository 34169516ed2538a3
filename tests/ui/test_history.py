"""What the server remembers of the last hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pgq import Client
from pgq.ui._history import History
from pgq.ui._source import Problem, Source
from support.page import Page
from support.waiting import wait_until


@pytest.fixture
def history(dsn: str) -> Iterator[History]:
    """One that looks when it is told to."""
    source = Source(dsn)
    yield History(source, interval=0.0, keep=4)
    source.close()


def figures(history: History, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = history.series(*names)["figures"]
    return found


def test_lag_over_time(history: History, client: Client) -> None:
    client.admin.create_topic("t", partitions=2)
    client.admin.create_group("t", "g")
    for count in (1, 2, 3):
        client.publish_batch("t", list(range(count)), partition=count % 2)
        history._look()
    assert figures(history, "groups", "t", "g")["lag"] == [1, 3, 6]
    assert figures(history, "all", "all")["lag"] == [1, 3, 6]
    assert figures(history, "topics", "t")["messages"] == [1, 3, 6]
    rates = figures(history, "topics", "t")["published_per_second"]
    assert rates[0] is None
    assert all(rate > 0 for rate in rates[1:])
    client.consume("t", "g", partition=1)
    history._look()
    assert figures(history, "groups", "t", "g")["lag"] == [1, 3, 6, 2]
    assert figures(history, "groups", "t", "g")["consumed_per_second"][-1] > 0


def test_the_oldest_goes_and_what_comes_later_begins_later(
    history: History, client: Client
) -> None:
    client.admin.create_queue("old")
    for number in range(6):
        if number == 4:
            client.admin.create_queue("new")
        client.enqueue("old", number)
        history._look()
    assert figures(history, "queues", "old")["ready"] == [3, 4, 5, 6]
    assert figures(history, "queues", "new")["ready"] == [None, None, 0, 0]
    assert len(history.series("queues", "old")["times"]) == 4
    history._look()
    assert figures(history, "queues", "new")["ready"] == [None, 0, 0, 0]


def test_what_was_dropped_is_forgotten(history: History, client: Client) -> None:
    client.admin.create_queue("q")
    client.admin.create_topic("t")
    history._look()
    client.admin.drop_queue("q")
    history._look()
    assert figures(history, "queues", "q") == {}
    assert len(figures(history, "topics", "t")["messages"]) == 2
    client.admin.create_queue("q")
    history._look()
    assert figures(history, "queues", "q")["ready"] == [None, None, 0]


def test_two_looks_that_are_close_are_one(dsn: str, client: Client) -> None:
    """After an act it looks at once: the figures are new, the curves have no step too many."""
    client.admin.create_topic("t", partitions=1)
    client.admin.create_queue("q")
    source = Source(dsn)
    history = History(source, interval=1000, keep=4)
    history._look()
    client.publish("t", 1)
    client.enqueue("q", 1)
    history._look()
    assert figures(history, "queues", "q")["ready"] == [0]
    latest = history.latest()
    assert latest["queues"][0]["ready"] == 1
    assert latest["topics"][0]["messages"] == 1
    assert latest["topics"][0]["published_per_second"] is None
    source.close()


def test_it_looks_by_itself(page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=1)

    def seen() -> int:
        return len(page.read("history", kind="topics", name="t")["figures"].get("messages", []))

    wait_until(lambda: seen() >= 2)
    assert page.read("history", kind="topics", name="none")["figures"] == {}
    assert page.ask("history", kind="topics")[0] == 400


def test_a_slow_look_is_taken_less_often(history: History, client: Client) -> None:
    """The server of the database is left in peace nineteen parts of twenty."""
    history._look()
    assert history._pause() == history._took * 20
    assert history.latest()["every"] == history._pause()


def test_a_problem_that_lasts_costs_nothing(history: History, client: Client) -> None:
    """Each who asks gets one of his own: an error that is raised again grows each time."""
    client.connection.execute("drop schema pgq cascade")
    history._look()
    seen = []
    for _ in range(3):
        with pytest.raises(Problem) as caught:
            history.latest()
        seen.append((caught.value, len(caught.traceback)))
    assert len({id(problem) for problem, _ in seen}) == 3
    assert len({depth for _, depth in seen}) == 1
