"""One call looks at 10,000 rows and no more, whatever the filter finds and whosever they are."""

from __future__ import annotations

import pytest

from support.filters import BY_FILTER, fill, meant, walk
from support.session import Session

pytestmark = pytest.mark.slow

EVERY = pytest.mark.parametrize("function", BY_FILTER)

PART = 10_000


@EVERY
def test_a_filter_that_finds_nothing(connection: Session, function: str) -> None:
    """It ends after as many calls as there are parts; each says how many of the queue it saw."""
    queue, _ = fill(connection, function, 25_000)
    results = walk(connection, function, queue=queue, label="nobody's")
    assert [(result.taken, result.seen) for result in results] == [
        (0, PART // 2),
        (0, PART // 2),
        (0, 2_500),
    ]


@EVERY
def test_the_last_part_is_full(connection: Session, function: str) -> None:
    """Then one call more finds that there are none."""
    queue, _ = fill(connection, function, 2 * PART)
    results = walk(connection, function, queue=queue, label="nobody's")
    assert [result.seen for result in results] == [PART // 2, PART // 2, 0]


@EVERY
def test_all_of_them(connection: Session, function: str) -> None:
    """A walk takes each once, and none of the other queue."""
    queue, other = fill(connection, function, 25_000)
    dry = walk(connection, function, queue=queue, label="many", dry_run=True)
    assert [result.taken for result in dry] == [PART // 2, PART // 2, 2_500]
    others = meant(connection, function, other)
    results = walk(connection, function, queue=queue, label="many")
    assert sum(result.taken for result in results) == 12_500
    assert meant(connection, function, queue) == set()
    assert meant(connection, function, other) == others


@EVERY
def test_more_than_a_call_looks_at(connection: Session, function: str) -> None:
    """max_jobs beyond 10,000 changes nothing, and less ends a call early."""
    queue, _ = fill(connection, function, 25_000)
    given = {"queue": queue, "label": "many"}
    assert connection.call(function, **given, max_jobs=1_000_000, dry_run=True).taken == PART // 2
    first = connection.call(function, **given, max_jobs=3)
    assert (first.taken, first.seen) == (3, 3)
