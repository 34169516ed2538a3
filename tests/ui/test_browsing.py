"""Pages of messages: each once, in the order of its partition, in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from pgq import Client
from pgq.ui import _browsing
from support.page import Page

Place = tuple[int, int]


def places(document: Any) -> list[Place]:
    return [(one["partition"], one["log_offset"]) for one in document["messages"]]


def walk(page: Page, direction: str, document: Any, **parameters: Any) -> list[Place]:
    """All messages from a page on, page by page; on each the newer ones stand first."""
    names = {"older": "before", "newer": "since"}
    seen = places(document)
    while document[direction] is not None:
        document = page.read("messages", **{names[direction]: document[direction]}, **parameters)
        seen = seen + places(document) if direction == "older" else places(document) + seen
    return seen


@pytest.fixture
def many(client: Client) -> list[Place]:
    """320 messages in three partitions of different length."""
    client.admin.create_topic("t", partitions=3)
    client.admin.create_topic("empty", partitions=2)
    for partition, count in ((0, 7), (1, 203), (2, 110)):
        client.publish_batch(
            "t",
            list(range(count)),
            keys=[f"k{n % 10}" for n in range(count)],
            partition=partition,
        )
    return [(p, n + 1) for p, count in ((0, 7), (1, 203), (2, 110)) for n in range(count)]


def in_order(seen: list[Place]) -> bool:
    """The newer ones first, in each partition."""
    return all(
        of == sorted(of, reverse=True)
        for partition in range(3)
        for of in [[offset for number, offset in seen if number == partition]]
    )


def test_from_the_newest_to_the_oldest(page: Page, many: list[Place]) -> None:
    first = page.read("messages", topic="t")
    assert len(first["messages"]) == 50
    assert (first["at_end"], first["newer"]) == (True, None)
    seen = walk(page, "older", first, topic="t")
    assert sorted(seen) == many
    assert in_order(seen)


def test_from_an_offset_to_the_newest(page: Page, many: list[Place]) -> None:
    """The cursor of an address: the same offset in all partitions, as far as they have it."""
    first = page.read("messages", topic="t", since="0:1,1:1,2:1")
    assert (len(first["messages"]), first["at_end"], first["older"]) == (50, False, None)
    seen = walk(page, "newer", first, topic="t")
    assert sorted(seen) == many
    assert in_order(seen)
    high = walk(
        page, "newer", page.read("messages", topic="t", since="0:100,1:100,2:100"), topic="t"
    )
    assert sorted(high) == [place for place in many if place[1] >= 100]


def test_there_and_back(page: Page, many: list[Place]) -> None:
    """A page that was left is the same when one comes back."""
    first = page.read("messages", topic="t")
    second = page.read("messages", topic="t", before=first["older"])
    third = page.read("messages", topic="t", before=second["older"])
    back = page.read("messages", topic="t", since=third["newer"])
    assert sorted(places(back)) == sorted(places(second))
    again = page.read("messages", topic="t", since=back["newer"])
    assert sorted(places(again)) == sorted(places(first))


def test_one_partition(page: Page, many: list[Place]) -> None:
    first = page.read("messages", topic="t", partition=2)
    seen = walk(page, "older", first, topic="t", partition=2)
    assert seen == [(2, n) for n in range(110, 0, -1)]
    assert page.read("messages", topic="empty")["messages"] == []
    assert page.read("messages", topic="empty")["older"] is None


@pytest.mark.parametrize("direction", ["older", "newer"])
@pytest.mark.parametrize("looked_at", [20_000, 30])
def test_one_key(
    page: Page,
    many: list[Place],
    monkeypatch: pytest.MonkeyPatch,
    direction: str,
    looked_at: int,
) -> None:
    """Each of the key once, also where a page ends before it has enough of them."""
    monkeypatch.setattr(_browsing, "LOOKED_AT", looked_at)
    monkeypatch.setattr(_browsing, "BLOCK", 10)
    start = {} if direction == "older" else {"since": "0:1,1:1,2:1"}
    first = page.read("messages", topic="t", key="k3", **start)
    assert 0 < first["looked_at"] <= max(looked_at, 30)
    seen = walk(page, direction, first, topic="t", key="k3")
    assert sorted(seen) == [place for place in many if place[1] % 10 == 4]
    assert in_order(seen)


def test_a_time(page: Page, client: Client) -> None:
    client.admin.create_topic("t", partitions=2)
    client.publish_batch("t", [1, 2], partition=0)
    client.publish_batch("t", [3, 4], partition=1)
    moment = page.read("messages", topic="t", partition=1)["messages"][0]["published_at"]
    found = page.read("messages", topic="t", at=moment)
    assert sorted(places(found)) == [(1, 1), (1, 2)]
    assert found["older"] is not None
    assert len(page.read("messages", topic="t", at="10m ago")["messages"]) == 4
    assert page.read("messages", topic="t", at="2100-01-01")["messages"] == []
    later = page.read("messages", topic="t", at="2100-01-01")
    assert sorted(walk(page, "older", later, topic="t")) == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_what_came_meanwhile(page: Page, client: Client) -> None:
    """Behind the newest page are those that were published since."""
    client.admin.create_topic("t", partitions=2)
    client.publish_batch("t", [1, 2, 3], partition=0)
    first = page.read("messages", topic="t", since="0:1,1:1")
    assert first["newer"] is None
    client.publish_batch("t", [4], partition=1)
    again = page.read("messages", topic="t", since="0:4,1:1")
    assert places(again) == [(1, 1)]
