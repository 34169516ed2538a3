"""Rows find their database, where a topic or a queue is spread over several."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pgq.shards import shard_of

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Router"]

_KNOWN = 100_000
"""How many keys are kept with their shards."""

Routed = tuple[int, str, "pyarrow.RecordBatch"]


class Router:
    """Divides the rows of a task among the shards.

    The column ``shard`` says where a row goes, else its key, and without one its content. So it is
    the same whichever task or attempt has the row. As many rows as make a chunk are gathered for
    each shard, since chunks of few rows cost the database more.
    """

    def __init__(self, shards: int, chunk_rows: int, chunk_bytes: int) -> None:
        self._shards = shards
        self._chunk_rows = chunk_rows
        self._chunk_bytes = chunk_bytes
        self._of_key: dict[str, int] = {}
        self._waiting: dict[tuple[int, str], list[pyarrow.RecordBatch]] = {}

    def routed(self, targeted: Iterable[tuple[str, pyarrow.RecordBatch]]) -> Iterator[Routed]:
        """The rows of each topic, or of the queue, by shard; in their order within each."""
        for topic, batch in targeted:
            for shard, part in self._divided(batch):
                waiting = self._waiting.setdefault((shard, topic), [])
                waiting.append(part)
                if (
                    sum(rows.num_rows for rows in waiting) >= self._chunk_rows
                    or sum(rows.nbytes for rows in waiting) >= self._chunk_bytes
                ):
                    yield shard, topic, _joined(waiting)
                    waiting.clear()
        for (shard, topic), waiting in self._waiting.items():
            if waiting:
                yield shard, topic, _joined(waiting)

    def _divided(self, batch: pyarrow.RecordBatch) -> Iterator[tuple[int, pyarrow.RecordBatch]]:
        import pyarrow.compute as pc

        numbers = self._numbers(batch)
        names = [name for name in batch.schema.names if name != "shard"]
        rows = batch.select(names)
        for shard in sorted(pc.unique(numbers).to_pylist()):
            if not 0 <= shard < self._shards:
                raise ValueError(
                    f"a row with a shard that is none of {self._shards}, numbered from 0: "
                    "the column shard says where a row goes; leave it out and the key does"
                )
            yield shard, rows.filter(pc.equal(numbers, shard))

    def _numbers(self, batch: pyarrow.RecordBatch) -> Any:
        """The shard of each row, as an array."""
        import pyarrow as pa
        import pyarrow.compute as pc

        numbers = pa.nulls(batch.num_rows, pa.int32())
        names = batch.schema.names
        if "key" in names:
            # each key is looked at once, and those without one stay null
            keys = batch.column(names.index("key")).dictionary_encode()
            shards = [self._of(key) for key in keys.dictionary.to_pylist()]
            numbers = pa.array(shards, pa.int32()).take(keys.indices)
        if "shard" in names:
            numbers = pc.coalesce(batch.column(names.index("shard")), numbers)
        if numbers.null_count:
            by_content = [
                zlib.crc32(content or b"") % self._shards for content in batch.column(0).to_pylist()
            ]
            numbers = pc.coalesce(numbers, pa.array(by_content, pa.int32()))
        return numbers

    def _of(self, key: str) -> int:
        number = self._of_key.get(key)
        if number is None:
            if len(self._of_key) >= _KNOWN:
                self._of_key.clear()
            number = self._of_key[key] = shard_of(key, self._shards)
        return number


def _joined(batches: list[pyarrow.RecordBatch]) -> Any:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
