"""Which database has the messages of a key, where a topic is spread over several of them.

Each of the databases is a shard, with a number from 0 on. A key belongs to the shard whose number
gives the greatest SHA-256 together with it (rendezvous hashing). So a shard that is added, with the
next number, takes its share of the keys from all others, and no key moves between those.
"""

from __future__ import annotations

from hashlib import sha256

__all__ = ["shard_of"]


def shard_of(key: str, shards: int) -> int:
    """The number of the shard that a key belongs to, from 0 to ``shards - 1``.

    ``shards`` is how many there are. In SQL it is the same as::

        select n
        from generate_series(0, :shards - 1) as s (n)
        order by sha256(convert_to(n || ':' || :key, 'UTF8')) desc
        limit 1
    """
    if shards < 1:
        raise ValueError("shards must be at least 1")
    return max(range(shards), key=lambda number: sha256(f"{number}:{key}".encode()).digest())
