"""Which shard a key belongs to: the same everywhere, evenly, and few keys move."""

from __future__ import annotations

from collections import Counter

import pytest

from pgq.shards import shard_of
from support.session import Session

KEYS = [*(f"key {number}" for number in range(3000)), "", "ü", "日本", "'; --", "a:b", "0:a"]


@pytest.mark.parametrize("shards", [1, 2, 3, 11])
def test_sql_finds_the_same_shard(log: Session, shards: int) -> None:
    """By the statement that the documentation shows."""
    found = log.execute(
        """
        select k.key, s.n
        from unnest(%s::text[]) as k (key)
        cross join lateral (
            select n
            from generate_series(0, %s - 1) as s (n)
            order by sha256(convert_to(n || ':' || k.key, 'UTF8')) desc
            limit 1
        ) as s
        """,
        [KEYS, shards],
    ).fetchall()
    assert [tuple(row) for row in found] == [(key, shard_of(key, shards)) for key in KEYS]


def test_keys_are_shared_evenly() -> None:
    """Each shard has its part, give or take."""
    counts = Counter(shard_of(key, 4) for key in KEYS)
    assert sorted(counts) == [0, 1, 2, 3]
    assert min(counts.values()) > 0.9 * len(KEYS) / 4


def test_keys_move_to_the_new_shard_alone() -> None:
    """One that is added takes its part of all the others; no key moves between those."""
    moved = [
        (before, after)
        for key in KEYS
        if (before := shard_of(key, 3)) != (after := shard_of(key, 4))
    ]
    assert {after for _, after in moved} == {3}
    assert {before for before, _ in moved} == {0, 1, 2}
    assert 0.2 < len(moved) / len(KEYS) < 0.3


def test_it_needs_a_shard() -> None:
    """None is no number of them."""
    with pytest.raises(ValueError, match="at least 1"):
        shard_of("a", 0)
